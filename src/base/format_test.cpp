#include "base/format.h"

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace toroid {
namespace {

TEST(FormatTest, PlacesTakeTheArgumentsInTurn) {
  EXPECT_EQ(formatted("pivot {} of {} rows", 3, size_t{7}), "pivot 3 of 7 rows");
  EXPECT_EQ(formatted("{}{}", std::string("a"), std::string_view("b")), "ab");
  EXPECT_EQ(formatted("nothing"), "nothing");
}

TEST(FormatTest, ABraceInAnArgumentIsText) { EXPECT_EQ(formatted("<{}> {}", "{}", 'c'), "<{}> c"); }

TEST(FormatTest, IntegersHaveAllTheirDigits) {
  EXPECT_EQ(formatted("{} {}", std::numeric_limits<int64_t>::min(), std::numeric_limits<uint64_t>::max()),
            "-9223372036854775808 18446744073709551615");
  EXPECT_EQ(formatted("{} {} {}", int8_t{-5}, uint8_t{200}, true), "-5 200 true");
}

TEST(FormatTest, NumbersHaveTheFewestDigitsThatGiveThemBack) {
  EXPECT_EQ(formatted("{} {} {} {}", 0.1, 1.0, -2.5, 1e6), "0.1 1 -2.5 1000000");
  EXPECT_EQ(formatted("{} {}", 1e-5, 1e300), "1e-05 1e+300");
  EXPECT_EQ(formatted("{} {}", std::numeric_limits<double>::infinity(), 0.0), "inf 0");
}

TEST(FormatTest, NumbersAreThoseOfToChars) {
  uint64_t bits = 0x3fb999999999999a;
  for (int i = 0; i < 20000; ++i) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    double number = std::bit_cast<double>(bits);
    if (i % 2 == 0) number = std::ldexp(static_cast<double>(bits >> 40), -static_cast<int>(bits % 30));
    if (!std::isfinite(number)) continue;
    const double size = std::abs(number);
    char text[64];
    const auto form = size == 0 || (size >= 1e-4 && size < 1e16) ? std::chars_format::fixed : std::chars_format::scientific;
    const std::string expected(text, std::to_chars(text, text + sizeof text, number, form).ptr);
    ASSERT_EQ(formatted("{}", number), expected);
  }
  EXPECT_EQ(formatted("{} {} {} {}", -0.0, 1e15, 123456.789, -4.9e-324), "-0 1000000000000000 123456.789 -5e-324");
}

TEST(FormatTest, HexHasAllDigits) {
  EXPECT_EQ(hex(0), "0000000000000000");
  EXPECT_EQ(hex(0xfedcba9876543210u), "fedcba9876543210");
}

TEST(FormatTest, JoinedPutsTextBetween) {
  EXPECT_EQ(joined(std::vector<int64_t>{1, 2, 3}, ", "), "1, 2, 3");
  EXPECT_EQ(joined(std::vector<std::string>{}, ", "), "");
}

}  // namespace
}  // namespace toroid
