// toroid version
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "cache/code_identity.h"
#include "command.h"
#include "flags/flags.h"
#include "support/files/embedded_files.h"

namespace toroid::cli {
namespace fs = std::filesystem;
namespace {

// In the program itself, or a file beside it, or where an installation puts that.
std::string licences() {
  constexpr const char* kFile = "licences.txt";
  if (const auto files = embedded_files()) {
    std::optional<std::string> text = embedded_file(*files, kFile);
    TOROID_CHECK(text, "this program has no {}", kFile);
    return std::move(*text);
  }
  std::error_code ignored;
  const fs::path own = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& path : {own / kFile, own.parent_path() / "share/doc/toroid" / kFile}) {
    if (fs::exists(path)) return read_file(path);
  }
  throw Error(ErrorKind::Environment,
              fmt::format("{} is not in {} or {}", kFile, own.string(), (own.parent_path() / "share/doc/toroid").string()))
      .help("build or install toroid anew");
}

}  // namespace

int cmd_version(int argc, const char* const* argv) {
  bool wants_licences = false;
  Flags flags("toroid version", "Says which toroid this is.");
  flags.add_flag("--licences", wants_licences, "print the licences of all that is in it, and in the packages that it makes");
  if (const auto status = flags.read(argc, argv)) return *status;
  if (wants_licences) {
    fmt::print("{}", licences());
    return 0;
  }
  fmt::print("toroid {}, {}, by g++ {}, build {}\n", TOROID_VERSION,
             embedded_files() ? "portable (x86-64 Linux with glibc 2.28 or later)" : "for this system's libraries", __VERSION__,
             code_identity().substr(0, 16));
  return 0;
}

}  // namespace toroid::cli
