// Permutations: each number once, the same for every number of threads, all orders alike. Bounds are those of a chi-squared test at one
// in a thousand; seeds are fixed, so a test passes always or never.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

#include "library/library_ops.h"

namespace toroid {
namespace {

std::vector<int64_t> permutation(int64_t n, uint64_t number_of_call, const ParallelFor& parallel_for = {}) {
  const int64_t state[] = {17, static_cast<int64_t>(number_of_call)};
  const int64_t two[] = {2}, sizes[] = {n};
  std::vector<int64_t> out(static_cast<size_t>(n), -1);
  const LibraryInput inputs[] = {{DType::I64, two, reinterpret_cast<const std::byte*>(state)}};
  const LibraryOutput outputs[] = {{DType::I64, sizes, reinterpret_cast<std::byte*>(out.data())}};
  const double stream[] = {3};
  find_library_op("random.permutation")->kernel({inputs, outputs, stream, parallel_for});
  return out;
}

double chi_squared(const std::vector<int>& counts) {
  const double expected = std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

TEST(Permutation, HoldsEachNumberOnce) {
  for (const int64_t n : {0, 1, 2, 63, 64, 65, 4096, 4097, 8193, 70001, 1 << 17, 1200007}) {
    std::vector<int64_t> p = permutation(n, 0);
    std::sort(p.begin(), p.end());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(p[static_cast<size_t>(i)], i) << "of " << n;
  }
}

TEST(Permutation, IsTheSameInPieces) {
  const ParallelFor pieces = [](int64_t n, const std::function<void(int64_t, int64_t)>& body) {
    std::vector<std::thread> threads;
    for (int64_t end = n; end > 0; end -= std::min<int64_t>(end, n / 5 + 1)) {
      threads.emplace_back(body, std::max<int64_t>(0, end - (n / 5 + 1)), end);
    }
    for (std::thread& thread : threads) thread.join();
  };
  for (const int64_t n : {5, 5000, 50000, 400000}) EXPECT_EQ(permutation(n, 1, pieces), permutation(n, 1)) << n;
}

TEST(Permutation, DiffersFromCallToCall) {
  for (const int64_t n : {100, 10000}) EXPECT_NE(permutation(n, 0), permutation(n, 1));
}

TEST(Permutation, AllOrdersOfFourAreAlike) {
  std::vector<int> counts(24);
  for (uint64_t call = 0; call < 24000; ++call) {
    const std::vector<int64_t> p = permutation(4, call);
    size_t rank = 0;
    for (size_t i = 0; i < 4; ++i) {
      rank = rank * (4 - i) +
             static_cast<size_t>(std::count_if(p.begin() + static_cast<ptrdiff_t>(i), p.end(), [&](int64_t x) { return x < p[i]; }));
    }
    ++counts[rank];
  }
  EXPECT_LT(chi_squared(counts), 49.7);  // 23 degrees of freedom
}

// More numbers than one bucket takes.
TEST(Permutation, EveryNumberComesAnywhere) {
  constexpr int64_t n = 8200, kCalls = 1600;
  std::vector<int> place_of_first(16), place_of_last(16), number_at_first(16), number_in_middle(16);
  int64_t ascents = 0;
  double fixed = 0, fixed_squares = 0, small = 0, small_squares = 0;
  for (uint64_t call = 0; call < kCalls; ++call) {
    const std::vector<int64_t> p = permutation(n, call);
    const auto sixteenth = [](int64_t i) { return static_cast<size_t>(i * 16 / n); };
    ++place_of_first[sixteenth(std::find(p.begin(), p.end(), 0) - p.begin())];
    ++place_of_last[sixteenth(std::find(p.begin(), p.end(), n - 1) - p.begin())];
    ++number_at_first[sixteenth(p[0])];
    ++number_in_middle[sixteenth(p[n / 2])];
    int64_t of_call = 0, in_first_half = 0;
    for (int64_t i = 0; i < n; ++i) {
      of_call += p[static_cast<size_t>(i)] == i ? 1 : 0;
      in_first_half += i < n / 2 && p[static_cast<size_t>(i)] < n / 2 ? 1 : 0;
      if (i > 0) ascents += p[static_cast<size_t>(i)] > p[static_cast<size_t>(i) - 1] ? 1 : 0;
    }
    fixed += static_cast<double>(of_call) / kCalls;
    fixed_squares += static_cast<double>(of_call * of_call) / kCalls;
    small += static_cast<double>(in_first_half) / kCalls;
    small_squares += static_cast<double>(in_first_half * in_first_half) / kCalls;
  }
  for (const auto* counts : {&place_of_first, &place_of_last, &number_at_first, &number_in_middle}) {
    EXPECT_LT(chi_squared(*counts), 37.7);  // 15 degrees of freedom
  }
  // Half of all neighbours ascend, with a variance of (n + 1) / 12 a call.
  EXPECT_NEAR(static_cast<double>(ascents) / kCalls, (n - 1) / 2.0, 3.3 * std::sqrt((n + 1) / 12.0 / kCalls));
  // Numbers in their own place: Poisson's distribution with mean 1.
  EXPECT_NEAR(fixed, 1, 3.3 / std::sqrt(kCalls));
  EXPECT_NEAR(fixed_squares - fixed * fixed, 1, 0.2);
  // Small numbers in the first half: hypergeometric, with a variance of about n / 16. Buckets of equal size would have made it less.
  EXPECT_NEAR(small, n / 4.0, 3.3 * std::sqrt(n / 16.0 / kCalls));
  EXPECT_NEAR((small_squares - small * small) / (n / 16.0), 1, 0.12);
}

}  // namespace
}  // namespace toroid
