#include "schedule/fusion/dependency_order.h"

#include <gtest/gtest.h>

#include <random>

namespace toroid::schedule {
namespace {

TEST(DependencyOrder, AnswersThroughOthers) {
  DependencyOrder order;
  for (int i = 0; i < 4; ++i) order.add();
  order.depend(1, 0);
  order.depend(2, 1);
  EXPECT_TRUE(order.depends(2, 0));
  EXPECT_FALSE(order.depends(0, 2));
  EXPECT_FALSE(order.depends(3, 0));
  order.depend(0, 3);  // against the order of creation
  EXPECT_TRUE(order.depends(2, 3));
  EXPECT_EQ(order.order(), (std::vector<size_t>{3, 0, 1, 2}));
}

TEST(DependencyOrder, AgreesWithTheTransitiveClosure) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    constexpr size_t kNodes = 30;
    DependencyOrder order;
    std::vector<std::vector<bool>> closure(kNodes, std::vector<bool>(kNodes));  // [a][b]: a depends on b
    for (size_t i = 0; i < kNodes; ++i) order.add();
    for (int edge = 0; edge < 60; ++edge) {
      const size_t node = random() % kNodes, on = random() % kNodes;
      ASSERT_EQ(order.depends(node, on), closure[node][on]);
      if (node == on || closure[on][node]) continue;
      order.depend(node, on);
      for (size_t a = 0; a < kNodes; ++a) {
        if (a != node && !closure[a][node]) continue;
        closure[a][on] = true;
        for (size_t b = 0; b < kNodes; ++b) closure[a][b] = closure[a][b] || closure[on][b];
      }
    }
    const std::vector<size_t> sorted = order.order();
    ASSERT_EQ(sorted.size(), kNodes);
    for (size_t i = 0; i < kNodes; ++i) {
      for (size_t j = i + 1; j < kNodes; ++j) EXPECT_FALSE(closure[sorted[i]][sorted[j]]);
    }
  }
}

}  // namespace
}  // namespace toroid::schedule
