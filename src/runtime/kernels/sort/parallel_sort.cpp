// LSD radix sort of keys with their positions.
//
// Only the bits in which the keys differ from the smallest are digits: a million numbers below 1000 take one pass of ten bits. Where
// these bits and a position fit 64 together, as they mostly do, an element is one integer, key above position. A pass counts and then
// moves chunks of the elements in parallel; a chunk's elements of one digit go behind those of the chunks before it, which keeps the
// passes stable.
#include "runtime/kernels/sort/parallel_sort.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/bits.h"

namespace toroid {
namespace {

constexpr int kMostDigitBits = 10;  // 8 and 10 are as quick on 32-bit keys; 11 write to too many pages at once

struct WideEntry {
  uint64_t key;
  uint64_t position;
};

// What packs into 64 bits: the key above `position_bits` of position.
struct Packing {
  int key_bits;
  int position_bits;
};

uint64_t key_of(const WideEntry& entry, const Packing&) { return entry.key; }
uint64_t key_of(uint64_t entry, const Packing& packing) { return entry >> packing.position_bits; }
int64_t position_of(const WideEntry& entry, const Packing&) { return static_cast<int64_t>(entry.position); }
int64_t position_of(uint64_t entry, const Packing& packing) {
  return static_cast<int64_t>(entry & ((uint64_t{1} << packing.position_bits) - 1));
}

// Parts of [0, n), at most two a thread.
class Chunks {
 public:
  Chunks(RuntimePool& pool, int64_t n) : pool_(pool), n_(n), count_(std::clamp<int64_t>(n / (kLongLine / 2), 1, 2 * pool.threads())) {}

  int64_t count() const { return count_; }
  // f(number of the chunk, begin, end), in parallel.
  template <class F>
  void for_each(F f) const {
    pool_.parallel_for(count_, 1, [&](int64_t first, int64_t last) {
      for (int64_t c = first; c < last; ++c) f(c, begin(c), begin(c + 1));
    });
  }

 private:
  int64_t begin(int64_t chunk) const { return n_ / count_ * chunk + std::min(chunk, n_ % count_); }

  RuntimePool& pool_;
  int64_t n_;
  int64_t count_;
};

// Sorts `entries` by their keys and gives each one to put(place, entry) in the last pass. `scratch`: as many.
template <class Entry, class Put>
void sort_by_digits(const Chunks& chunks, Entry* entries, Entry* scratch, const Packing& packing, Put put) {
  const int passes = std::max(1, (packing.key_bits + kMostDigitBits - 1) / kMostDigitBits);
  const int digit_bits = (packing.key_bits + passes - 1) / passes;
  const size_t digits = size_t{1} << digit_bits;
  std::vector<int64_t> places(static_cast<size_t>(chunks.count()) * digits);
  for (int pass = 0; pass < passes; ++pass) {
    auto digit_of = [&](const Entry& entry) { return key_of(entry, packing) >> (pass * digit_bits) & (digits - 1); };
    std::fill(places.begin(), places.end(), 0);
    chunks.for_each([&](int64_t chunk, int64_t begin, int64_t end) {
      int64_t* const counts = places.data() + static_cast<size_t>(chunk) * digits;
      for (int64_t i = begin; i < end; ++i) ++counts[digit_of(entries[i])];
    });
    int64_t start = 0;
    for (size_t digit = 0; digit < digits; ++digit) {
      for (size_t at = digit; at < places.size(); at += digits) start += std::exchange(places[at], start);
    }
    auto move_all = [&](auto give) {
      chunks.for_each([&](int64_t chunk, int64_t begin, int64_t end) {
        int64_t* const next = places.data() + static_cast<size_t>(chunk) * digits;
        for (int64_t i = begin; i < end; ++i) give(next[digit_of(entries[i])]++, entries[i]);
      });
    };
    if (pass + 1 == passes) return move_all(put);
    move_all([&](int64_t place, const Entry& entry) { scratch[place] = entry; });
    std::swap(entries, scratch);
  }
}

template <class Entry>
std::unique_ptr<Entry[]> room_for(int64_t count) {
  return std::unique_ptr<Entry[]>(new Entry[static_cast<size_t>(count)]);
}

}  // namespace

void order_of_keys(RuntimePool& pool, Span<uint64_t> keys, int64_t* order, int64_t stride) {
  const auto n = static_cast<int64_t>(keys.size());
  if (n == 0) return;
  const Chunks chunks(pool, n);
  std::vector<std::pair<uint64_t, uint64_t>> ranges(static_cast<size_t>(chunks.count()));
  chunks.for_each([&](int64_t chunk, int64_t begin, int64_t end) {
    uint64_t least = keys[static_cast<size_t>(begin)], most = least;
    for (int64_t i = begin; i < end; ++i) {
      least = std::min(least, keys[static_cast<size_t>(i)]);
      most = std::max(most, keys[static_cast<size_t>(i)]);
    }
    ranges[static_cast<size_t>(chunk)] = {least, most};
  });
  auto [least, most] = ranges[0];
  for (const auto& [low, high] : ranges) {
    least = std::min(least, low);
    most = std::max(most, high);
  }
  const Packing packing{static_cast<int>(bit_width(most - least)), static_cast<int>(bit_width(static_cast<uint64_t>(n - 1)))};
  auto put = [&](int64_t place, const auto& entry) { order[place * stride] = position_of(entry, packing); };
  const uint64_t base = least;
  if (packing.key_bits + packing.position_bits <= 64) {
    const auto scratch = room_for<uint64_t>(n);
    chunks.for_each([&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        uint64_t& key = keys[static_cast<size_t>(i)];
        key = (key - base) << packing.position_bits | static_cast<uint64_t>(i);
      }
    });
    return sort_by_digits(chunks, keys.data(), scratch.get(), packing, put);
  }
  const auto entries = room_for<WideEntry>(n), scratch = room_for<WideEntry>(n);
  chunks.for_each([&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      entries[static_cast<size_t>(i)] = {keys[static_cast<size_t>(i)] - base, static_cast<uint64_t>(i)};
    }
  });
  sort_by_digits(chunks, entries.get(), scratch.get(), packing, put);
}

}  // namespace toroid
