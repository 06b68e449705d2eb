#include "runtime/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "runtime/strips.h"

namespace toroid {
namespace {

// Of several rounds the shortest.
template <class F>
double least_seconds(int rounds, F f) {
  double least = 1e30;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return least;
}

}  // namespace

MachineLimits measure_machine_limits(RuntimePool& pool) {
  MachineLimits limits{};
  const int64_t threads = pool.threads();
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
  {
    const StripKernels& kernels = strip_kernels();
    constexpr int64_t kDepth = 64, kRepetitions = 20000;
    const int rows = StripKernels::kMostRows;
    const int64_t width = kernels.panel_width();
    const double seconds = least_seconds(4, [&] {
      pool.parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
        std::vector<float> a(static_cast<size_t>(kDepth), 1.0f), b(static_cast<size_t>(kDepth * width), 1.0f), c(static_cast<size_t>(rows * width));
        const float* pointers[StripKernels::kMostRows];
        std::fill_n(pointers, rows, a.data());
        const Run run = {0, kDepth};
        for (int64_t i = 0; i < (end - begin) * kRepetitions; ++i) kernels.multiply[rows - 1][kernels.vectors - 1](&run, 1, pointers, b.data(), c.data(), width, false, {});
      });
    });
    limits.multiply_flops_per_s = 2.0 * static_cast<double>(threads * kRepetitions * kDepth * rows * width) / seconds;
  }
  return limits;
}

}  // namespace toroid
