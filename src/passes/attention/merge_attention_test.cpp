#include "passes/attention/merge_attention.h"

#include <gtest/gtest.h>

#include "graph/text/text.h"
#include "graph/verify.h"
#include "passes/attention/fold_masks.h"
#include "passes/dead_code.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

std::string in_one_operation(std::string_view text, bool has_kernel = true) {
  Program program = parse_text(text);
  decompose(program);
  const bool is_merged = merge_attention(program, [&](const TensorType&, const TensorType&) { return has_kernel; });
  fold_masks(program);
  remove_dead_code(program);
  verify(program, Level::Core);
  const std::string result = to_text(program);
  EXPECT_EQ(is_merged, result.find("= attention(") != std::string::npos) << result;
  return result;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

constexpr std::string_view kAdded = R"(
graph(q: bf16[2, 4, 7, 16], k: bf16[2, 4, 9, 16], v: bf16[2, 4, 9, 24], m: bf16[2, 1, 7, 9]) {
  t: bf16[2, 4, 16, 9] = aten::transpose.int(k, 2, 3)
  s: bf16[2, 4, 7, 9] = aten::matmul(q, t)
  c: bf16[2, 4, 7, 9] = aten::mul.Tensor(s, 0.25)
  a: bf16[2, 4, 7, 9] = aten::add.Tensor(c, m)
  p: f32[2, 4, 7, 9] = aten::softmax.int(a, -1, dtype.f32)
  w: bf16[2, 4, 7, 9] = aten::to.dtype(p, dtype.bf16)
  y: bf16[2, 4, 7, 24] = aten::matmul(w, v)
  return y
})";

TEST(MergeAttention, AMaskIsAddedToScaledScores) {
  const std::string text = in_one_operation(kAdded);
  EXPECT_FALSE(has(text, "matmul(")) << text;
  EXPECT_TRUE(has(text, "0.25")) << text;
  EXPECT_TRUE(has(text, "nan")) << text;  // a row whose mask is -inf
}

TEST(MergeAttention, WithoutAKernelItStaysProducts) { EXPECT_TRUE(has(in_one_operation(kAdded, false), "matmul(")); }

TEST(MergeAttention, ATriangleOfHiddenScoresIsCausal) {
  const std::string text = in_one_operation(R"(
graph(q: f16[6, 9, 16], k: f16[6, 9, 16], v: f16[6, 9, 16]) {
  o: bool[9, 9] = aten::ones([9, 9], dtype.bool)
  l: bool[9, 9] = aten::tril(o)
  n: bool[9, 9] = aten::logical_not(l)
  t: f16[6, 16, 9] = aten::transpose.int(k, 1, 2)
  s: f16[6, 9, 9] = aten::bmm(q, t)
  c: f16[6, 9, 9] = aten::div.Tensor(s, 4.0)
  a: f16[6, 9, 9] = aten::masked_fill.Scalar(c, n, -inf)
  w: f16[6, 9, 9] = aten::softmax.int(a, -1)
  y: f16[6, 9, 16] = aten::bmm(w, v)
  return y
})");
  EXPECT_TRUE(has(text, "= attention(")) << text;
}

// Their softmax is an output, or is along the queries; or the factor is a tensor.
TEST(MergeAttention, OtherProductsStay) {
  std::string text(kAdded);
  text.replace(text.find("return y"), 8, "return y, p");
  EXPECT_TRUE(has(in_one_operation(text), "matmul("));
  text = kAdded;
  text.replace(text.find("(a, -1,"), 7, "(a, -2,");
  EXPECT_TRUE(has(in_one_operation(text), "matmul("));
  text = kAdded;
  text.replace(text.find("aten::mul.Tensor(s, 0.25)"), 25, "aten::mul.Tensor(s, m)");
  EXPECT_TRUE(has(in_one_operation(text), "matmul("));
}

}  // namespace
}  // namespace toroid
