#include "support/lru_map.h"

#include <gtest/gtest.h>

namespace toroid {
namespace {

TEST(LruMap, TheLeastRecentlyUsedGoes) {
  LruMap<int> map(2);
  EXPECT_EQ(map.find("a"), nullptr);
  EXPECT_EQ(map.put("a", 1), 0u);
  EXPECT_EQ(map.put("b", 2), 0u);
  EXPECT_EQ(*map.find("a"), 1);  // now b is the older one
  EXPECT_EQ(map.put("c", 3), 1u);
  EXPECT_EQ(map.find("b"), nullptr);
  EXPECT_EQ(*map.find("a"), 1);
  EXPECT_EQ(map.put("a", 4), 0u) << "in the place of the old value";
  EXPECT_EQ(*map.find("a"), 4);
  EXPECT_EQ(map.size(), 2u);
}

TEST(LruMap, OneThatHoldsNothingForgetsAtOnce) {
  LruMap<int> map(0);
  EXPECT_EQ(map.put("a", 1), 1u);
  EXPECT_EQ(map.size(), 0u);
}

}  // namespace
}  // namespace toroid
