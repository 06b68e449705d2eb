#include "passes/attention/merge_gradient.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/text/text.h"
#include "graph/verify.h"
#include "passes/dead_code.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

std::string merged(std::string_view text, bool has_kernel = true) {
  Program program = parse_text(text);
  decompose(program);
  const bool is_merged = merge_attention_gradients(program, [&](const TensorType&, const TensorType&) { return has_kernel; });
  EXPECT_EQ(is_merged, to_text(program).find("attention.gradient") != std::string::npos);
  remove_dead_code(program);
  verify(program, Level::Core);
  return to_text(program);
}

constexpr std::string_view kCausal = R"(
graph(q: bf16[2, 2, 7, 16], k: bf16[2, 2, 9, 16], v: bf16[2, 2, 9, 16], g: bf16[2, 2, 7, 16]) {
  y: bf16[2, 2, 7, 16], l: f32[2, 2, 7] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, true)
  a: bf16[2, 2, 7, 16], b: bf16[2, 2, 9, 16], c: bf16[2, 2, 9, 16] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, true)
  return y, a, b, c
})";

TEST(MergeAttentionGradients, NoScoresAreLeft) {
  const std::string text = merged(kCausal);
  EXPECT_EQ(text.find("matmul("), std::string::npos) << text;
  EXPECT_NE(text.find("attention.gradient"), std::string::npos) << text;
}

TEST(MergeAttentionGradients, WithoutAKernelItStaysProducts) { EXPECT_NE(merged(kCausal, false).find("matmul("), std::string::npos); }

// Of a program with both passes, with the weights that are dropped.
std::string merged_with_dropout(std::string_view change, std::string_view by) {
  std::string text = R"(
graph(q: bf16[2, 2, 7, 16], k: bf16[2, 2, 9, 16], v: bf16[2, 2, 9, 16], g: bf16[2, 2, 7, 16], m: bf16[1, 2, 7, 9]) {
  y: bf16[2, 2, 7, 16], l: f32[2, 2, 7], s: i64[], t: i64[] = aten::_scaled_dot_product_efficient_attention(q, k, v, m, true, 0.25, true)
  a: bf16[2, 2, 7, 16], b: bf16[2, 2, 9, 16], c: bf16[2, 2, 9, 16], d: f32[] = aten::_scaled_dot_product_efficient_attention_backward(g, q, k, v, m, y, l, s, t, 0.25, [true, true, true, false], true)
  return y, a, b, c
})";
  if (!by.empty() && by.find("true]") == 0) text.replace(text.find("d: f32[]"), 8, "d: bf16[1, 2, 7, 9]");
  if (!change.empty()) text.replace(text.find(change), change.size(), by);
  Program program = parse_text(text);
  decompose(program);
  const auto has_kernel = [](const TensorType&, const TensorType&) { return true; };
  if (merge_attention_gradients(program, has_kernel)) remove_dead_code(program);
  if (merge_dropped_attention(program, has_kernel)) remove_dead_code(program);
  verify(program, Level::Core);
  return to_text(program);
}

TEST(MergeAttentionGradients, BothPassesDropTheSameWeights) {
  const std::string text = merged_with_dropout("", "");
  EXPECT_EQ(text.find("matmul("), std::string::npos) << text;
  EXPECT_NE(text.find("attention.dropped"), std::string::npos) << text;
  EXPECT_NE(text.find("attention.gradient"), std::string::npos) << text;
  EXPECT_NE(text.find("1.3333333333333333, 49152]"), std::string::npos) << text;
}

// As of a mask whose gradient is wanted: then scores are in memory, and the forward pass reads them.
TEST(MergeAttentionGradients, DropoutOfWeightsThatAreReadStays) {
  const std::string text = merged_with_dropout("false], true)\n  return y, a, b, c", "true], true)\n  return y, a, b, c, d");
  EXPECT_EQ(text.find("attention.dropped"), std::string::npos) << text;
  EXPECT_EQ(text.find("attention.gradient"), std::string::npos) << text;
}

TEST(MergeAttentionGradients, EachPassDropsByItsOwnChance) {
  const std::string text = merged_with_dropout("t, 0.25, [", "t, 0.5, [");  // what is drawn is the same, what is dropped is not
  EXPECT_NE(text.find("attention.gradient"), std::string::npos) << text;
  EXPECT_NE(text.find("2.0, 32768]"), std::string::npos) << text;
}

