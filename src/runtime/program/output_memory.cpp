#include "runtime/program/output_memory.h"

#include <atomic>
#include <iterator>
#include <thread>
#include <utility>

#include "base/format.h"
#include "base/machine/out_of_memory.h"

namespace toroid {
namespace {

constexpr size_t kLeast = size_t{1} << 20;  // bytes; what is smaller the allocator keeps by itself

}  // namespace

// Blocks move from list to list, so that dropping a tensor needs no memory. Nobody waits: who meets another thread at the lists goes
// without them, to new memory or to the allocator.
struct OutputMemory::Kept {
  explicit Kept(const HostMemory* memory) : memory(memory) {}

  const HostMemory* const memory;
  std::atomic<bool> is_held{false};  // `free` and `bytes` are some thread's
  std::list<HostBytes> free;         // the last one dropped is first
  size_t bytes = 0;                  // of `free`
  std::atomic<size_t> most{0};       // that `bytes` may be: of the last call's tensors

  bool try_hold() { return !is_held.exchange(true, std::memory_order_acquire); }
  void hold() {
    while (!try_hold()) std::this_thread::yield();
  }
  void let_go() { is_held.store(false, std::memory_order_release); }

  // The smallest block that is large enough, if it wastes less than a quarter; else none.
  std::list<HostBytes> take(size_t size) {
    std::list<HostBytes> taken;
    most.fetch_add(size, std::memory_order_relaxed);
    if (!try_hold()) return taken;
    if (take_smallest(free, size, size + size / 4, taken)) bytes -= taken.front().size();
    let_go();
    return taken;
  }

  void give_back(std::list<HostBytes> block) {
    if (!try_hold()) return;
    std::list<HostBytes> dropped;
    bytes += block.front().size();
    free.splice(free.begin(), block);
    while (bytes > most.load(std::memory_order_relaxed)) {
      bytes -= free.back().size();
      dropped.splice(dropped.begin(), free, std::prev(free.end()));
    }
    let_go();
  }
};

OutputMemory::OutputMemory(const HostMemory* memory) : kept_(std::make_shared<Kept>(memory)) {}

OutputMemory::~OutputMemory() {
  std::list<HostBytes> dropped;
  kept_->hold();
  kept_->most = 0;
  kept_->bytes = 0;
  dropped.swap(kept_->free);
  kept_->let_go();
}

void OutputMemory::begin_call() { kept_->most.store(0, std::memory_order_relaxed); }

HostTensor OutputMemory::tensor(DType dtype, const std::vector<int64_t>& sizes) {
  const auto size = static_cast<size_t>(bytes_of(dtype, sizes));
  if (size < kLeast && kept_->memory == nullptr) return HostTensor(dtype, sizes);
  struct Lent {
    std::shared_ptr<Kept> from;
    std::list<HostBytes> block;
    ~Lent() {
      if (!block.empty()) from->give_back(std::move(block));
    }
  };
  const auto lent = std::make_shared<Lent>();
  lent->from = kept_;
  lent->block = kept_->take(size);
  if (lent->block.empty())
    asking_for(size, formatted("a tensor of shape {}", shape_text(sizes)), [&] { lent->block.emplace_back(size, kept_->memory); });
  return HostTensor(dtype, sizes, std::shared_ptr<std::byte>(lent, reinterpret_cast<std::byte*>(lent->block.front().data())));
}

size_t OutputMemory::kept_bytes() const {
  kept_->hold();
  const size_t bytes = kept_->bytes;
  kept_->let_go();
  return bytes;
}

}  // namespace toroid
