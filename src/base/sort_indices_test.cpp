#include "base/sort_indices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace toroid {
namespace {

TEST(SortIndices, IsAsAStableSortFromTheSmallestIndexOn) {
  std::mt19937 random(1);
  for (const size_t count : {0, 1, 2, 3, 17, 1000}) {
    std::vector<int> values(count);
    for (int& value : values) value = static_cast<int>(random() % 10);
    std::vector<size_t> expected(count), shuffled(count);
    std::iota(expected.begin(), expected.end(), size_t{0});
    const auto is_before = [&](size_t a, size_t b) { return values[a] > values[b]; };
    std::stable_sort(expected.begin(), expected.end(), is_before);
    std::iota(shuffled.begin(), shuffled.end(), size_t{0});
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    sort_indices(shuffled, is_before);
    EXPECT_EQ(shuffled, expected) << count;
  }
}

}  // namespace
}  // namespace toroid
