// What library kernels work out from the operands of a call, whatever the numbers in them: made in the first such call, found again by the next ones
// without a lock. To plan a chain of three small convolutions takes two microseconds, to compute it fifty on two threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace toroid {

class Plans {
 public:
  Plans() = default;
  ~Plans();
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  // What `make` gave for this key, which tells all that it depends on, the type Plan too. Several threads may call; of those that ask for a new one
  // at once each may make it. Where shapes change all the time, those beyond kMost are not kept.
  template <class Plan, class Make>
  std::shared_ptr<const Plan> get(std::span<const int64_t> key, const Make& make) {
    if (const Entry* entry = find(key)) return std::static_pointer_cast<const Plan>(entry->plan);
    std::vector<int64_t> own(key.begin(), key.end());   // what is made may put keys together too
    std::shared_ptr<const Plan> made = make();
    keep(std::move(own), made);
    return made;
  }

  static constexpr int64_t kMost = 1024;
  int64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::vector<int64_t> key;
    std::shared_ptr<const void> plan;
    Entry* next;
  };
  static constexpr size_t kBuckets = 256;

  static size_t bucket_of(std::span<const int64_t> key);
  const Entry* find(std::span<const int64_t> key) const;
  void keep(std::vector<int64_t> key, std::shared_ptr<const void> plan);

  std::array<std::atomic<Entry*>, kBuckets> buckets_{};   // lists that only grow
  std::atomic<int64_t> count_{0};
};

}  // namespace toroid
