#include "base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace toroid {
namespace {

TEST(Float16, HasTheBitsOfOne) {
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(float(Float16::from_bits(0x3c00)), 1.0f);
}

// The nearest representable value by definition: search all 65536 of them.
template <class Half>
void expect_nearest_even(float value) {
  const Half rounded(value);
  const float result(rounded);
  const float below(Half::from_bits(static_cast<uint16_t>(rounded.bits - 1)));
  const float above(Half::from_bits(static_cast<uint16_t>(rounded.bits + 1)));
  const double distance = std::abs(double(result) - value);
  for (float neighbour : {below, above}) {
    if (!std::isfinite(neighbour) || std::signbit(neighbour) != std::signbit(result)) continue;
    const double other = std::abs(double(neighbour) - value);
    EXPECT_LE(distance, other) << value;
    if (distance == other) {
      EXPECT_EQ(rounded.bits & 1, 0) << value;
    }
  }
}

template <class Half>
class HalfTest : public testing::Test {};
using HalfTypes = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(HalfTest, HalfTypes);

TYPED_TEST(HalfTest, EveryValueSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const TypeParam value = TypeParam::from_bits(static_cast<uint16_t>(bits));
    const float wide(value);
    const TypeParam back(wide);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(float(back))) << bits;
      EXPECT_EQ(back.bits & 0x8000, value.bits & 0x8000) << bits;
    } else {
      EXPECT_EQ(back.bits, bits);
    }
  }
}

TYPED_TEST(HalfTest, RoundsToTheNearestWithTiesToEven) {
  for (uint32_t bits = 0; bits < 0xffff; ++bits) {
    const float low(TypeParam::from_bits(static_cast<uint16_t>(bits)));
    const float high(TypeParam::from_bits(static_cast<uint16_t>(bits + 1)));
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const float middle = static_cast<float>((double(low) + high) / 2);
    expect_nearest_even<TypeParam>(middle);
    expect_nearest_even<TypeParam>(std::nextafter(middle, low));
    expect_nearest_even<TypeParam>(std::nextafter(middle, high));
  }
}

TYPED_TEST(HalfTest, KeepsSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float(TypeParam(infinity)), infinity);
  EXPECT_EQ(float(TypeParam(-infinity)), -infinity);
  EXPECT_EQ(float(TypeParam(std::numeric_limits<float>::max())), infinity);
  EXPECT_TRUE(std::signbit(float(TypeParam(-0.0f))));
  // The smallest payload must not round to infinity.
  EXPECT_TRUE(std::isnan(float(TypeParam(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(float(TypeParam(1e-45f)), 0.0f + float(TypeParam(std::numeric_limits<float>::denorm_min())));
}

TEST(Float16, BoundaryToInfinityIs65520) {
  EXPECT_EQ(float(Float16(65519.0f)), 65504.0f);
  EXPECT_EQ(float(Float16(65520.0f)), std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace toroid
