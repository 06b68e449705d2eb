#include "runtime/kernels/gemm/gemm_small_m.h"

#include <cmath>

#include <gtest/gtest.h>

#include "runtime/kernels/gemm/gemm_for_test.h"
#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/isa/vector_sets.h"
#include "runtime/kernels/sums_for_test.h"

namespace toroid {
namespace {

struct MatrixLayout {
  int64_t row, column;  // strides
};

// Where the elements of a matrix may lie: in rows, in columns, with gaps, backwards never.
std::vector<MatrixLayout> layouts(int64_t rows, int64_t columns) {
  return {{columns, 1}, {1, rows}, {columns + 3, 1}, {2 * columns, 2}, {1, rows + 5}};
}

std::vector<float> values(int64_t count, uint32_t seed) {
  std::vector<float> result(static_cast<size_t>(std::max<int64_t>(count, 1)));
  for (float& value : result) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(seed >> 16) % 17 - 8);  // products of small integers are exact
  }
  return result;
}

void check(RuntimePool& pool, int64_t m, int64_t n, int64_t k, MatrixLayout a_layout, MatrixLayout b_layout, int64_t c_row) {
  const std::vector<float> a = values(m * a_layout.row + k * a_layout.column + 1, 1);
  const std::vector<float> b = values(k * b_layout.row + n * b_layout.column + 1, 2);
  // NaN shows an element that was not written, or one that was written in the gap between rows.
  std::vector<float> c(static_cast<size_t>(m * c_row + 1), std::nanf(""));
  multiply_cheapest(pool, m, n, k, {a.data(), a_layout.row, a_layout.column}, {b.data(), b_layout.row, b_layout.column},
                    {c.data(), c_row, nullptr});
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < c_row; ++j) {
      const float actual = c[static_cast<size_t>(i * c_row + j)];
      if (j >= n) {
        ASSERT_TRUE(std::isnan(actual)) << "wrote beyond row " << i << " of " << m << " x " << n << " x " << k;
        continue;
      }
      double expected = 0;
      for (int64_t p = 0; p < k; ++p) {
        expected += static_cast<double>(a[static_cast<size_t>(i * a_layout.row + p * a_layout.column)]) *
                    b[static_cast<size_t>(p * b_layout.row + j * b_layout.column)];
      }
      ASSERT_EQ(actual, static_cast<float>(expected)) << "element [" << i << ", " << j << "] of " << m << " x " << n << " x " << k;
    }
  }
}

TOROID_ON_MACHINES(Gemm);

TEST_P(Gemm, AllSmallShapes) {
  RuntimePool pool(1);
  for (int64_t m : {0, 1, 2, 4, 5, 8, 11, 12, 13, 31}) {
    for (int64_t n : {0, 1, 2, 15, 16, 17, 31, 33}) {
      for (int64_t k : {0, 1, 2, 7, 33}) check(pool, m, n, k, {k, 1}, {n, 1}, n);
    }
  }
}

// Tiles of whole panels end row by row, if the depth has so many steps: around the lengths of those, of a block of a sum and of a part of a
// panel. 71 rows are strips of six and five.
TEST_P(Gemm, WholePanelsOfEveryDepth) {
  RuntimePool pool(1);
  for (int64_t around : {4, 128, 256, 1024}) {
    for (int64_t k = around - 3; k < around + 6; ++k) check(pool, 71, 64, k, {k, 1}, {64, 1}, 65);
  }
}

// In every form: rows by columns, a few rows, packed panels, one column. One float32 sum after the other errs by 1e-5 here and more.
TEST_P(Gemm, LongSumsAreSumsOfBlocks) {
  RuntimePool pool(2);
  const int64_t k = 200'000;
  for (const auto& [m, n] : {std::array<int64_t, 2>{1, 1}, {1, 40}, {3, 5}, {20, 20}, {9, 64}}) {
    std::vector<float> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n)), c(static_cast<size_t>(m * n));
    uint32_t seed = 7;
    for (std::vector<float>* matrix : {&a, &b}) {
      for (float& value : *matrix) {
        seed = seed * 1664525u + 1013904223u;
        value = static_cast<float>(seed >> 8) * 0x1p-24f;
      }
    }
    for (const MatrixLayout b_layout : {MatrixLayout{n, 1}, MatrixLayout{1, k}}) {
      multiply_cheapest(pool, m, n, k, {a.data(), k, 1}, {b.data(), b_layout.row, b_layout.column}, {c.data(), n, nullptr});
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; j += 7) {
          SumInDouble expected;
          add_products(expected, a.data() + i * k, 1, b.data() + j * b_layout.column, b_layout.row, k);
          EXPECT_NEAR(c[static_cast<size_t>(i * n + j)] / expected.value, 1, 2e-6) << m << " x " << n;
        }
      }
    }
  }
}

