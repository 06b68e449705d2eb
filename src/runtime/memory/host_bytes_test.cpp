#include "runtime/memory/host_bytes.h"

#include <gtest/gtest.h>

namespace toroid {
namespace {

TEST(HostBytes, TheSmallestThatFitsIsTaken) {
  std::list<HostBytes> from, to;
  for (const size_t size : {size_t{90}, size_t{50}, size_t{60}, size_t{40}}) from.emplace_back(size, nullptr);
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
