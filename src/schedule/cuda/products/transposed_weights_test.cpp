// Which constant right sides get contiguous columns.
#include "schedule/cuda/products/transposed_weights.h"

#include <gtest/gtest.h>

#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

std::string weights(int64_t rows, int64_t columns) {
  std::string numbers = "0.5";
  for (int64_t i = 1; i < rows * columns; ++i) numbers += i % 3 == 0 ? ", -1" : ", 0.25";
  return fmt::format("buffer 0 \"w\": bf16[{0}, {1}] = [{2}]\n", rows, columns, numbers);
}

// "transposed" for each product whose right side is such a copy, "plain" for others; behind that how many steps run once.
std::string right_sides(const std::string& text, TensorCores cores = TensorCores::Hopper) {
  const Scheduled made = scheduled(text, cuda_planner(cores));
  std::string result;
  for (const Step& step : made.schedule.steps) {
    const auto* call = std::get_if<CallStep>(&step);
    if (call == nullptr) continue;
    const loop::Buffer& right = made.schedule.loops->buffer(call->call.operands[1].buffer);
    result += right.kind == loop::BufferKind::Prepared && call->call.operands[1].strides[0].is_const(1) ? "transposed " : "plain ";
  }
  return fmt::format("{}{}", result, made.schedule.prepare.size());
}

TEST(TransposedWeights, AreMadeOnceForAllProducts) {
  EXPECT_EQ(right_sides(weights(16, 64) + R"(
graph(x: bf16[128, 16], y: bf16[64, 16]) {
  w: bf16[16, 64] = constant(0)
  a: bf16[128, 64] = aten::mm(x, w)
  b: bf16[64, 64] = aten::mm(y, w)
  return a, b
})"),
            "transposed transposed 1");
}

TEST(TransposedWeights, AreOfHopper) {
  const std::string text = weights(16, 64) + R"(
graph(x: bf16[128, 16]) {
  w: bf16[16, 64] = constant(0)
  a: bf16[128, 64] = aten::mm(x, w)
  return a
})";
  EXPECT_EQ(right_sides(text), "transposed 1");
  EXPECT_EQ(right_sides(text, TensorCores::Warps), "plain 0");
}

TEST(TransposedWeights, StayWhereColumnsAreContiguousOrNoThirtyTwo) {
  EXPECT_EQ(right_sides(weights(64, 16) + R"(
graph(x: bf16[128, 16]) {
  w: bf16[64, 16] = constant(0)
  a: bf16[128, 64] = aten::linear(x, w)
  return a
})"),
            "plain 0");
  EXPECT_EQ(right_sides(weights(16, 40) + R"(
graph(x: bf16[128, 16]) {
  w: bf16[16, 40] = constant(0)
  a: bf16[128, 40] = aten::mm(x, w)
  return a
})"),
            "plain 0");
}

TEST(TransposedWeights, AreNoInputs) {
  EXPECT_EQ(right_sides(R"(
graph(x: bf16[128, 16], w: bf16[16, 64]) {
  a: bf16[128, 64] = aten::mm(x, w)
  return a
})"),
            "plain 0");
}

}  // namespace
}  // namespace toroid::schedule
