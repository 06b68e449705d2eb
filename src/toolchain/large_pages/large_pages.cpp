#include "toolchain/large_pages/large_pages.h"

#include <cstdlib>
#include <fstream>

#include <sys/statvfs.h>

#include "base/error.h"
#include "base/file/file.h"
#include "support/log.h"
#include "support/text/lines.h"
#include "toolchain/large_pages/library.h"

namespace toroid {
namespace {

constexpr const char* kLibraryName = "large_pages.so";
constexpr const char* kEnabled = "/sys/kernel/mm/transparent_hugepage/enabled";

// Of this machine.
bool are_given_on_request() {
  try {
    return gives_large_pages_on_request(read_file(kEnabled));
  } catch (const Error&) {
    return false;  // another kernel, or one without large pages
  }
}

// Spaces and colons part the names of what is loaded first.
bool can_be_loaded_from(const std::filesystem::path& folder) {
  struct statvfs system = {};
  return folder.string().find_first_of(" :") == std::string::npos && ::statvfs(folder.c_str(), &system) == 0 &&
         (system.f_flag & ST_NOEXEC) == 0;
}

}  // namespace

bool gives_large_pages_on_request(std::string_view enabled) { return enabled.find("[madvise]") != enabled.npos; }

void ask_for_large_pages(ProcessOptions& compiler, const std::filesystem::path& folder) {
  static const bool is_worthwhile = are_given_on_request() && !kLargePagesLibrary.empty();
  if (!is_worthwhile || !can_be_loaded_from(folder)) return;
  const std::filesystem::path library = folder / kLibraryName;
  std::ofstream file(library, std::ios::binary);  // durable it need not be
  file << kLargePagesLibrary;
  file.close();
  if (!file) return log_debug("compilers have small pages: '{}' cannot be written", library.string());
  const char* const others = std::getenv("LD_PRELOAD");  // sanitizers want to be the first
  compiler.environment.emplace_back("LD_PRELOAD", others == nullptr ? library.string() : others + (":" + library.string()));
}

std::string without_words_about_large_pages(std::string_view words) {
  const std::string name = std::string("/") + kLibraryName + "' from LD_PRELOAD";
  return without_lines(words, [&](std::string_view line) { return line.find(name) != line.npos; });
}

}  // namespace toroid
