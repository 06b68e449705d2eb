#include <algorithm>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "graph/text/text.h"
#include "interp/compare.h"
#include "interp/evaluate.h"
#include "passes/dead_code.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// The kinds of the nodes that are left, and the sizes of the keys that the attention gets.
struct Decomposed {
  int expands = 0;
  Sizes keys;
};
Decomposed decomposed_attention(std::string_view text) {
  Program program = parse_text(text);
  decompose(program);
  remove_dead_code(program);
  Decomposed result;
  for (const Node& node : program.graph.nodes()) {
    result.expands += std::holds_alternative<Expand>(node.op);
    if (std::holds_alternative<Attention>(node.op)) result.keys = program.graph.type(node.inputs[1]).sizes;
  }
  return result;
}

TEST(Attention, HeadsThatShareKeysAreNotRepeated) {
  const Decomposed flag = decomposed_attention(R"(
graph(q: f32[2, 8, 5, 16], k: f32[2, 2, 7, 16], v: f32[2, 2, 7, 16]) {
  y: f32[2, 8, 5, 16] = aten::scaled_dot_product_attention(q, k, v, enable_gqa=true)
  return y
})");
  EXPECT_EQ(flag.expands, 0);
  EXPECT_EQ(flag.keys, (Sizes{2, 2, 7, 16}));
  const Decomposed fused = decomposed_attention(R"(
graph(q: f32[2, 8, 5, 16], k: f32[2, 2, 7, 16], v: f32[2, 2, 7, 16]) {
  y: f32[2, 8, 5, 16], l: f32[2, 8, 5] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v)
  return y
})");
  EXPECT_EQ(fused.expands, 0);
  EXPECT_EQ(fused.keys, (Sizes{2, 2, 7, 16}));
}

// Each head of two given to four others, in a new dim here.
Decomposed with_repeated_heads(int dim) {
  const std::string_view one = dim == 1 ? "2, 1, 2" : "2, 2, 1", repeated = dim == 1 ? "2, 4, 2" : "2, 2, 4";
  return decomposed_attention(fmt::format(R"(
graph(q: f32[2, 8, 5, 16], k: f32[2, 2, 7, 16], v: f32[2, 2, 7, 16]) {{
  k1: f32[{1}, 7, 16] = aten::unsqueeze(k, {0})
  k2: f32[{2}, 7, 16] = aten::expand(k1, [{2}, 7, 16])
  k3: f32[2, 8, 7, 16] = aten::reshape(k2, [2, 8, 7, 16])
  v1: f32[{1}, 7, 16] = aten::unsqueeze(v, {0})
  v2: f32[{2}, 7, 16] = aten::expand(v1, [{2}, 7, 16])
  v3: f32[2, 8, 7, 16] = aten::reshape(v2, [2, 8, 7, 16])
  y: f32[2, 8, 5, 16] = aten::scaled_dot_product_attention(q, k3, v3)
  return y
}})",
                                          dim, one, repeated));
}

TEST(Attention, NorAreThoseThatTheModelRepeats) {
  const Decomposed repeated = with_repeated_heads(2);
  EXPECT_EQ(repeated.expands, 0);
  EXPECT_EQ(repeated.keys, (Sizes{2, 2, 7, 16}));
}

TEST(Attention, NorAreThoseThatItRepeatsBeforeHeadsAndRowsChangePlaces) {
  const Decomposed repeated = decomposed_attention(R"(
graph(q: f32[2, 8, 5, 16], k: f32[2, 7, 2, 16], v: f32[2, 7, 2, 16]) {
  k1: f32[2, 7, 8, 16] = aten::repeat_interleave.self_int(k, 4, 2)
  k2: f32[2, 8, 7, 16] = aten::transpose.int(k1, 1, 2)
  v1: f32[2, 7, 8, 16] = aten::repeat_interleave.self_int(v, 4, 2)
  v2: f32[2, 8, 7, 16] = aten::transpose.int(v1, 1, 2)
  y: f32[2, 8, 5, 16] = aten::scaled_dot_product_attention(q, k2, v2)
  return y
})");
  EXPECT_EQ(repeated.expands, 0);
  EXPECT_EQ(repeated.keys, (Sizes{2, 2, 7, 16}));
}

// Heads in turn are not what heads that follow each other share.
TEST(Attention, OtherRepetitionsAreMade) {
  const Decomposed other = with_repeated_heads(1);
  EXPECT_EQ(other.expands, 2);
  EXPECT_EQ(other.keys, (Sizes{2, 8, 7, 16}));
}