TEST_P(Gemm, AllCombinationsOfStrides) {
  RuntimePool pool(2);
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{13, 33, 12}, {1, 97, 31}, {97, 1, 33}, {33, 13, 1}}) {
    for (MatrixLayout a : layouts(m, k)) {
      for (MatrixLayout b : layouts(k, n)) {
        check(pool, m, n, k, a, b, n);
        check(pool, m, n, k, a, b, n + 7);
      }
    }
  }
}

// Past each of the blocking's sizes, and not a multiple of any.
TEST_P(Gemm, SeveralBlocks) {
  RuntimePool pool(3);
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{97, 97, 385},
                                {385, 97, 97},
                                {97, 385, 31},
                                {1, 1025, 385},
                                {385, 1, 385},
                                {12, 33, 2049},
                                {255, 257, 256},
                                {13, 4099, 5},
                                {61, 70, 2100},
                                {3, 1030, 1027},
                                {9, 37, 1100}}) {
    check(pool, m, n, k, {k, 1}, {n, 1}, n);
    check(pool, m, n, k, {1, m}, {1, k}, n);
  }
}

// Each form, also where another is the usual one.
TEST_P(Gemm, EveryFormThatTakesTheOperands) {
  RuntimePool pool(2);
  const int64_t n = 35, k = 37;
  for (int64_t m : {1, 3, 4, 5, 12, 13, 29}) {
    for (const MatrixLayout layout : {MatrixLayout{n, 1}, MatrixLayout{1, k}}) {
      const std::vector<float> a = values(m * k, 1), b = values(n * k, 2);
      auto in_form = [&](MultiplyMatrices form) {
        std::vector<float> c(static_cast<size_t>(m * n), std::nanf(""));
        form(pool, m, n, k, {a.data(), k, 1}, {b.data(), layout.row, layout.column}, {c.data(), n, nullptr});
        return c;
      };
      const MultiplyMatrices few = layout.row == 1 ? multiply_small_m_by_columns : multiply_small_m_by_rows;
      EXPECT_EQ(in_form(few), in_form(multiply_packed)) << m << " rows";
    }
  }
}

// Numbers whose sums are rounded: a row's do not depend on how many rows its strip has, in panels of any width.
TEST_P(Gemm, RowsDoNotDependOnThoseBesideThem) {
  RuntimePool pool(1);
  const int64_t k = 43, most = 31;
  for (int64_t n : {3, 16, 27, 48, 64, 80, 96}) {
    std::vector<float> a = values(most * k, 1), b = values(n * k, 2);
    for (auto* matrix : {&a, &b}) {
      for (float& value : *matrix) value /= 3;
    }
    auto product = [&](int64_t first, int64_t m) {
      std::vector<float> c(static_cast<size_t>(m * n), std::nanf(""));
      multiply_packed(pool, m, n, k, {a.data() + first * k, k, 1}, {b.data(), n, 1}, {c.data(), n, nullptr});
      return c;
    };
    std::vector<float> alone;
    for (int64_t i = 0; i < most; ++i) {
      const std::vector<float> row = product(i, 1);
      alone.insert(alone.end(), row.begin(), row.end());
    }
    for (int64_t m = 2; m <= most; ++m) {
      EXPECT_EQ(product(0, m), std::vector<float>(alone.begin(), alone.begin() + m * n)) << m << " rows, " << n << " columns";
    }
  }
}

// Results of more than a block have several sums each, so they err less than one sum of all products would.
TEST_P(Gemm, SumsErrLessThanOneAfterTheOther) {
  RuntimePool pool(1);
  for (const auto& [name, algorithm] : std::initializer_list<std::pair<const char*, MultiplyMatrices>>{
           {"packed", multiply_packed}, {"by rows", multiply_small_m_by_rows}, {"by columns", multiply_small_m_by_columns}}) {
    for (int64_t k : {100, 200, 233, 1000}) {
      double ours = 0, one_after_the_other = 0;
      for (int64_t m : {1, 3, 10, 31}) {
        const int64_t n = 42;
        std::vector<float> a = values(m * k, 3), b = values(k * n, 4), c(static_cast<size_t>(m * n));
        for (auto* matrix : {&a, &b}) {
          for (float& value : *matrix) value = (value + 9) / 17.3f;
        }
        const bool by_columns = algorithm == multiply_small_m_by_columns;
        const Matrix left = {a.data(), k, 1}, right = {b.data(), by_columns ? 1 : n, by_columns ? k : 1};
        algorithm(pool, m, n, k, left, right, {c.data(), n, nullptr});
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double exact = 0;
            float sum = 0;
            for (int64_t p = 0; p < k; ++p) {
              exact += static_cast<double>(*left.at(i, p)) * *right.at(p, j);
              sum = std::fma(*left.at(i, p), *right.at(p, j), sum);
            }
            ours += std::pow((c[static_cast<size_t>(i * n + j)] - exact) / exact, 2);
            one_after_the_other += std::pow((sum - exact) / exact, 2);
          }
        }
      }
      EXPECT_LE(ours, k <= kLongestBlock ? one_after_the_other : one_after_the_other / 2) << "depth " << k << ", " << name;
    }
  }
}

