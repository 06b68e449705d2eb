// A random order of 0 to n - 1, every order with the same probability.
//
// Each number goes to a bucket of its own choice, and each bucket is then shuffled by itself (C. R. Rao 1961; M. Sandelius, "A simple
// randomization procedure", 1962). Unlike one shuffle of everything this stays in a core's cache and runs in parallel. Fewer numbers
// than fill a bucket are shuffled at once:
//
//   0 1 2 3 4 5 6 7   choose b a a b b a b a   ->   1 2 5 7 | 0 3 4 6   ->   5 7 1 2 | 6 0 4 3
//
// Numbers enter their bucket in ascending order, so the result depends on the seed and n alone.
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "library/random/random_kernels.h"

namespace toroid::random_kernels {
namespace {

constexpr int64_t kBucket = 4096;    // numbers in a bucket, about, while there are no more than
constexpr int kMostBucketBits = 8;   // so many buckets: each choice is a byte
constexpr int64_t kBlockBytes = 16;  // choices that one Philox block gives

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The words of the blocks under a key, in order.
class Words {
 public:
  explicit Words(uint64_t key) : key_(key) {}

  // Below `range`, each with the same probability: D. Lemire, "Fast random integer generation in an interval" (2019).
  uint32_t below(uint32_t range) {
    uint64_t product = uint64_t{next()} * range;
    if (static_cast<uint32_t>(product) < range) {
      const uint32_t surplus = -range % range;
      while (static_cast<uint32_t>(product) < surplus) product = uint64_t{next()} * range;
    }
    return static_cast<uint32_t>(product >> 32);
  }

 private:
  uint32_t next() {
    if (used_ == words_.size()) draw();
    return words_[used_++];
  }
  // Several blocks in a row: a block's rounds wait for each other, blocks do not.
  void draw() {
    for (size_t i = 0; i < words_.size(); i += 4) {
      const PhiloxBlock block = philox_4x32_10(counter_++, 0, key_);
      std::copy(block.words.begin(), block.words.end(), words_.begin() + static_cast<ptrdiff_t>(i));
    }
    used_ = 0;
  }

  uint64_t key_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 64> words_;
  size_t used_ = words_.size();
};

// R. A. Fisher and F. Yates: each place takes one of those not yet taken. Fewer than 2^32 numbers, as memory for more buckets would be
// needed otherwise.
void shuffle(int64_t* numbers, int64_t count, uint64_t key) {
  Words words(key);
  for (int64_t i = 0; i + 1 < count; ++i) std::swap(numbers[i], numbers[i + words.below(static_cast<uint32_t>(count - i))]);
}

// f(number, bucket) for the numbers [begin, end); `begin` is a multiple of kBlockBytes.
template <class F>
void for_each_choice(int64_t begin, int64_t end, uint64_t key, int bucket_bits, F f) {
  for (int64_t i = begin; i < end; i += kBlockBytes) {
    const PhiloxBlock block = philox_4x32_10(static_cast<uint64_t>(i / kBlockBytes), 0, key);
    const int64_t count = std::min(end - i, kBlockBytes);
    for (int64_t j = 0; j < count; ++j) {
      const uint32_t byte = block.words[static_cast<size_t>(j / 4)] >> (8 * (j % 4)) & 0xff;
      f(i + j, static_cast<size_t>(byte >> (8 - bucket_bits)));
    }
  }
}

}  // namespace

void permutation(const LibraryCall& call) {
  const auto* state = reinterpret_cast<const int64_t*>(call.inputs.back().data);
  auto key = [&](int64_t element) { return element_key(state, call.attributes[0], element); };
  auto* const out = reinterpret_cast<int64_t*>(call.outputs[0].data);
  const int64_t n = call.outputs[0].sizes[0];
  int bucket_bits = 0;
  while (bucket_bits < kMostBucketBits && n >> bucket_bits > kBucket) ++bucket_bits;
  if (bucket_bits == 0) {
    std::iota(out, out + n, int64_t{0});
    return shuffle(out, n, key(0));
  }

  // Chunks of numbers choose and move in parallel: starts[chunk][bucket] is where the chunk's part of a bucket begins.
  const size_t buckets = size_t{1} << bucket_bits;
  const int64_t chunk = std::max<int64_t>(1 << 16, ceil_div(n, 64 * kBlockBytes) * kBlockBytes);
  const int64_t chunks = ceil_div(n, chunk);
  std::vector<int64_t> starts(static_cast<size_t>(chunks) * buckets);
  auto for_each = [&](int64_t count, int64_t work, auto f) {
    call.in_pieces(count * work, [&](int64_t begin, int64_t end) {
      for (int64_t i = ceil_div(begin, work); i < ceil_div(end, work); ++i) f(i);
    });
  };
  auto for_each_chunk = [&](auto f) {
    for_each(chunks, chunk, [&](int64_t c) {
      int64_t* const of_chunk = starts.data() + static_cast<size_t>(c) * buckets;
      for_each_choice(c * chunk, std::min(n, (c + 1) * chunk), key(0), bucket_bits,
                      [&](int64_t number, size_t bucket) { f(number, of_chunk[bucket]); });
    });
  };
  for_each_chunk([](int64_t, int64_t& count) { ++count; });
  std::vector<int64_t> bucket_starts = {0};
  int64_t start = 0;
  for (size_t b = 0; b < buckets; ++b) {
    for (size_t at = b; at < starts.size(); at += buckets) start += std::exchange(starts[at], start);
    bucket_starts.push_back(start);
  }
  for_each_chunk([&](int64_t number, int64_t& place) { out[place++] = number; });
  for_each(static_cast<int64_t>(buckets), ceil_div(n, static_cast<int64_t>(buckets)), [&](int64_t b) {
    const int64_t first = bucket_starts[static_cast<size_t>(b)];
    shuffle(out + first, bucket_starts[static_cast<size_t>(b) + 1] - first, key(1 + b));
  });
}

}  // namespace toroid::random_kernels
