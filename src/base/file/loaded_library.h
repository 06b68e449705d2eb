// A shared library loaded from bytes. It goes through an anonymous memory file, so no file is left behind and a
// temporary folder that forbids execution does no harm.
//
//   LoadedLibrary library(bytes, "softmax");
//   const LibraryFunction<void(const float*, float*)> softmax = library.checked<void(const float*, float*)>("softmax");
//   softmax(x, y);                       // after library.close(): an error that names both
//
// Closed when the object goes. Whoever calls a function at every step of an inner loop takes its bare address by function(), and then
// sees to it himself that the library outlives it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace toroid {

// Throws Error{Internal}: "symbol 'f' asked of the closed library 'one'".
[[noreturn]] void refuse_closed_library(const std::string& symbol, const std::string& library);

template <class Signature>
class LibraryFunction;

// A function of a library that may be closed meanwhile. Copies are cheap; any thread may call.
template <class Result, class... Arguments>
class LibraryFunction<Result(Arguments...)> {
 public:
  // Throws Error{Internal} when the library is closed. One that is closed during the call is unloaded after it.
  Result operator()(Arguments... arguments) const {
    const std::shared_ptr<void> open = library_.lock();
    if (!open) refuse_closed_library(name_, library_name_);
    return function_(arguments...);
  }
  bool is_open() const { return !library_.expired(); }

 private:
  friend class LoadedLibrary;
  LibraryFunction(Result (*function)(Arguments...), std::weak_ptr<void> library, std::string name, std::string library_name)
      : function_(function), library_(std::move(library)), name_(std::move(name)), library_name_(std::move(library_name)) {}

  Result (*function_)(Arguments...);
  std::weak_ptr<void> library_;
  std::string name_, library_name_;
};

class LoadedLibrary {
 public:
  // `name` shows up in messages and in /proc/PID/maps. Throws Error{Environment} with the loader's reason and how to mend it.
  LoadedLibrary(std::string_view bytes, std::string name);

  // The address of a symbol; null where the library lacks it. Throws Error{Internal} when it is closed.
  void* find(const std::string& symbol_name) const;
  // The same. Throws Error{Environment} when the library lacks it, Error{Internal} when it is closed.
  void* symbol(const std::string& symbol_name) const;
  // The bare function, which must not outlive the library: library.function<void(const float*, int64_t)>("softmax")
  template <class Signature>
  Signature* function(const std::string& symbol_name) const {
    return reinterpret_cast<Signature*>(symbol(symbol_name));
  }
  // The same with a check at each call.
  template <class Signature>
  LibraryFunction<Signature> checked(const std::string& symbol_name) const {
    return {function<Signature>(symbol_name), handle_, symbol_name, name_};
  }

  const std::string& name() const { return name_; }
  bool is_open() const { return handle_ != nullptr; }
  // Unloads now, or when the calls of checked functions that are running are over.
  void close() { handle_.reset(); }

 private:
  std::string name_;
  std::shared_ptr<void> handle_;  // of the loader
};

}  // namespace toroid
