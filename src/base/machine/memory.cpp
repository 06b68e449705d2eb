#include "base/machine/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace toroid {
namespace {

// "MemAvailable:   123 kB" in bytes.
uint64_t meminfo(const std::string& wanted) {
  std::ifstream file("/proc/meminfo");
  std::string label, unit;
  for (uint64_t kilobytes = 0; file >> label >> kilobytes; std::getline(file, unit)) {
    if (label == wanted + ":") return kilobytes * 1024;
  }
  return UINT64_MAX;
}

// A file of one number; "max" and no file are UINT64_MAX.
uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t bytes = 0;
  return file >> bytes ? bytes : UINT64_MAX;
}

uint64_t address_space() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

}  // namespace

GroupMemory memory_of_groups(std::string_view groups, const std::string& root) {
  GroupMemory least;
  for_each_control_group(groups, "memory", root, [&](const std::string& folder, int version) {
    const bool is_new = version == 2;
    const uint64_t limit = number_in(folder + (is_new ? "/memory.max" : "/memory.limit_in_bytes"));
    const uint64_t used = number_in(folder + (is_new ? "/memory.current" : "/memory.usage_in_bytes"));
    least.limit = std::min(least.limit, limit);
    if (limit != UINT64_MAX && used != UINT64_MAX) least.left = std::min(least.left, limit - std::min(limit, used));
  });
  return least;
}

uint64_t total_memory_bytes() { return std::min({meminfo("MemTotal"), memory_of_groups(own_control_groups()).limit, address_space()}); }

uint64_t available_memory_bytes() { return std::min(meminfo("MemAvailable"), memory_of_groups(own_control_groups()).left); }

}  // namespace toroid
