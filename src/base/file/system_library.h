// A library of the system that a part of toroid needs and the rest does not: opened by name when it is first asked for, never closed.
//
//   static const SystemLibrary library("NVRTC", "TOROID_NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12"});
//   const auto version = library.function<int(int*, int*)>("nvrtcVersion");
//
// Many of its functions are members of a struct, by a table of them:
//
//   #define TOROID_NVRTC_FUNCTIONS(F) F(version, "nvrtcVersion", int(int*, int*)) …
//   struct Functions {
//     TOROID_LIBRARY_FUNCTIONS(TOROID_NVRTC_FUNCTIONS)
//   };
//   Functions functions;
//   functions.look_up(library);
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace toroid {

class SystemLibrary {
 public:
  // The first of the names that opens. `variable`: of the environment; when it is set, it is the only name.
  SystemLibrary(std::string what, const char* variable, std::vector<std::string> names);

  // "no NVRTC: libnvrtc.so.13 and libnvrtc.so.12 cannot be opened"; none when it is there.
  const std::optional<std::string>& absence() const { return absence_; }
  const std::string& name() const { return name_; }  // the file that was opened
  // Throws Error{Environment} with absence(), and what to do about it, where it is absent.
  void require(const char* help) const;
  // Null where it lacks the symbol, or is absent.
  void* find(const char* symbol) const;
  // Throws Error{Environment} where it lacks the symbol, or is absent.
  template <class Signature>
  Signature* function(const char* symbol) const {
    return reinterpret_cast<Signature*>(need(symbol));
  }

 private:
  void* need(const char* symbol) const;

  std::string what_, name_;
  void* handle_ = nullptr;
  std::optional<std::string> absence_;
};

#define TOROID_LIBRARY_MEMBER(name, symbol, ...) \
  using name##_t = __VA_ARGS__;                  \
  name##_t* name = nullptr;
#define TOROID_LIBRARY_LOOK_UP(name, symbol, ...) name = library.function<name##_t>(symbol);
// Members `name`, null at first, and look_up(), which throws as SystemLibrary::function.
#define TOROID_LIBRARY_FUNCTIONS(TABLE) \
  TABLE(TOROID_LIBRARY_MEMBER)          \
  void look_up(const SystemLibrary& library) { TABLE(TOROID_LIBRARY_LOOK_UP) }

}  // namespace toroid
