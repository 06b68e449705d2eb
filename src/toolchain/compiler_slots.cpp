#include "toolchain/compiler_slots.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

namespace toroid {
namespace {

// What g++ takes for a unit of many large kernels.
constexpr uint64_t kMemoryOfACompiler = uint64_t{512} << 20;
// Memory that somebody else frees is noticed after so long.
constexpr auto kLookAgain = std::chrono::milliseconds(50);

struct Slots {
  std::mutex mutex;
  std::condition_variable freed;
  unsigned running = 0;
};

Slots& slots() {
  static Slots instance;
  return instance;
}

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

}  // namespace

uint64_t available_memory_bytes() {
  const uint64_t limit = control_group("memory.max");
  const uint64_t used = control_group("memory.current");
  const uint64_t left = limit == UINT64_MAX || used == UINT64_MAX ? UINT64_MAX : limit - std::min(limit, used);
  return std::min(meminfo("MemAvailable"), left);
}

uint64_t total_memory_bytes() { return std::min(meminfo("MemTotal"), control_group("memory.max")); }

CompilerSlot::CompilerSlot() {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  Slots& all = slots();
  std::unique_lock lock(all.mutex);
  while (all.running > 0 && (all.running >= cores || available_memory_bytes() < kMemoryOfACompiler)) all.freed.wait_for(lock, kLookAgain);
  ++all.running;
}

CompilerSlot::~CompilerSlot() {
  Slots& all = slots();
  const std::lock_guard lock(all.mutex);
  --all.running;
  all.freed.notify_one();
}

}  // namespace toroid