TOROID_ON_MACHINES(PackedPairs);

// The last panel in half vectors, two elements of the depth at a time: small integers, whose sums are exact.
TEST_P(PackedPairs, PanelsInPairs) {
  RuntimePool pool(2);
  int panels = 0;
  for (int64_t n : {1, 8, 13, 16, 23, 24, 40, 72, 85, 104}) {
    if (!PackedB::pays_in_pairs(n)) continue;
    ++panels;
    for (int64_t k : {2, 38, 2056}) {
      const std::vector<float> b = values(n * k, 2);
      std::vector<float> packed(static_cast<size_t>(PackedB::size(k, n)));
      pack_panels({b.data(), n, 1}, k, n, 0, PackedB::panels(n), packed.data(), true);
      const PackedB right = {k, n, packed.data(), true};
      for (int64_t m : {1, 2, 5, 9, 10, 14, 15, 29, 31}) {
        const std::vector<float> a = values(m * k, 1);
        std::vector<float> c(static_cast<size_t>(m * n + 1), -1.5f), expected = c;
        multiply_all(pool, m, {a.data(), k, 1}, right, {c.data(), n, nullptr});
        multiply_packed(pool, m, n, k, {a.data(), k, 1}, {b.data(), n, 1}, {expected.data(), n, nullptr});
        EXPECT_EQ(c, expected) << m << " x " << n << " x " << k;
      }
    }
  }
  EXPECT_EQ(panels, vector_set() == VectorSet::Avx512 ? 10 : 0);
}

// Numbers whose sums are rounded: a row's are the same in strips of any number of rows.
TEST_P(PackedPairs, RowsInPairsDoNotDependOnThoseBesideThem) {
  RuntimePool pool(1);
  const int64_t k = 44, most = 31;
  for (int64_t n : {7, 16, 24, 40, 80}) {
    if (!PackedB::pays_in_pairs(n)) continue;
    std::vector<float> a = values(most * k, 1), b = values(n * k, 2), packed(static_cast<size_t>(PackedB::size(k, n)));
    for (auto* matrix : {&a, &b}) {
      for (float& value : *matrix) value /= 3;
    }
    pack_panels({b.data(), n, 1}, k, n, 0, PackedB::panels(n), packed.data(), true);
    const PackedB right = {k, n, packed.data(), true};
    std::vector<float> alone(static_cast<size_t>(most * n)), together = alone;
    for (int64_t i = 0; i < most; ++i) multiply_all(pool, 1, {a.data() + i * k, k, 1}, right, {alone.data() + i * n, n, nullptr});
    for (int64_t m = 2; m <= most; ++m) {
      multiply_all(pool, m, {a.data(), k, 1}, right, {together.data(), n, nullptr});
      EXPECT_TRUE(std::equal(together.begin(), together.begin() + m * n, alone.begin())) << m << " rows, " << n << " columns";
    }
  }
}

// Rows of a right side so large that it is summed in two halves of the depth: the same sums on any number of threads, near those in one go.
TEST_P(Gemm, FewRowsOfALargeRightSideDoNotDependOnThreads) {
  const int64_t n = 1501, k = 803;
  for (int64_t m : {1, 3, 6}) {
    const std::vector<float> a = values(m * k, 1), b = values(n * k, 2);
    auto in_form = [&](MultiplyMatrices form, int threads) {
      RuntimePool pool(threads);
      std::vector<float> c(static_cast<size_t>(m * (n + 5)), -1.0f);
      form(pool, m, n, k, {a.data(), k, 1}, {b.data(), n, 1}, {c.data(), n + 5, nullptr});
      return c;
    };
    const std::vector<float> one = in_form(multiply_small_m_by_rows, 1);
    EXPECT_EQ(one, in_form(multiply_small_m_by_rows, 2)) << m << " rows";
    EXPECT_EQ(one, in_form(multiply_small_m_by_rows, 3)) << m << " rows";
    EXPECT_EQ(one, in_form(multiply_packed, 2)) << m << " rows";  // values() are small integers: every sum is exact
  }
}

TEST_P(Gemm, NanAndInfinityReachOnlyTheirRowsAndColumns) {
  RuntimePool pool(1);
  constexpr int64_t kSize = 29;
  std::vector<float> a = values(kSize * kSize, 3), b(kSize * kSize, 0.0f), c(kSize * kSize);
  for (int64_t i = 0; i < kSize; ++i) b[static_cast<size_t>(i * kSize + i)] = 1;
  a[3 * kSize + 4] = std::nanf("");
  multiply_cheapest(pool, kSize, kSize, kSize, {a.data(), kSize, 1}, {b.data(), kSize, 1}, {c.data(), kSize, nullptr});
  for (int64_t i = 0; i < kSize; ++i) {
    for (int64_t j = 0; j < kSize; ++j) EXPECT_EQ(std::isnan(c[static_cast<size_t>(i * kSize + j)]), i == 3) << i << ", " << j;
  }
}

}  // namespace
}  // namespace toroid
