#include "tune/identity.h"

#include <unistd.h>

#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "base/machine/machine.h"
#include "cache/code_identity.h"

namespace toroid::tune {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string cpuinfo() {
  try {
    return read_file("/proc/cpuinfo");
  } catch (const Error&) {  // a sandbox without /proc: the rest of the identity has to do
    return "";
  }
}

}  // namespace

std::string processor_in(std::string_view cpuinfo) {
  constexpr std::pair<std::string_view, std::string_view> kFacts[] = {
      {"model name", ""},        {"cpu family", "family "},           {"model", "model "},
      {"stepping", "stepping "}, {"CPU implementer", "implementer "}, {"CPU part", "part "}};
  std::string text;
  const std::string_view first = cpuinfo.substr(0, cpuinfo.find("\n\n"));
  for (const auto& [label, words] : kFacts) {
    for (size_t at = 0; at < first.size();) {
      const std::string_view line = first.substr(at, first.find('\n', at) - at);
      at += line.size() + 1;
      const size_t colon = line.find(':');
      if (colon == std::string_view::npos || trimmed(line.substr(0, colon)) != label) continue;
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ", words, trimmed(line.substr(colon + 1)));
      break;
    }
  }
  return text.empty() ? "unknown processor" : text;
}

Identity identity_of_this_machine() {
  static const std::string processor =
      fmt::format("{}; {} processors; caches {}, {}, {} bytes", processor_in(cpuinfo()), std::thread::hardware_concurrency(),
                  ::sysconf(_SC_LEVEL1_DCACHE_SIZE), ::sysconf(_SC_LEVEL2_CACHE_SIZE), ::sysconf(_SC_LEVEL3_CACHE_SIZE));
  return {.machine = processor, .isa = machine().name(), .toolchain = "toroid " + code_identity()};
}

void Identity::add_to(KeyBuilder& key) const { key.add("machine", machine).add("isa", isa).add("toolchain", toolchain); }

}  // namespace toroid::tune
