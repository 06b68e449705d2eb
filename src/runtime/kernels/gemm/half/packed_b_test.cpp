// Parts of panels hold what their definition says, from matrices that lie in any way.
#include "runtime/kernels/gemm/half/packed_b.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/float16.h"
#include "runtime/kernels/isa/on_machines_for_test.h"

namespace toroid {
namespace {

struct Placing {
  int64_t row, column, first;  // strides, and where the first element is
};

// Calls f(matrix, k, n) for matrices in rows, in columns and neither, with gaps and at odd places. Elements are bfloat16 of small integers.
template <class F>
void for_each_matrix(F f) {
  for (const int64_t k : {1, 2, 7, 64, 139}) {
    for (const int64_t n : {1, 16, 37, 64, 97, 130}) {
      const int64_t even = k + k % 2, odd = k + 1 - k % 2;
      for (const Placing& at : {Placing{n, 1, 0}, {n + 3, 1, 1}, {1, even, 0}, {1, odd, 0}, {1, even, 1}, {3, 3 * k, 0}}) {
        std::vector<BFloat16> elements(static_cast<size_t>(at.first + k * at.row + n * at.column + 1));
        for (size_t i = 0; i < elements.size(); ++i) elements[i] = BFloat16(static_cast<float>(i * 7 % 251));
        SCOPED_TRACE(testing::Message() << k << " x " << n << " at strides " << at.row << ", " << at.column << " from " << at.first);
        f(Matrix16{reinterpret_cast<const uint16_t*>(elements.data()) + at.first, at.row, at.column, DType::BF16}, k, n);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// Calls f(panel, rows) for parts of each panel, with `depth` rows in all.
template <class F>
void for_each_part(int64_t n, int64_t depth, F f) {
  for (int64_t panel = 0; panel < PackedB::panels(n); ++panel) {
    for (const Range rows : {Range{0, depth}, {0, depth / 2}, {depth / 2, depth}}) f(panel, rows);
  }
}

TOROID_ON_MACHINES(HalfPanels);

TEST_P(HalfPanels, InPairsHaveTwoRowsSideBySide) {
  for_each_matrix([](const Matrix16& b, int64_t k, int64_t n) {
    const PackedB shape = {pairs_of(k), n, nullptr};
    for_each_part(n, pairs_of(k), [&](int64_t panel, Range pairs) {
      const int64_t width = shape.width(panel), first = shape.first_column(panel);
      std::vector<float> packed(static_cast<size_t>(pairs.size() * width), -1.0f);
      pack_pairs(b, k, n, panel, pairs, packed.data());
      std::vector<uint16_t> bits(2 * packed.size());
      if (!packed.empty()) std::memcpy(bits.data(), packed.data(), packed.size() * sizeof(float));
      for (int64_t p = 2 * pairs.first; p < 2 * pairs.last; ++p) {
        for (int64_t j = 0; j < width; ++j) {
          const uint16_t expected = p < k && first + j < n ? *b.at(p, first + j) : uint16_t{0};
          ASSERT_EQ(bits[static_cast<size_t>(((p / 2 - pairs.first) * width + j) * 2 + p % 2)], expected) << p << ", " << first + j;
        }
      }
    });
  });
}

TEST_P(HalfPanels, WidenedHaveFloat32) {
  for_each_matrix([](const Matrix16& b, int64_t k, int64_t n) {
    const PackedB shape = {k, n, nullptr};
    for_each_part(n, k, [&](int64_t panel, Range rows) {
      const int64_t width = shape.width(panel), first = shape.first_column(panel);
      std::vector<float> packed(static_cast<size_t>(rows.size() * width), -1.0f);
      pack_widened(b, n, panel, rows, packed.data());
      for (int64_t p = rows.first; p < rows.last; ++p) {
        for (int64_t j = 0; j < width; ++j) {
          const float expected = first + j < n ? static_cast<float>(BFloat16::from_bits(*b.at(p, first + j))) : 0.0f;
          ASSERT_EQ(packed[static_cast<size_t>((p - rows.first) * width + j)], expected) << p << ", " << first + j;
        }
      }
    });
  });
}

}  // namespace
}  // namespace toroid
