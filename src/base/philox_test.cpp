#include "base/philox.h"

#include <gtest/gtest.h>

namespace toroid {
namespace {

using Words = std::array<uint32_t, 4>;

// The rows "philox4x32 10" of kat_vectors, published with Random123.
TEST(Philox, GivesThePublishedVectors) {
  EXPECT_EQ(philox_4x32_10(0, 0, 0).words, (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox_4x32_10(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}).words, (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox_4x32_10(0x85a308d3'243f6a88, 0x03707344'13198a2e, 0x299f31d0'a4093822).words,
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, HalvesStartWithTheEarlierWord) {
  const PhiloxBlock block{{1, 2, 3, 4}};
  EXPECT_EQ(block.low(), 0x00000002'00000001u);
  EXPECT_EQ(block.high(), 0x00000004'00000003u);
}

}  // namespace
}  // namespace toroid
