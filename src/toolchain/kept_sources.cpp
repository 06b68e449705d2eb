#include "toolchain/kept_sources.h"

#include "base/file/file.h"

namespace toroid {

std::filesystem::path KeptSources::keep(const std::string& name, std::string_view source) {
  const std::lock_guard lock(mutex_);
  if (!folder_.empty()) {
    write_file_atomically(folder_ / name, source);
    return folder_ / name;
  }
  TempFolder folder("toroid-failed");
  write_file_atomically(folder.path() / name, source);
  folder_ = folder.keep();
  return folder_ / name;
}

}  // namespace toroid
