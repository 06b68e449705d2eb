#include "runtime/plans.h"

#include <algorithm>

#include "support/hash.h"

namespace toroid {

Plans::~Plans() {
  for (std::atomic<Entry*>& bucket : buckets_) {
    for (Entry* entry = bucket.load(std::memory_order_acquire); entry != nullptr;) delete std::exchange(entry, entry->next);
  }
}

size_t Plans::bucket_of(std::span<const int64_t> key) { return hash64(std::as_bytes(key)) % kBuckets; }

const Plans::Entry* Plans::find(std::span<const int64_t> key) const {
  const Entry* entry = buckets_[bucket_of(key)].load(std::memory_order_acquire);
  while (entry != nullptr && !std::ranges::equal(entry->key, key)) entry = entry->next;
  return entry;
}

void Plans::keep(std::vector<int64_t> key, std::shared_ptr<const void> plan) {
  if (count_.fetch_add(1, std::memory_order_relaxed) >= kMost) return void(count_.fetch_sub(1, std::memory_order_relaxed));
  std::atomic<Entry*>& bucket = buckets_[bucket_of(key)];
  Entry* entry = new Entry{std::move(key), std::move(plan), bucket.load(std::memory_order_relaxed)};
  while (!bucket.compare_exchange_weak(entry->next, entry, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

}  // namespace toroid
