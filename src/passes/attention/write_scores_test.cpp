#include "passes/attention/write_scores.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/text/text.h"
#include "graph/verify.h"
#include "passes/dead_code.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

std::string with_scores(std::string_view text, bool has_kernel = true) {
  Program program = parse_text(text);
  decompose(program);
  const bool is_written = write_scores(program, [&](const TensorType&, const TensorType&) { return has_kernel; });
  remove_dead_code(program);
  verify(program, Level::Core);
  const std::string result = to_text(program);
  EXPECT_EQ(is_written, result.find("attention.of_scores") != std::string::npos) << result;
  return result;
}

bool mentions(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

constexpr std::string_view kCapped = R"(
graph(q: bf16[2, 4, 40, 16], k: bf16[2, 4, 50, 16], v: bf16[2, 4, 50, 24]) {
  t: bf16[2, 4, 16, 50] = aten::transpose.int(k, 2, 3)
  s: bf16[2, 4, 40, 50] = aten::matmul(q, t)
  d: bf16[2, 4, 40, 50] = aten::div.Tensor(s, 20.0)
  h: bf16[2, 4, 40, 50] = aten::tanh(d)
  c: bf16[2, 4, 40, 50] = aten::mul.Tensor(h, 20.0)
  w: bf16[2, 4, 40, 50] = aten::softmax.int(c, -1)
  y: bf16[2, 4, 40, 24] = aten::matmul(w, v)
  return y
})";

TEST(WriteScores, WhatLiesBetweenTheProductsIsOfTheScores) {
  const std::string text = with_scores(kCapped);
  EXPECT_FALSE(mentions(text, "matmul(")) << text;
  EXPECT_TRUE(mentions(text, "= tanh(")) << text;
  EXPECT_TRUE(mentions(text, "attention.product")) << text;
}

TEST(WriteScores, WithoutAKernelItStaysProducts) { EXPECT_TRUE(mentions(with_scores(kCapped, false), "matmul(")); }

// Scores that somebody else reads, or few queries.
TEST(WriteScores, OtherProductsStay) {
  std::string text(kCapped);
  text.replace(text.find("return y"), 8, "return y, h");
  EXPECT_TRUE(mentions(with_scores(text), "matmul("));
  text = kCapped;
  for (size_t at = text.find("40"); at != std::string::npos; at = text.find("40")) text.replace(at, 2, "4");
  EXPECT_TRUE(mentions(with_scores(text), "matmul("));
}

// Each step has two ways to the product; a pass that went them all would not end.
TEST(WriteScores, ManyStepsFromOneProductAreWalkedOnce) {
  const auto with_steps = [](int count) {
    std::string text(kCapped), steps;
    for (int i = 0; i < count; ++i)
      steps += fmt::format("  x{0}: bf16[2, 4, 40, 50] = aten::mul.Tensor({1}, {1})\n", i, i == 0 ? "h" : fmt::format("x{}", i - 1));
    text.insert(text.find("  c: bf16"), steps);
    const std::string last = fmt::format("aten::mul.Tensor(x{}, 20.0)", count - 1);
    return text.replace(text.find("aten::mul.Tensor(h, 20.0)"), 25, last);
  };
  EXPECT_TRUE(mentions(with_scores(with_steps(8)), "of_scores"));
  EXPECT_TRUE(mentions(with_scores(with_steps(600)), "matmul("));
}

std::string masked(std::string_view mask) {
  return fmt::format(R"(
graph(q: bf16[2, 4, 64, 16], k: bf16[2, 4, 64, 16], v: bf16[2, 4, 64, 16], d: i64[64], m: bool[64, 64], p: bool[2, 1, 1, 64]) {{
  a: i64[64] = aten::arange(64)
  i: i64[64, 1] = aten::unsqueeze(a, 1)
  j: i64[1, 64] = aten::unsqueeze(a, 0)
  n: i64[64, 64] = aten::sub.Tensor(i, j)
  {}
  y: bf16[2, 4, 64, 16] = aten::scaled_dot_product_attention(q, k, v, attn_mask=w)
  return y
}})",
                     mask);
}
TEST(WriteScores, MasksOfPositionsAndOfSmallTensorsAreOfTheScores) {
  EXPECT_TRUE(mentions(with_scores(masked("w: bool[64, 64] = aten::lt.Scalar(n, 9)")), "of_scores"));
  EXPECT_TRUE(
      mentions(with_scores(masked("x: i64[64, 1] = aten::unsqueeze(d, 1)\n  w: bool[64, 64] = aten::eq.Tensor(x, d)")), "of_scores"));
}
// What lies in memory for each score, or is the same for all queries, is read there.
TEST(WriteScores, MasksInMemoryStay) {
  EXPECT_FALSE(mentions(with_scores(masked("w: bool[64, 64] = aten::logical_not(m)")), "of_scores"));
  EXPECT_FALSE(mentions(with_scores(masked("w: bool[2, 1, 1, 64] = aten::logical_not(p)")), "of_scores"));
}

}  // namespace
}  // namespace toroid