TEST(MergeAttentionGradients, LogSumsOfOtherScoresAreRead) {
  EXPECT_NE(merged(R"(
graph(q: bf16[2, 2, 7, 16], k: bf16[2, 2, 9, 16], v: bf16[2, 2, 9, 16], g: bf16[2, 2, 7, 16], y: bf16[2, 2, 7, 16], l: f32[2, 2, 7]) {
  a: bf16[2, 2, 7, 16], b: bf16[2, 2, 9, 16], c: bf16[2, 2, 9, 16] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, true)
  return a, b, c
})")
                .find("matmul("),
            std::string::npos);
}

std::string merged_with_mask(std::string_view operands, std::string_view made) {
  return merged(fmt::format(R"(
graph(q: bf16[2, 2, 7, 16], k: bf16[2, 2, 9, 16], v: bf16[2, 2, 9, 16], g: bf16[2, 2, 7, 16], {}) {{{}
  y: bf16[2, 2, 7, 16], l: f32[2, 2, 7] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, true, attn_mask=m)
  a: bf16[2, 2, 7, 16], b: bf16[2, 2, 9, 16], c: bf16[2, 2, 9, 16] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, true, attn_mask=m)
  return y, a, b, c
}})",
                            operands, made));
}

TEST(MergeAttentionGradients, AMaskIsAnOperand) {
  const std::string text = merged_with_mask("m: bf16[7, 9]", "");
  EXPECT_EQ(text.find("matmul("), std::string::npos) << text;
  EXPECT_NE(text.find(": bf16[2, 2, 7, 9] = expand("), std::string::npos) << text;
}

TEST(MergeAttentionGradients, AMaskMadeOfBoolsIsThese) {
  const std::string text = merged_with_mask("p: bool[2, 1, 1, 9]", R"(
  hidden: bf16[] = aten::scalar_tensor(-inf, dtype=dtype.bf16)
  seen: bf16[] = aten::scalar_tensor(0.0, dtype=dtype.bf16)
  m: bf16[2, 1, 1, 9] = aten::where.self(p, seen, hidden))");
  EXPECT_EQ(text.find("matmul("), std::string::npos) << text;
  EXPECT_NE(text.find(": bool[2, 2, 7, 9] = expand(p)"), std::string::npos) << text;
}

TEST(MergeAttentionGradients, AMaskThatOnlyLowersScoresIsNotBools) {
  const std::string text = merged_with_mask("p: bool[2, 1, 1, 9]", R"(
  hidden: bf16[] = aten::scalar_tensor(-2.0, dtype=dtype.bf16)
  seen: bf16[] = aten::scalar_tensor(0.0, dtype=dtype.bf16)
  m: bf16[2, 1, 1, 9] = aten::where.self(p, seen, hidden))");
  EXPECT_EQ(text.find("matmul("), std::string::npos) << text;
  EXPECT_EQ(text.find(": bool[2, 2, 7, 9]"), std::string::npos) << text;
}

std::string merged_with_gradient_of_mask(bool wants_it) {
  return merged(fmt::format(R"(
graph(q: bf16[2, 2, 7, 16], k: bf16[2, 2, 9, 16], v: bf16[2, 2, 9, 16], g: bf16[2, 2, 7, 16], m: bf16[2, 2, 7, 9]) {{
  y: bf16[2, 2, 7, 16], l: f32[2, 2, 7], s: i64[], o: i64[] = aten::_scaled_dot_product_efficient_attention(q, k, v, m, true)
  a: bf16[2, 2, 7, 16], b: bf16[2, 2, 9, 16], c: bf16[2, 2, 9, 16], d: bf16[2, 2, 7, 9] = aten::_scaled_dot_product_efficient_attention_backward(g, q, k, v, m, y, l, s, o, 0.0, [true, true, true, {0}])
  return y, a, b, c{1}
}})",
                            wants_it, wants_it ? ", d" : ""));
}

TEST(MergeAttentionGradients, OfWhomNobodyWantsTheMasksGradient) {
  EXPECT_EQ(merged_with_gradient_of_mask(false).find("matmul("), std::string::npos);
  EXPECT_NE(merged_with_gradient_of_mask(true).find("matmul("), std::string::npos);
}

}  // namespace
}  // namespace toroid
