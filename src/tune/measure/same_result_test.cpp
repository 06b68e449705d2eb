#include "tune/measure/same_result.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/float16.h"

namespace toroid::tune {
namespace {

template <class T>
std::optional<std::string> difference(DType dtype, const std::vector<T>& actual, const std::vector<T>& expected, int64_t depth = 1) {
  return difference_of_results(dtype, depth, std::as_bytes(std::span(actual)), std::as_bytes(std::span(expected)));
}

TEST(SameResult, AllowsRoundingThatGrowsWithTheDepth) {
  const std::vector<float> expected = {1, -1, 0.001f, 1};
  std::vector<float> actual = expected;
  actual[2] += 1e-5f;  // small beside the others, which is what counts for a sum of terms like theirs
  EXPECT_EQ(difference(DType::F32, actual, expected, 1000), std::nullopt);
  EXPECT_EQ(difference(DType::F32, actual, expected, 1),
            "element 2 is 0.00101, expected 0.001 (off by 1e-05, allowed 2.7e-06); 1 of 4 elements differ");
  EXPECT_NEAR(allowed_difference(DType::F32, 1024), 3.3e-5, 1e-6);
  EXPECT_NEAR(allowed_difference(DType::BF16, 1024), 2 * 0x1p-7 + 3.2e-5, 1e-5) << "summed in float32, rounded once";
}

// Parts that are summed in float32 and kept in float64.
TEST(SameResult, AllowsRoundingOfTheDtypeOfSums) {
  const std::vector<double> expected = {1, -1}, actual = {1 + 0x1p-22, -1};
  EXPECT_NE(difference(DType::F64, actual, expected, 1000), std::nullopt);
  const auto bytes = [](const std::vector<double>& list) { return std::as_bytes(std::span(list)); };
  EXPECT_EQ(difference_of_results(DType::F64, 1000, bytes(actual), bytes(expected), DType::F32), std::nullopt);
  EXPECT_EQ(allowed_difference(DType::F32, 1000, DType::F64), allowed_difference(DType::F32, 1000));
}

// Of two rows, one has a hundred times the size of the other.
TEST(SameResult, AllowsWhatIsUsualInTheRow) {
  std::vector<float> expected(200, 0.001f);
  std::fill_n(expected.begin(), 2, 1.0f);
  expected[1] = 0;
  std::vector<float> actual = expected;
  actual[1] = 1.5e-6f;
  const auto bytes = [](const std::vector<float>& list) { return std::as_bytes(std::span(list)); };
  EXPECT_NE(difference_of_results(DType::F32, 1, bytes(actual), bytes(expected)), std::nullopt);
  EXPECT_EQ(difference_of_results(DType::F32, 1, bytes(actual), bytes(expected), std::nullopt, 2), std::nullopt);
  actual[1] = 0;
  actual[199] += 1.5e-6f;
  EXPECT_NE(difference_of_results(DType::F32, 1, bytes(actual), bytes(expected), std::nullopt, 2), std::nullopt);
}

TEST(SameResult, NanAndInfinityEqualThemselvesOnly) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(difference<float>(DType::F32, {nan, inf, -inf, 1}, {nan, inf, -inf, 1}), std::nullopt);
  EXPECT_EQ(difference<float>(DType::F32, {-nan, 1}, {1, 1}),
            "element 0 is nan, expected 1 (off by nan, allowed 3.1e-06); 1 of 2 elements differ");
  EXPECT_EQ(difference<float>(DType::F32, {1, 1}, {inf, 1}),
            "element 0 is 1, expected inf (off by inf, allowed 0); 1 of 2 elements differ");
}

TEST(SameResult, IntegersAreExact) {
  const int64_t large = int64_t{1} << 60;
  EXPECT_EQ(difference<int64_t>(DType::I64, {large}, {large}), std::nullopt);
  EXPECT_NE(difference<int64_t>(DType::I64, {large + 1}, {large}), std::nullopt) << "although they are one as doubles";
  EXPECT_EQ(difference<uint8_t>(DType::Bool, {1, 0}, {1, 1}), "element 1 is 0, expected 1 (off by 1, allowed 0); 1 of 2 elements differ");
}

TEST(SameResult, SixteenBitsAreComparedAsWhatTheyMean) {
  EXPECT_EQ(difference<Float16>(DType::F16, {Float16(1.0f)}, {Float16(1.001f)}), std::nullopt);
  EXPECT_NE(difference<Float16>(DType::F16, {Float16(1.0f)}, {Float16(1.01f)}), std::nullopt);
}

}  // namespace
}  // namespace toroid::tune
