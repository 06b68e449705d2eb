#include "base/file/system_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "base/error.h"
#include "base/fail.h"

namespace toroid {

SystemLibrary::SystemLibrary(std::string what, const char* variable, std::vector<std::string> names) : what_(std::move(what)) {
  if (const char* own = std::getenv(variable); own != nullptr && *own != '\0') names = {own};
  std::string tried;
  for (size_t i = 0; i < names.size() && handle_ == nullptr; ++i) {
    name_ = names[i];
    handle_ = dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
    tried += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + name_;
  }
  if (handle_ == nullptr) absence_ = formatted("no {}: {} cannot be opened", what_, tried);
}

void SystemLibrary::require(const char* help) const {
  if (absence_) throw Error(ErrorKind::Environment, *absence_).help(help);
}

void* SystemLibrary::find(const char* symbol) const { return handle_ != nullptr ? dlsym(handle_, symbol) : nullptr; }

void* SystemLibrary::need(const char* symbol) const {
  if (absence_) throw Error(ErrorKind::Environment, *absence_);
  void* const address = find(symbol);
  if (address == nullptr) fail(ErrorKind::Environment, "{} of {} has no function {}", name_, what_, symbol);
  return address;
}

}  // namespace toroid
