#include "library/regions.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "interp/program_for_test.h"

namespace toroid {
namespace {

HostTensor apply_one(const std::string& name, const std::vector<HostTensor>& inputs, TensorType type, std::vector<Scalar> attributes) {
  return run(inputs, [&](Builder& b, std::vector<Tensor> x) { return b.library(name, x, {type}, attributes); })[0];
}

TensorType of(DType dtype, Sizes sizes) { return {.dtype = dtype, .sizes = std::move(sizes)}; }

std::vector<double> numbers(const HostTensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.numel(); ++i) values.push_back(tensor.double_at(i));
  return values;
}

// The third box overlaps the second alone, which the first suppresses. An overlap of just the limit suppresses nothing.
TEST(Regions, SuppressBoxesThatABetterKeptOneOverlaps) {
  const HostTensor boxes = f32({3, 4}, {0, 0, 2, 2, 1, 0, 3, 2, 2, 0, 4, 2});
  const auto kept = [&](double limit) { return numbers(apply_one("regions.suppress", {boxes}, of(DType::Bool, {3}), {limit})); };
  EXPECT_EQ(kept(0.3), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(kept(0.4), (std::vector<double>{1, 1, 1}));
  const HostTensor two = f32({2, 4}, {0, 0, 2, 2, 0, 0, 2, 1});
  EXPECT_EQ(numbers(apply_one("regions.suppress", {two}, of(DType::Bool, {2}), {0.5})), (std::vector<double>{1, 1}));
}

const std::vector<Scalar> kOneSample = {1.0, sym::Expr(1), sym::Expr(1), sym::Expr(0)};  // scale, samples, aligned, by position

TEST(Regions, AlignReadsBetweenPixels) {
  const HostTensor image = f32({1, 1, 2, 2}, {1, 2, 3, 4});
  // The middle of the image, a pixel, and what lies outside.
  const HostTensor regions = f32({3, 5}, {0, 0, 0, 2, 2, 0, 0, 0, 1, 1, 0, 9, 9, 10, 10});
  EXPECT_EQ(numbers(apply_one("regions.align", {image, regions}, of(DType::F32, {3, 1, 1, 1}), kOneSample)),
            (std::vector<double>{2.5, 1, 0}));
  const HostTensor grad = f32({3, 1, 1, 1}, {4, 1, 1});
  EXPECT_EQ(numbers(apply_one("regions.align_backward", {grad, regions}, of(DType::F32, {1, 1, 2, 2}), kOneSample)),
            (std::vector<double>{2, 1, 1, 1}));
}

// As many samples as it has pixels would never be counted to their end.
TEST(Regions, AlignWithARegionFarLargerThanTheImage) {
  const HostTensor image = f32({1, 1, 2, 2}, {1, 1, 1, 1});
  const HostTensor regions = f32({2, 5}, {0, -1e8f, -1e8f, 1e8f, 1e8f, 0, -1e30f, 0, 1e30f, 1});
  const HostTensor result =
      apply_one("regions.align", {image, regions}, of(DType::F32, {2, 1, 1, 1}), {1.0, sym::Expr(0), sym::Expr(1), sym::Expr(0)});
  EXPECT_LT(std::abs(result.double_at(0)), 1e-6);
}

TEST(Regions, OfAnImageThatIsNotThereAreRefused) {
  const HostTensor image = f32({1, 1, 2, 2}, {1, 2, 3, 4});
  for (float number : {-1.0f, 1.0f, 1e20f, std::numeric_limits<float>::quiet_NaN()}) {
    try {
      apply_one("regions.align", {image, f32({1, 5}, {number, 0, 0, 1, 1})}, of(DType::F32, {1, 1, 1, 1}), kOneSample);
      ADD_FAILURE() << number;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::InvalidInput);
      EXPECT_NE(error.report().find("and there are 1"), std::string::npos) << error.report();
    }
  }
}

TEST(Regions, WithPositionsThatAreNoNumbersReadNothing) {
  const HostTensor image = f32({1, 1, 2, 2}, {1, 2, 3, 4});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const HostTensor regions = f32({1, 5}, {0, nan, nan, nan, nan});
  EXPECT_EQ(numbers(apply_one("regions.align", {image, regions}, of(DType::F32, {1, 1, 1, 1}), kOneSample)), (std::vector<double>{0}));
  const HostTensor pooled = run({image, regions}, [&](Builder& b, std::vector<Tensor> x) {
    return b.library("regions.max", x, {of(DType::F32, {1, 1, 1, 1}), of(DType::I32, {1, 1, 1, 1})}, {1.0});
  })[0];
  EXPECT_EQ(numbers(pooled), (std::vector<double>{1}));
}

}  // namespace
}  // namespace toroid
