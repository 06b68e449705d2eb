#include "interp/compare.h"

#include <limits>

#include <gtest/gtest.h>

#include "interp/program_for_test.h"

namespace toroid {
namespace {

constexpr CompareOptions kSums{.sums_or_products = true};

TEST(Compare, FloatsWithinTolerance) {
  EXPECT_FALSE(difference(f32({2}, {1.00005, kNan}), f32({2}, {1, kNan}), {}));
  EXPECT_FALSE(difference(f32({2}, {kInf, -0.0}), f32({2}, {kInf, 0.0}), {}));
  EXPECT_TRUE(difference(f32({1}, {kInf}), f32({1}, {-kInf}), {}));
  EXPECT_TRUE(difference(f32({1}, {kNan}), f32({1}, {1}), {}));
  EXPECT_TRUE(difference(f32({1}, {1}), f32({1}, {kNan}), {}));
  EXPECT_TRUE(difference(f32({1}, {3e38}), f32({1}, {kInf}), {}));
}

TEST(Compare, OnlySumsAreMeasuredAgainstTheirRow) {
  const HostTensor expected = f32({2, 2}, {1000, 0.001, 0, 0.001});
  const HostTensor actual = f32({2, 2}, {1000, 0.05, 0, 0.001});
  EXPECT_FALSE(difference(actual, expected, kSums));
  EXPECT_EQ(difference(actual, expected, {}),
            "element [0, 1] is 0.050000001, expected 0.001 (off by 0.049, allowed 1.01e-05); 1 of 4 elements differ");
  EXPECT_TRUE(difference(f32({2, 2}, {1000, 0.001, 0, 0.05}), expected, kSums));  // the other row is small
}

TEST(Compare, NamesShapeAndExactDifferences) {
  EXPECT_EQ(difference(f32({2}, {1, 2}), f32({2, 1}, {1, 2}), {}), "is f32[2], expected f32[2, 1]");
  EXPECT_EQ(difference(i64({2}, {1, 3}), i64({2}, {1, 2}), {}), "element [1] is 3, expected 2; 1 of 2 elements differ");
  EXPECT_EQ(difference(i64({}, {1}), i64({}, {2}), {}), "element is 1, expected 2; 1 of 1 elements differ");
  EXPECT_FALSE(difference(f32({0}, {}), f32({0}, {}), kSums));
}

TEST(Compare, FindsWhatSumsMade) {
  const Program program = make_program({{.dtype = DType::F32, .sizes = {2, 2}}}, [](Builder& b, std::vector<Tensor> x) {
    Tensor sum = b.sum(x[0], {1});
    return std::vector<Tensor>{x[0] * 2.0, sum, b.unary(ScalarOp::Exp, sum), b.amax(x[0], {1})};
  });
  EXPECT_EQ(made_of_sums_or_products(program.graph), (std::vector<bool>{false, true, true, false}));
}

TEST(Compare, FindsTheWorstElementAndTheLargestDifferences) {
  const HostTensor expected = HostTensor::from_doubles(DType::F32, {2, 2}, std::vector<double>{1, 100, 0, 2});
  const HostTensor actual = HostTensor::from_doubles(DType::F32, {2, 2}, std::vector<double>{1.005, 100, 0.5, 2});
  const Differences by_row = compare_elements(actual, expected, {1e-4, 1e-5}, true);
  EXPECT_EQ(by_row.elements, 4);
  EXPECT_EQ(by_row.differing, 1) << "0.005 is less than 1e-4 of 100";
  EXPECT_EQ(by_row.worst, 2);
  EXPECT_NEAR(by_row.most_absolute, 0.5, 1e-6);
  EXPECT_NEAR(by_row.most_relative, 0.005, 1e-6);
  EXPECT_EQ(compare_elements(actual, expected, {1e-4, 1e-5}, false).differing, 2);
  EXPECT_EQ(compare_elements(expected, expected, {}, false).differing, 0);
}

TEST(Compare, IntegersAreExactUnlessAToleranceIsGiven) {
  const int64_t large = (int64_t{1} << 60) + 1;  // of which a double does not know the last digit
  const HostTensor a = HostTensor::from_ints(DType::I64, {2}, std::vector<int64_t>{large, 5}),
                   e = HostTensor::from_ints(DType::I64, {2}, std::vector<int64_t>{large - 1, 5});
  EXPECT_EQ(compare_elements(a, e, tolerance_of(DType::I64), true).differing, 1);
  const HostTensor b = HostTensor::from_ints(DType::I64, {2}, std::vector<int64_t>{large, 6});
  EXPECT_EQ(compare_elements(b, a, {0, 1}, false).differing, 0);
}

}  // namespace
}  // namespace toroid
