#include "base/file/framing.h"

#include <gtest/gtest.h>

namespace toroid {
namespace {

TEST(Framing, NumbersAreLittleEndian) {
  std::string bytes;
  append_number(bytes, 0x0102030405060708);
  EXPECT_EQ(bytes, "\x08\x07\x06\x05\x04\x03\x02\x01");
  for (const uint64_t number : {uint64_t{0}, uint64_t{255}, UINT64_MAX}) append_number(bytes, number);
  std::string_view rest = bytes;
  EXPECT_EQ(take_number(rest), 0x0102030405060708u);
  EXPECT_EQ(take_number(rest), 0u);
  EXPECT_EQ(take_number(rest), 255u);
  EXPECT_EQ(take_number(rest), UINT64_MAX);
  EXPECT_EQ(rest, "");
}

TEST(Framing, TextsOfAnyBytesFollowEachOther) {
  const std::string texts[] = {"", "one", std::string("\0two\xff", 5)};
  std::string bytes;
  for (const std::string& text : texts) append_sized(bytes, text);
  std::string_view rest = bytes;
  for (const std::string& text : texts) EXPECT_EQ(take_sized(rest), text);
  EXPECT_EQ(take_sized(rest), std::nullopt);
}

TEST(Framing, WhatIsCutShortGivesAndTakesNothing) {
  std::string bytes;
  append_sized(bytes, "four");
  for (size_t length = 0; length < bytes.size(); ++length) {
    std::string_view rest = std::string_view(bytes).substr(0, length);
    EXPECT_EQ(take_sized(rest), std::nullopt) << length;
    EXPECT_EQ(rest.size(), length);
  }
  std::string_view seven = "1234567";
  EXPECT_EQ(take_number(seven), std::nullopt);
  EXPECT_EQ(seven, "1234567");
  std::string_view lie =
      "\xff\xff\xff\xff\xff\xff\xff\xff"
      "four";
  EXPECT_EQ(take_sized(lie), std::nullopt);
}

}  // namespace
}  // namespace toroid
