#include "runtime/kernels/registry/machine_limits.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/clock.h"
#include "base/machine/per_thread.h"
#include "runtime/kernels/gemm/bf16x3/gemm.h"
#include "runtime/kernels/gemm/bf16x3/microkernel.h"
#include "runtime/kernels/gemm/half/microkernel_bf16.h"
#include "runtime/kernels/gemm/int8/microkernel.h"
#include "runtime/kernels/gemm/microkernel.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

// Of several rounds the shortest.
template <class F>
double least_seconds(int rounds, F f) {
  double least = 1e30;
  for (int i = 0; i < rounds; ++i) {
    const Stopwatch round;
    f();
    least = std::min(least, round.seconds());
  }
  return least;
}

double thread_seconds() {
  struct timespec time;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// How often a second all threads together do `piece`, as fast as the machine goes on: for some tenths of a second a core multiplies faster
// than it can go on (tiles at 900 G operations a second, later at 780, on two cores of a Xeon), and kernels are timed for longer than that.
// The processors' own time counts, of the median round, so that other work on the machine does not lower the limit.
template <class F>
double pieces_per_second(RuntimePool& pool, F piece) {
  constexpr double kSettle = 0.25, kMeasure = 0.15;
  std::vector<double> rounds;
  for (const Stopwatch all; rounds.empty() || all.seconds() < kSettle + kMeasure;) {
    std::vector<double> seconds(static_cast<size_t>(pool.threads()));  // of each piece of the loop
    pool.parallel_for(pool.threads(), 1, [&](int64_t begin, int64_t end) {
      const double before = thread_seconds();
      for (int64_t i = begin; i < end; ++i) piece();
      seconds[static_cast<size_t>(begin)] = thread_seconds() - before;
    });
    if (all.seconds() > kSettle) rounds.push_back(std::accumulate(seconds.begin(), seconds.end(), 0.0) / pool.threads());
  }
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::nth_element(rounds.begin(), middle, rounds.end());
  return std::min(pool.threads(), RuntimePool::threads_for(0)) / *middle;
}

// What the innermost loops do on data in the first-level cache.
double flops_in_vectors(RuntimePool& pool) {
  const GemmMicrokernels& kernels = gemm_microkernels();
  constexpr int64_t kDepth = 64, kRepetitions = 20000;
  const int rows = GemmMicrokernels::kMostRows;
  const int64_t width = kernels.panel_width();
  const double pieces = pieces_per_second(pool, [&] {
    std::vector<float> a(static_cast<size_t>(kDepth), 1.0f), b(static_cast<size_t>(kDepth * width), 1.0f),
        c(static_cast<size_t>(rows * width));
    const float* pointers[GemmMicrokernels::kMostRows];
    std::fill_n(pointers, rows, a.data());
    const Run run = {0, kDepth};
    for (int64_t i = 0; i < kRepetitions; ++i)
      kernels.multiply[rows - 1][kernels.vectors - 1]({&run, 1}, pointers, b.data(), {c.data(), width, width}, {});
  });
  return 2.0 * static_cast<double>(kRepetitions * kDepth * rows * width) * pieces;
}

// Each thread goes over so many bytes of its own, again and again: copies one half to the other, or looks for a byte that is not there,
// which reads at full width.
double bytes_per_s_within(RuntimePool& pool, int64_t bytes) {
  constexpr int64_t kMoved = int64_t{1} << 26;
  const int64_t half = std::max<int64_t>(bytes / 2, 64), rounds = std::max<int64_t>(kMoved / (2 * half), 1);
  std::vector<std::vector<char>> memory(static_cast<size_t>(pool.threads()), std::vector<char>(static_cast<size_t>(2 * half), 1));
  std::atomic<bool> found = false;
  const auto seconds_of = [&](auto once) {
    return least_seconds(4, [&] {
      pool.parallel_for(pool.threads(), 1, [&](int64_t begin, int64_t end) {
        for (int64_t thread = begin; thread < end; ++thread) {
          char* const data = memory[static_cast<size_t>(thread)].data();
          for (int64_t i = 0; i < rounds; ++i) once(data);
        }
      });
    });
  };
  const double copied = seconds_of([&](char* data) { std::memcpy(data + half, data, static_cast<size_t>(half)); });
  const double read = seconds_of([&](char* data) {
    if (std::memchr(data, 2, static_cast<size_t>(2 * half)) != nullptr) found = true;
  });
  return 2.0 * static_cast<double>(half * rounds * pool.threads()) / std::min(copied, read);
}

// Of a kernel of some rows with panels in the first-level cache: `once` does that many multiplications and additions.
template <class F>
double flops_of(RuntimePool& pool, double flops, F once) {
  constexpr int64_t kRepetitions = 20000;
  const double pieces = pieces_per_second(pool, [&] {
    for (int64_t i = 0; i < kRepetitions; ++i) once();
  });
  return flops * static_cast<double>(kRepetitions) * pieces;
}

double int8_flops_in_vectors(RuntimePool& pool, const ByteKernels& kernels) {
  constexpr int64_t kWords = 64;
  const int rows = ByteKernels::kMostRows, tiles = kernels.tiles;
  struct Sides {
    std::vector<uint32_t> a, b;
    std::vector<int32_t> c;
  };
  static PerThread<Sides> of_threads;
  return flops_of(pool, 2.0 * static_cast<double>(kWords * kernels.elements * rows * tiles * ByteKernels::kColumns), [&] {
    auto& [a, b, c] = of_threads.get();
    if (c.empty()) {
      a.assign(kWords, 0x01020301);
      b.assign(static_cast<size_t>(kWords * tiles * ByteKernels::kColumns), 0x01020301);
      c.resize(static_cast<size_t>(rows * tiles * ByteKernels::kColumns));
    }
    const uint32_t* pointers[ByteKernels::kMostRows];
    std::fill_n(pointers, rows, a.data());
    kernels.multiply[rows - 1][tiles - 1]({pointers, 1, kWords}, b.data(), kWords * ByteKernels::kColumns, c.data(),
                                          tiles * ByteKernels::kColumns);
  });
}

double bf16_flops_in_pairs(RuntimePool& pool, const Bf16DotMicrokernels& kernels) {
  constexpr int64_t kPairs = 64;
  const int rows = GemmMicrokernels::kMostRows, vectors = gemm_microkernels().vectors;
  const int64_t width = gemm_microkernels().panel_width();
  struct Sides {
    std::vector<uint16_t> a, b;
    std::vector<float> c;
  };
  static PerThread<Sides> of_threads;
  return flops_of(pool, 2.0 * static_cast<double>(kPairs * 2 * rows * width), [&] {
    auto& [a, b, c] = of_threads.get();
    if (c.empty()) {
      a.assign(2 * kPairs, 0x3f80);
      b.assign(static_cast<size_t>(2 * kPairs * width), 0x3f80);
      c.resize(static_cast<size_t>(rows * width));
    }
    const uint16_t* pointers[GemmMicrokernels::kMostRows];
    std::fill_n(pointers, rows, a.data());
    kernels[rows - 1][vectors - 1](kPairs, pointers, b.data(), c.data(), width, false);
  });
}

double flops_in_parts(RuntimePool& pool) {
  constexpr int64_t kSide = 2 * kTileSide, kDepth = 2 * kStepElements, kRepetitions = 10000;
  const double pieces = pieces_per_second(pool, [&] {
    // Numbers with all their bits: on simpler ones tiles are faster.
    std::vector<float> numbers(static_cast<size_t>(kSide * kDepth)), sums(static_cast<size_t>(kSide * kSide));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 2654435761u % 16777213u) * 0x1p-24f;
    static Scratch memory;
    float* packed = memory.get(PackedBf16x3::size(kDepth, kSide));
    pack_bf16x3({numbers.data(), kSide, 1}, kDepth, kSide, 0, 1, packed);
    const PackedBf16x3 right = {kDepth, kSide, packed};
    std::vector<const float*> rows;
    for (int64_t i = 0; i < kSide; ++i) rows.push_back(numbers.data() + i * kDepth);
    const Run run = {0, kDepth};
    static Scratch left_memory;
    auto* left = reinterpret_cast<std::byte*>(left_memory.get(kSide * kDepth * kPartsOfFloat / 2));
    constexpr int64_t kStep = kSide * kPartsRowBytes, kOffsets[] = {0, kStep};
    split_rows(StepElements({&run, 1}), 0, 2, rows, kStep, left);
    const TileRegisters registers;
    for (int64_t i = 0; i < kRepetitions; ++i) {
      multiply_tiles_of_parts({{left, left + kTileSide * kPartsRowBytes},
                               kOffsets,
                               {right.tile(0, 0), right.tile(0, 1)},
                               2,
                               sums.data(),
                               kSide,
                               sums.data(),
                               kSide});
    }
  });
  return 2.0 * static_cast<double>(kRepetitions * kDepth * kSide * kSide) * pieces;
}

}  // namespace

