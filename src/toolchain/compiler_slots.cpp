#include "toolchain/compiler_slots.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/machine/memory.h"
#include "base/machine/processors.h"

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

}  // namespace

CompilerSlot::CompilerSlot() {
  const auto cores = static_cast<unsigned>(usable_processors());
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
