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
uint64_t control_group(const char* name) {
  std::ifstream file(std::string("/sys/fs/cgroup/") + name);
  uint64_t bytes = 0;
  return file >> bytes ? bytes : UINT64_MAX;
}

uint64_t address_space() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

}  // namespace

uint64_t total_memory_bytes() { return std::min({meminfo("MemTotal"), control_group("memory.max"), address_space()}); }

uint64_t available_memory_bytes() {
  const uint64_t limit = control_group("memory.max");
  const uint64_t used = control_group("memory.current");
  const uint64_t left = limit == UINT64_MAX || used == UINT64_MAX ? UINT64_MAX : limit - std::min(limit, used);
  return std::min(meminfo("MemAvailable"), left);
}

}  // namespace toroid
