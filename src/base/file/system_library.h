// A library of the system that a part of toroid needs and the rest does not: opened by name when it is first asked for, never closed.
//
//   static const SystemLibrary library("NVRTC", "TOROID_NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12"});
//   const auto version = library.function<int(int*, int*)>("nvrtcVersion");
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

}  // namespace toroid
