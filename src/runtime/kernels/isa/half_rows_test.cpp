#include "runtime/kernels/isa/half_rows.h"

#include <bit>
#include <vector>

#include <gtest/gtest.h>

#include "base/float16.h"
#include "runtime/kernels/isa/on_machines_for_test.h"

namespace toroid {
namespace {

// Every value of 16 bits, in rows that end at any place of a vector.
template <class T>
void expect_widened(DType dtype) {
  std::vector<uint16_t> bits(65536 + 37);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(bits.size());
  widen_row(dtype, bits.data(), static_cast<int64_t>(bits.size()), wide.data());
  for (size_t i = 0; i < bits.size(); ++i) {
    const auto expected = static_cast<float>(T::from_bits(bits[i]));
    ASSERT_TRUE(expected != expected ? wide[i] != wide[i] : std::bit_cast<uint32_t>(wide[i]) == std::bit_cast<uint32_t>(expected)) << i;
  }
}

// Halfway cases, numbers that are not normal in 16 bits, infinities and NaN among many.
template <class T>
void expect_rounded(DType dtype) {
  std::vector<float> wide;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 0x0fff) wide.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (uint32_t i = 0; i < 65536; ++i) wide.push_back(std::bit_cast<float>(i << 16 | 0x8000u));
  std::vector<uint16_t> bits(wide.size());
  round_row(dtype, wide.data(), static_cast<int64_t>(wide.size()), bits.data());
  for (size_t i = 0; i < wide.size(); ++i) {
    const auto actual = static_cast<float>(T::from_bits(bits[i]));
    if (wide[i] != wide[i]) {
      ASSERT_NE(actual, actual);
      continue;
    }
    ASSERT_EQ(bits[i], T(wide[i]).bits) << wide[i];
  }
}

TOROID_ON_MACHINES(Rows16);

TEST_P(Rows16, OfBFloat16) {
  expect_widened<BFloat16>(DType::BF16);
  expect_rounded<BFloat16>(DType::BF16);
}

TEST_P(Rows16, OfFloat16) {
  expect_widened<Float16>(DType::F16);
  expect_rounded<Float16>(DType::F16);
}

}  // namespace
}  // namespace toroid