// As many values as keys, and queries as wide as keys: what the caller's sizes decide is asked at each call.
TEST(Attention, SizesThatMayDifferAreGuarded) {
  Program program = parse_text(R"(
sym s0 in [1, 64]
sym s1 in [1, 64]
graph(q: f32[1, 2, 7, 16], k: f32[1, 2, s0, 16], v: f32[1, 2, s1, 16]) {
  y: f32[1, 2, 7, 16] = aten::scaled_dot_product_attention(q, k, v)
  return y
})");
  decompose(program);
  ASSERT_EQ(program.guards.size(), 1u);
  EXPECT_EQ(sym::to_string(program.guards[0]), "Eq(s0, s1)");
}

// Values that are the identity show the weights W with those that were dropped; with other values the gradient of these is W^T times that
// of the result, if both draw alike.
void expect_same_draws(std::string_view forward, std::string_view gradient) {
  Program program = parse_text(fmt::format(R"(
graph(q: f32[1, 2, 6, 6], k: f32[1, 2, 6, 6], one: f32[1, 2, 6, 6], g: f32[1, 2, 6, 6]) {{
  {}
  {}
  across: f32[1, 2, 6, 6] = aten::permute(w, [0, 1, 3, 2])
  wanted: f32[1, 2, 6, 6] = aten::matmul(across, g)
  return w, dv, wanted
}})",
                                           forward, gradient));
  decompose(program);
  std::vector<double> numbers, identity;
  for (int i = 0; i < 72; ++i) {
    numbers.push_back(i % 11 / 4.0 - 1);
    identity.push_back(i % 36 % 7 == 0);
  }
  const HostTensor x = HostTensor::from_doubles(DType::F32, {1, 2, 6, 6}, numbers),
                   one = HostTensor::from_doubles(DType::F32, {1, 2, 6, 6}, identity);
  const std::vector<HostTensor> results = evaluate(program, std::vector<HostTensor>{x, x, one, x}, {.random = {7, 1}});
  EXPECT_EQ(difference(results[1], results[2], {.sums_or_products = true}), std::nullopt);
  const std::vector<double> weights = results[0].to_doubles();
  const auto dropped = std::count(weights.begin(), weights.end(), 0.0);
  EXPECT_GT(dropped, 10);
  EXPECT_LT(dropped, 60);
}

TEST(Attention, GradientsDropTheSameWeights) {
  expect_same_draws(
      "w: f32[1, 2, 6, 6], l: f32[1, 2, 6], c: i64[0], e: i64[0], m: i64[], n: i64[], s: u64[2], t: u64[], b: f32[0] = "
      "aten::_scaled_dot_product_flash_attention(q, k, one, 0.5)",
      "dq: f32[1, 2, 6, 6], dk: f32[1, 2, 6, 6], dv: f32[1, 2, 6, 6] = "
      "aten::_scaled_dot_product_flash_attention_backward(g, q, k, one, w, l, none, none, 6, 6, 0.5, false, s, t)");
  expect_same_draws(
      "w: f32[1, 2, 6, 6], l: f32[1, 2, 6], s: i64[], t: i64[] = "
      "aten::_scaled_dot_product_efficient_attention(q, k, one, none, true, 0.5)",
      "dq: f32[1, 2, 6, 6], dk: f32[1, 2, 6, 6], dv: f32[1, 2, 6, 6], db: f32[] = "
      "toroid::attention_backward(g, q, k, one, none, w, l, s, t, 0.5, [true, true, true, false])");
}

TEST(Attention, AStateOfAnotherProgramIsRefused) {
  Program program = parse_text(R"(
graph(g: f32[1, 2, 6, 6], l: f32[1, 2, 6], s: i64[]) {
  dq: f32[1, 2, 6, 6], dk: f32[1, 2, 6, 6], dv: f32[1, 2, 6, 6] = aten::_scaled_dot_product_cudnn_attention_backward(g, g, g, g, g, l, s, s, none, none, none, 6, 6, 0.5, false)
  return dq
})");
  const Error error = error_of([&] { decompose(program); });
  EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
  EXPECT_EQ(error.message(),
            "aten::_scaled_dot_product_cudnn_attention_backward with dropout takes the state of a forward pass that toroid did not compile "
            "with it");
}

}  // namespace
}  // namespace toroid
