#include "toolchain/compiler_environment.h"

#include <cstdlib>

#include <fmt/format.h>

#include "base/error.h"

extern char** environ;

namespace toroid {
namespace {

// GCC's manual, "Environment Variables Affecting GCC"; ld.so(8); the wrappers of Nix. Withheld are, from there: CPATH, C_INCLUDE_PATH,
// CPLUS_INCLUDE_PATH, LIBRARY_PATH, LD_RUN_PATH, DEPENDENCIES_OUTPUT, SOURCE_DATE_EPOCH, CCC_OVERRIDE_OPTIONS and others. Our sources
// include nothing and link what we name, so those could only do harm.
constexpr const char* kDeciding[] = {"COMPILER_PATH", "GCC_EXEC_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD",
                                     "NIX_CC*",       "NIX_BINTOOLS*",   "NIX_CFLAGS*",     "NIX_CXXSTDLIB*",
                                     "NIX_LDFLAGS*",  "NIX_HARDENING*",  "NIX_ENFORCE*",    "NIX_DYNAMIC_LINKER*"};
// Where programs, and launchers such as ccache, find things.
constexpr const char* kFinding[] = {"PATH",     "HOME",      "TMPDIR",   "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR",
                                    "CCACHE_*", "SCCACHE_*", "DISTCC_*", "ICECC*"};
constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";  // as find_program has it

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

}  // namespace

std::map<std::string, std::string> deciding_variables() {
  std::map<std::string, std::string> set;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    for (const std::string_view each : kDeciding) {
      const bool is_meant = each.ends_with('*') ? name.starts_with(each.substr(0, each.size() - 1)) : name == each;
      if (is_meant && equals != text.npos) set.emplace(name, text.substr(equals + 1));
    }
  }
  return set;
}

std::string finding_variables() {
  std::string text = std::string("PATH=") + (is_set("PATH") ? std::getenv("PATH") : kDefaultPath) + "\n";
  for (const auto& [name, value] : deciding_variables()) text += name + "=" + value + "\n";
  return text;
}

std::chrono::milliseconds compiler_timeout() {
  if (!is_set("TOROID_COMPILE_TIMEOUT_S")) return std::chrono::minutes(3);
  const char* const variable = std::getenv("TOROID_COMPILE_TIMEOUT_S");
  char* end = nullptr;
  const double seconds = std::strtod(variable, &end);
  if (*end != '\0' || !(seconds > 0 && seconds < 1e6)) {
    throw Error(ErrorKind::InvalidOption, fmt::format("TOROID_COMPILE_TIMEOUT_S is '{}', which is no time", variable))
        .help("give the seconds that one run of the compiler may take, as in TOROID_COMPILE_TIMEOUT_S=180");
  }
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

ProcessOptions compiler_process(std::vector<std::string> argv, const std::filesystem::path& folder) {
  ProcessOptions options = {.argv = std::move(argv), .environment = {{"LC_ALL", "C.UTF-8"}}};
  if (!folder.empty()) options.environment.emplace_back("TMPDIR", folder.string());
  if (!is_set("PATH")) options.environment.emplace_back("PATH", kDefaultPath);
  options.inherited.emplace(std::begin(kDeciding), std::end(kDeciding));
  options.inherited->insert(options.inherited->end(), std::begin(kFinding), std::end(kFinding));
  return options;
}

}  // namespace toroid
