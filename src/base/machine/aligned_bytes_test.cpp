#include "base/machine/aligned_bytes.h"

#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

namespace toroid {
namespace {

TEST(AlignedBytes, AreAlignedAndAsManyAsAsked) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, (size_t{4} << 20) - 1, size_t{4} << 20, (size_t{9} << 20) + 5}) {
    AlignedBytes bytes(size);
    EXPECT_GE(bytes.size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 64, 0u);
    std::memset(bytes.data(), 1, size);
  }
}

TEST(AlignedBytes, TheSmallestThatFitsIsTaken) {
  std::list<AlignedBytes> from, to;
  for (const size_t size : {90, 50, 60, 40}) from.emplace_back(size);
  EXPECT_TRUE(take_smallest(from, 45, 90, to));
  EXPECT_TRUE(take_smallest(from, 60, 60, to));
  EXPECT_FALSE(take_smallest(from, 50, 80, to));  // one is too small, one too large
  ASSERT_EQ(to.size(), 2u);
  EXPECT_EQ(to.front().size(), 60u);
  EXPECT_EQ(to.back().size(), 50u);
  EXPECT_EQ(from.size(), 2u);
}

}  // namespace
}  // namespace toroid
