#include "base/format.h"

#include <gtest/gtest.h>

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
