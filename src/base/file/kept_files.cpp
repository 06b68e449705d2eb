#include "base/file/kept_files.h"

#include <cctype>
#include <cstdlib>

#include "base/error.h"
#include "base/fail.h"
#include "base/file/checksum.h"
#include "base/file/file.h"
#include "base/format.h"

namespace toroid {
namespace fs = std::filesystem;

std::optional<fs::path> kept_files_folder() {
  const char* variable = std::getenv("TOROID_KEEP_FILES");
  if (variable == nullptr || *variable == '\0') return std::nullopt;
  ErrorContext context("keeping files, as TOROID_KEEP_FILES asks");
  std::error_code failure;
  fs::create_directories(variable, failure);
  if (failure) throw file_error("make the folder", variable, failure.value());
  return fs::path(variable);
}

fs::path sources_folder() {
  if (const std::optional<fs::path> folder = kept_files_folder()) return fs::absolute(*folder);
  fail(ErrorKind::InvalidOption, Help{"name one with TOROID_KEEP_FILES=DIR"},
       "a debug build needs a folder in which the generated sources stay for the debugger");
}

fs::path keep_file(const fs::path& folder, std::string_view name, std::string_view extension, std::string_view bytes,
                   unsigned permissions) {
  std::string stem;
  for (const char c : name.substr(0, 60)) stem += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  fs::path path = folder / formatted("{}-{}.{}", stem, hex(checksum(as_bytes(Span(bytes))).low), extension);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) write_file_atomically(path, bytes, permissions);
  return path;
}

}  // namespace toroid
