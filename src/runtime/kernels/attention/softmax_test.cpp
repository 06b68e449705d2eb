#include "runtime/kernels/attention/softmax.h"
#include "runtime/kernels/isa/on_machines_for_test.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace toroid {
namespace {

// In parts of so many elements, or in one.
std::vector<float> softmax(std::vector<float> row, size_t part = 1000, float scale = 0.5f) {
  row.push_back(1234.5f);  // must stay
  RunningSoftmax running;
  const size_t count = row.size() - 1;
  for (size_t begin = 0; begin < count; begin += part) {
    const float factor = softmax_part_f32(row.data() + begin, static_cast<int64_t>(std::min(part, count - begin)), scale, running);
    scale_row_f32(row.data(), static_cast<int64_t>(begin), factor);
  }
  scale_row_f32(row.data(), static_cast<int64_t>(count), running.inverse());
  EXPECT_EQ(row.back(), 1234.5f);
  row.pop_back();
  return row;
}

TOROID_ON_MACHINES(Softmax);

TEST_P(Softmax, IsExactToAFewUnitsOfTheLastPlaceAtEveryLength) {
  for (size_t count = 1; count < 70; ++count) {
    std::vector<float> row;
    double sum = 0;
    float largest = -1e30f;
    for (size_t i = 0; i < count; ++i) row.push_back(static_cast<float>(i * 37 % 101) * 0.37f - 20.0f);
    for (float x : row) largest = std::max(largest, x);
    // The distance to the largest is rounded to a float, as in every softmax of floats.
    auto term = [&](float x) { return std::exp(static_cast<double>(x - largest)); };
    for (float x : row) sum += term(x);
    std::vector<float> doubled = row;  // what softmax() scales them by
    for (float& x : doubled) x *= 2;
    for (const size_t part : {1000, 16, 5}) {
      const std::vector<float> result = softmax(doubled, part);
      for (size_t i = 0; i < count; ++i) EXPECT_NEAR(result[i], term(row[i]) / sum, 2e-6 * term(row[i]) / sum) << count << ", " << part;
    }
  }
}

TEST_P(Softmax, OfLargeScoresIsOneForTheLargest) {
  for (size_t count = 1; count < 40; ++count) {
    for (const float unit : {1e9f, 1.1e20f, -7.3e30f}) {
      std::vector<float> row;
      for (size_t i = 0; i < count; ++i) row.push_back(unit * (1 + static_cast<float>(i * 37 % 101) / 7));
      const auto largest = std::max_element(row.begin(), row.end()) - row.begin();
      for (const size_t part : {1000, 16, 5}) {
        const std::vector<float> result = softmax(row, part, 0.2425356f);
        for (size_t i = 0; i < count; ++i)
          EXPECT_EQ(result[i], static_cast<ptrdiff_t>(i) == largest ? 1.0f : 0.0f) << count << ", " << part;
      }
    }
  }
}

TEST_P(Softmax, TakesInfinitiesAndNan) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (size_t count : {1, 3, 16, 17, 40}) {
    for (float x : softmax(std::vector<float>(count, -kInf))) EXPECT_EQ(x, 0.0f);
    std::vector<float> row(count, 1.0f);
    row[count / 2] = std::nanf("");
    for (float x : softmax(row)) EXPECT_TRUE(std::isnan(x)) << count;
    row[count / 2] = kInf;
    for (float x : softmax(row)) EXPECT_TRUE(std::isnan(x)) << count;
    row.assign(count, -kInf);
    row[count / 2] = -3.0f;
    for (const size_t part : {1000, 7}) {
      const std::vector<float> one = softmax(row, part);
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(one[i], i == count / 2 ? 1.0f : 0.0f);
    }
    row.assign(count, -400.0f);
    row[count - 1] = 0.0f;
    EXPECT_EQ(softmax(row)[count - 1], 1.0f);
  }
}

}  // namespace
}  // namespace toroid