int64_t bytes_of_last_cache() {
  constexpr int64_t kMost = int64_t{64} << 20;
  return std::clamp<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), 0, kMost);
}

MachineLimits measure_machine_limits(RuntimePool& pool) {
  MachineLimits limits{};
  {
    constexpr int64_t kPiece = 1 << 20, kPieces = 128;
    std::vector<char> from(kPiece * kPieces, 1), to(kPiece * kPieces, 2);
    const double seconds = least_seconds(4, [&] {
      pool.parallel_for(kPieces, 1, [&](int64_t begin, int64_t end) {
        std::memcpy(to.data() + begin * kPiece, from.data() + begin * kPiece, static_cast<size_t>((end - begin) * kPiece));
      });
    });
    limits.copy_bytes_per_s = 2.0 * kPiece * kPieces / seconds;
  }
  const double in_parts = has_amx_bf16x3() ? flops_in_parts(pool) : 0;
  limits.multiply_flops_per_s = std::max(flops_in_vectors(pool), in_parts);
  // A product of float32 in parts is six products of bfloat16, and a tile of bytes holds twice as many numbers.
  constexpr double kProductsOfParts = 6;
  const Bf16DotMicrokernels* const pairs = bf16_dot_microkernels();
  const ByteKernels* const bytes = vnni_kernels() != nullptr ? vnni_kernels() : byte_pair_kernels();
  limits.bf16_flops_per_s =
      std::max({limits.multiply_flops_per_s, kProductsOfParts * in_parts, pairs != nullptr ? bf16_flops_in_pairs(pool, *pairs) : 0});
  limits.int8_flops_per_s =
      std::max({limits.multiply_flops_per_s, 2 * kProductsOfParts * in_parts, bytes != nullptr ? int8_flops_in_vectors(pool, *bytes) : 0});

  // Half of a cache each, so that other work has room beside it.
  const auto threads = static_cast<int64_t>(pool.threads());
  const int64_t first = std::max<int64_t>(sysconf(_SC_LEVEL1_DCACHE_SIZE), 0),
                second = std::max<int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE), 0), third = bytes_of_last_cache();
  constexpr int64_t kBeyondCaches = int64_t{1} << 27;
  limits.memory_bytes_per_s = std::max(limits.copy_bytes_per_s, bytes_per_s_within(pool, kBeyondCaches / threads));
  limits.third_level = {third, third == 0 ? 0 : std::max(limits.memory_bytes_per_s, bytes_per_s_within(pool, third / 2 / threads))};
  limits.second_level = {
      second * threads,
      second == 0 ? 0 : std::max({limits.memory_bytes_per_s, limits.third_level.bytes_per_s, bytes_per_s_within(pool, second / 2)})};
  limits.first_level = {first * threads, first == 0 ? 0 : std::max(limits.second_level.bytes_per_s, bytes_per_s_within(pool, first / 2))};
  return limits;
}

double MachineLimits::bytes_per_s_of(double bytes) const {
  for (const MemoryLimit& cache : {first_level, second_level, third_level}) {
    if (bytes <= static_cast<double>(cache.bytes)) return cache.bytes_per_s;
  }
  return memory_bytes_per_s;
}

double MachineLimits::flops_per_s_of(DType dtype) const {
  if (dtype == DType::I8 || dtype == DType::U8) return int8_flops_per_s;
  return dtype == DType::BF16 ? bf16_flops_per_s : multiply_flops_per_s;
}

double MachineLimits::least_seconds(double bytes, double flops, DType dtype) const {
  return std::max(bytes / bytes_per_s_of(bytes), flops / flops_per_s_of(dtype));
}

}  // namespace toroid
