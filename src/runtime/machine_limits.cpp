#include "runtime/machine_limits.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/parts_product.h"
#include "runtime/parts_strip.h"
#include "runtime/scratch.h"
#include "runtime/strips.h"
#include "support/clock.h"

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

// The median round, once the clock has settled: for some tenths of a second a core multiplies faster than it can go on (tiles at 900 G operations a second, later
// at 780, on two cores of a Xeon), and kernels are timed for longer than that.
template <class F>
double lasting_seconds(F f) {
  constexpr double kSettle = 0.25, kMeasure = 0.15;
  std::vector<double> rounds;
  for (const Stopwatch all; rounds.empty() || all.seconds() < kSettle + kMeasure;) {
    const Stopwatch round;
    f();
    if (all.seconds() > kSettle) rounds.push_back(round.seconds());
  }
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::nth_element(rounds.begin(), middle, rounds.end());
  return *middle;
}

// What the innermost loops do on data in the first-level cache.
double flops_in_vectors(RuntimePool& pool) {
  const StripKernels& kernels = strip_kernels();
  constexpr int64_t kDepth = 64, kRepetitions = 20000;
  const int rows = StripKernels::kMostRows;
  const int64_t width = kernels.panel_width();
  const double seconds = lasting_seconds([&] {
    pool.parallel_for(pool.threads(), 1, [&](int64_t begin, int64_t end) {
      std::vector<float> a(static_cast<size_t>(kDepth), 1.0f), b(static_cast<size_t>(kDepth * width), 1.0f),
          c(static_cast<size_t>(rows * width));
      const float* pointers[StripKernels::kMostRows];
      std::fill_n(pointers, rows, a.data());
      const Run run = {0, kDepth};
      for (int64_t i = 0; i < (end - begin) * kRepetitions; ++i)
        kernels.multiply[rows - 1][kernels.vectors - 1](&run, 1, pointers, b.data(), {c.data(), width, width}, {});
    });
  });
  return 2.0 * static_cast<double>(pool.threads() * kRepetitions * kDepth * rows * width) / seconds;
}

double flops_in_parts(RuntimePool& pool) {
  constexpr int64_t kSide = 2 * kTileSide, kDepth = 2 * kStepElements, kRepetitions = 10000;
  const double seconds = lasting_seconds([&] {
    pool.parallel_for(pool.threads(), 1, [&](int64_t begin, int64_t end) {
      // Numbers with all their bits: on simpler ones tiles are faster.
      std::vector<float> numbers(static_cast<size_t>(kSide * kDepth)), sums(static_cast<size_t>(kSide * kSide));
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 2654435761u % 16777213u) * 0x1p-24f;
      Scratch memory;
      float* packed = memory.get(PartsMatrix::size(kDepth, kSide));
      pack_parts({numbers.data(), kSide, 1}, kDepth, kSide, 0, 1, packed);
      const PartsMatrix right = {kDepth, kSide, packed};
      std::vector<const float*> rows;
      for (int64_t i = 0; i < kSide; ++i) rows.push_back(numbers.data() + i * kDepth);
      const Run run = {0, kDepth};
      Scratch left_memory;
      auto* left = reinterpret_cast<std::byte*>(left_memory.get(kSide * kDepth * kPartsOfFloat / 2));
      constexpr int64_t kStep = kSide * kPartsRowBytes, kOffsets[] = {0, kStep};
      split_rows(StepElements({&run, 1}), 0, 2, rows, kStep, left);
      const TileRegisters registers;
      for (int64_t i = 0; i < (end - begin) * kRepetitions; ++i) {
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
  });
  return 2.0 * static_cast<double>(pool.threads() * kRepetitions * kDepth * kSide * kSide) / seconds;
}

}  // namespace

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
  limits.multiply_flops_per_s = std::max(flops_in_vectors(pool), has_tiles_of_parts() ? flops_in_parts(pool) : 0);
  return limits;
}

}  // namespace toroid
