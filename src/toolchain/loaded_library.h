// A shared library loaded from bytes. It goes through an anonymous memory file, so no file is left behind and a
// temporary folder that forbids execution does no harm. Unloaded when the object goes; functions taken from it must not
// outlive it.
#pragma once

#include <string>
#include <string_view>

namespace toroid {

class LoadedLibrary {
 public:
  // `name` shows up in messages and in /proc/PID/maps. Throws Error{Environment} with the loader's reason.
  LoadedLibrary(std::string_view bytes, std::string name);
  LoadedLibrary(LoadedLibrary&& other) noexcept;
  LoadedLibrary& operator=(LoadedLibrary&& other) noexcept;
  ~LoadedLibrary();

  // The address of a symbol; throws Error when the library lacks it, and TOROID_CHECKs that it is still open.
  void* symbol(const std::string& symbol_name) const;
  // library.function<void(const float*, int64_t)>("softmax")
  template <class Signature>
  Signature* function(const std::string& symbol_name) const {
    return reinterpret_cast<Signature*>(symbol(symbol_name));
  }

  const std::string& name() const { return name_; }
  bool is_open() const { return handle_ != nullptr; }
  // Unloads now.
  void close();

 private:
  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace toroid
