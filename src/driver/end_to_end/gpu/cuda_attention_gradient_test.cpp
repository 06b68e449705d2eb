// The kernels of attention's gradient on a GPU: the text that a GPU runs, compiled for this processor, and compared with the evaluator.
#include <algorithm>
#include <cmath>

#include "driver/end_to_end/compiled_for_test.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

const ProgramCase kAttentionGradients[] = {
    // Rows and keys that end within a tile.
    {"of_few_heads", R"(
graph(q: bf16[2, 2, 70, 64], k: bf16[2, 2, 131, 64], v: bf16[2, 2, 131, 64], g: bf16[2, 2, 70, 64]) {
  y: bf16[2, 2, 70, 64], l: f32[2, 2, 70] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v)
  a: bf16[2, 2, 70, 64], b: bf16[2, 2, 131, 64], c: bf16[2, 2, 131, 64] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, false)
  return a, b, c
})"},
    {"of_heads_that_share_keys", R"(
graph(q: bf16[2, 4, 70, 64], k: bf16[2, 2, 131, 64], v: bf16[2, 2, 131, 64], g: bf16[2, 4, 70, 64]) {
  y: bf16[2, 4, 70, 64], l: f32[2, 4, 70] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v)
  a: bf16[2, 4, 70, 64], b: bf16[2, 2, 131, 64], c: bf16[2, 2, 131, 64] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, false)
  return a, b, c
})"},
    {"causal_of_rows_that_lie_apart", R"(
graph(heads: bf16[2, 150, 3, 2, 64], g: bf16[2, 150, 2, 64]) {
  t: bf16[3, 2, 2, 150, 64] = aten::permute(heads, [2, 0, 3, 1, 4])
  q: bf16[2, 2, 150, 64] = aten::select.int(t, 0, 0)
  k: bf16[2, 2, 150, 64] = aten::select.int(t, 0, 1)
  v: bf16[2, 2, 150, 64] = aten::select.int(t, 0, 2)
  d: bf16[2, 2, 150, 64] = aten::permute(g, [0, 2, 1, 3])
  y: bf16[2, 2, 150, 64], l: f32[2, 2, 150] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, true)
  a: bf16[2, 2, 150, 64], b: bf16[2, 2, 150, 64], c: bf16[2, 2, 150, 64] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(d, q, k, v, y, l, 0, true)
  return a, b, c
})"},
    {"stacked_as_their_rows_lie", R"(
graph(heads: bf16[2, 90, 3, 2, 64], g: bf16[2, 90, 2, 64]) {
  t: bf16[3, 2, 2, 90, 64] = aten::permute(heads, [2, 0, 3, 1, 4])
  q: bf16[2, 2, 90, 64] = aten::select.int(t, 0, 0)
  k: bf16[2, 2, 90, 64] = aten::select.int(t, 0, 1)
  v: bf16[2, 2, 90, 64] = aten::select.int(t, 0, 2)
  d: bf16[2, 2, 90, 64] = aten::permute(g, [0, 2, 1, 3])
  y: bf16[2, 2, 90, 64], l: f32[2, 2, 90] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, true)
  a: bf16[2, 2, 90, 64], b: bf16[2, 2, 90, 64], c: bf16[2, 2, 90, 64] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(d, q, k, v, y, l, 0, true)
  m: bf16[2, 90, 2, 64] = aten::transpose.int(a, 1, 2)
  n: bf16[2, 90, 2, 64] = aten::transpose.int(b, 1, 2)
  o: bf16[2, 90, 2, 64] = aten::transpose.int(c, 1, 2)
  s: bf16[2, 90, 3, 2, 64] = aten::stack([m, n, o], 2)
  return s
})"},
    {"of_wide_and_of_ragged_rows", R"(
graph(q: f16[1, 1, 40, 128], k: f16[1, 1, 90, 128], v: f16[1, 1, 90, 128], g: f16[1, 1, 40, 128],
      q2: bf16[1, 2, 33, 40], k2: bf16[1, 2, 17, 40], v2: bf16[1, 2, 17, 40], g2: bf16[1, 2, 33, 40]) {
  y: f16[1, 1, 40, 128], l: f32[1, 1, 40] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v)
  a: f16[1, 1, 40, 128], b: f16[1, 1, 90, 128], c: f16[1, 1, 90, 128] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, false)
  z: bf16[1, 2, 33, 40], m: f32[1, 2, 33] = aten::_scaled_dot_product_flash_attention_for_cpu(q2, k2, v2, 0, true)
  d: bf16[1, 2, 33, 40], e: bf16[1, 2, 17, 40], f: bf16[1, 2, 17, 40] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g2, q2, k2, v2, z, m, 0, true)
  return a, b, c, d, e, f
})"},
    // Rows of more than 128 elements: two blocks have halves of the columns, of 168 by sixteens one more than the other.
    {"of_very_wide_rows_and_causal", R"(
graph(q: bf16[1, 2, 70, 256], k: bf16[1, 2, 90, 256], v: bf16[1, 2, 90, 256], g: bf16[1, 2, 70, 256]) {
  y: bf16[1, 2, 70, 256], l: f32[1, 2, 70] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, true)
  a: bf16[1, 2, 70, 256], b: bf16[1, 2, 90, 256], c: bf16[1, 2, 90, 256] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, true)
  return a, b, c
})"},
    {"of_very_wide_rows_that_lie_apart", R"(
graph(heads: f16[1, 40, 2, 168], k: f16[1, 2, 75, 168], v: f16[1, 2, 75, 168], g: f16[1, 2, 40, 168], m: f16[1, 1, 40, 75]) {
  q: f16[1, 2, 40, 168] = aten::permute(heads, [0, 2, 1, 3])
  y: f16[1, 2, 40, 168], l: f32[1, 2, 40] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, false, attn_mask=m)
  a: f16[1, 2, 40, 168], b: f16[1, 2, 75, 168], c: f16[1, 2, 75, 168] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, false, attn_mask=m)
  return a, b, c
})"},
    // Both passes drop the weights that the evaluator drops.
    {"with_dropout", R"(
graph(q: bf16[2, 2, 70, 64], k: bf16[2, 2, 131, 64], v: bf16[2, 2, 131, 64], g: bf16[2, 2, 70, 64]) {
  y: bf16[2, 2, 70, 64], l: f32[2, 2, 70], s: i64[], t: i64[] = aten::_scaled_dot_product_efficient_attention(q, k, v, none, true, 0.25)
  a: bf16[2, 2, 70, 64], b: bf16[2, 2, 131, 64], c: bf16[2, 2, 131, 64], d: f32[] = aten::_scaled_dot_product_efficient_attention_backward(g, q, k, v, none, y, l, s, t, 0.25, [true, true, true, false])
  return y, a, b, c
})"},
    {"with_dropout_and_a_mask_of_wide_rows", R"(
graph(q: f16[1, 2, 70, 128], k: f16[1, 2, 90, 128], v: f16[1, 2, 90, 128], g: f16[1, 2, 70, 128], m: f16[1, 2, 70, 90]) {
  y: f16[1, 2, 70, 128], l: f32[1, 2, 70], s: i64[], t: i64[] = aten::_scaled_dot_product_efficient_attention(q, k, v, m, true, 0.5, true)
  a: f16[1, 2, 70, 128], b: f16[1, 2, 90, 128], c: f16[1, 2, 90, 128], d: f32[] = aten::_scaled_dot_product_efficient_attention_backward(g, q, k, v, m, y, l, s, t, 0.5, [true, true, true, false], true)
  return y, a, b, c
})"},
    // Hidden at the end of the second batch, as a model hides what is padded.
    {"padded_keys", R"(
graph(q: bf16[2, 2, 70, 64], k: bf16[2, 2, 131, 64], v: bf16[2, 2, 131, 64], g: bf16[2, 2, 70, 64], ends: i64[2, 1]) {
  places: i64[131] = aten::arange(131)
  zero: i64[2, 1] = aten::mul.Scalar(ends, 0)
  batch: i64[2] = aten::arange(2)
  column: i64[2, 1] = aten::view(batch, [2, 1])
  lower: i64[2, 1] = aten::mul.Scalar(column, -60)
  end: i64[2, 1] = aten::add.Tensor(zero, lower)
  limit: i64[2, 1] = aten::add.Scalar(end, 130)
  seen: bool[2, 131] = aten::le.Tensor(places, limit)
  four: bool[2, 1, 1, 131] = aten::view(seen, [2, 1, 1, 131])
  hides: bf16[] = aten::scalar_tensor(-inf, dtype=dtype.bf16)
  shows: bf16[] = aten::scalar_tensor(0.0, dtype=dtype.bf16)
  m: bf16[2, 1, 1, 131] = aten::where.self(four, shows, hides)
  y: bf16[2, 2, 70, 64], l: f32[2, 2, 70] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, false, attn_mask=m)
  a: bf16[2, 2, 70, 64], b: bf16[2, 2, 131, 64], c: bf16[2, 2, 131, 64] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, false, attn_mask=m)
  return a, b, c
})"},
    // Tiles of keys, and rows of them, of which none is seen are left out: the first 70 of 320 are seen, or none.
    {"padded_keys_of_several_tiles", R"(
graph(q: bf16[2, 2, 70, 64], k: bf16[2, 2, 320, 64], v: bf16[2, 2, 320, 64], g: bf16[2, 2, 70, 64], c: bf16[2, 1, 1, 320]) {
  places: i64[320] = aten::arange(320)
  seen: bool[320] = aten::lt.Scalar(places, 70)
  hides: bf16[] = aten::scalar_tensor(-inf, dtype=dtype.bf16)
  n: bf16[2, 1, 1, 320] = aten::where.self(seen, c, hides)
  y: bf16[2, 2, 70, 64], l: f32[2, 2, 70] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, true, attn_mask=n)
  a: bf16[2, 2, 70, 64], b: bf16[2, 2, 320, 64], d: bf16[2, 2, 320, 64] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, true, attn_mask=n)
  return a, b, d
})"},
    {"biases_of_each_head_and_causal", R"(
graph(q: f16[2, 3, 90, 48], k: f16[2, 3, 90, 48], v: f16[2, 3, 90, 48], g: f16[2, 3, 90, 48], m: f16[1, 3, 90, 90]) {
  y: f16[2, 3, 90, 48], l: f32[2, 3, 90] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, true, attn_mask=m)
  a: f16[2, 3, 90, 48], b: f16[2, 3, 90, 48], c: f16[2, 3, 90, 48] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, true, attn_mask=m)
  return a, b, c
})"},
    {"of_a_window_of_wide_rows", R"(
graph(q: bf16[1, 2, 97, 128], k: bf16[1, 2, 97, 128], v: bf16[1, 2, 97, 128], g: bf16[1, 2, 97, 128]) {
  places: i64[97] = aten::arange(97)
  row: i64[97, 1] = aten::unsqueeze(places, 1)
  far: i64[97, 97] = aten::sub.Tensor(row, places)
  length: i64[97, 97] = aten::abs(far)
  seen: bool[97, 97] = aten::lt.Scalar(length, 20)
  hides: bf16[] = aten::scalar_tensor(-3.3895313892515355e38, dtype=dtype.bf16)
  shows: bf16[] = aten::scalar_tensor(0.0, dtype=dtype.bf16)
  m: bf16[97, 97] = aten::where.self(seen, shows, hides)
  y: bf16[1, 2, 97, 128], l: f32[1, 2, 97] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, false, attn_mask=m)
  a: bf16[1, 2, 97, 128], b: bf16[1, 2, 97, 128], c: bf16[1, 2, 97, 128] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, false, attn_mask=m)
  return a, b, c
})"},
    {"masked_of_free_lengths",
     R"(
sym s0 in [1, 300]
sym s1 in [1, 300]
graph(q: bf16[2, 2, s0, 16], k: bf16[2, 2, s1, 16], v: bf16[2, 2, s1, 16], g: bf16[2, 2, s0, 16], m: bf16[2, 1, s0, s1]) {
  y: bf16[2, 2, s0, 16], l: f32[2, 2, s0] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=m)
  a: bf16[2, 2, s0, 16], b: bf16[2, 2, s1, 16], c: bf16[2, 2, s1, 16] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, false, attn_mask=m)
  return a, b, c
})",
     {{{"s0", 1}, {"s1", 1}}, {{"s0", 65}, {"s1", 64}}, {{"s0", 17}, {"s1", 129}}}},
    {"of_free_lengths",
     R"(
sym s0 in [1, 300]
sym s1 in [1, 300]
graph(q: bf16[2, 2, s0, 16], k: bf16[2, 2, s1, 16], v: bf16[2, 2, s1, 16], g: bf16[2, 2, s0, 16]) {
  y: bf16[2, 2, s0, 16], l: f32[2, 2, s0] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, true)
  a: bf16[2, 2, s0, 16], b: bf16[2, 2, s1, 16], c: bf16[2, 2, s1, 16] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, true)
  return a, b, c
})",
     {{{"s0", 1}, {"s1", 1}}, {{"s0", 65}, {"s1", 64}}, {{"s0", 17}, {"s1", 129}}}},
};

// The norm of the difference over that of what is expected. Both sides round weights and scores' gradients to 16 bits, but at different
// scales, so elements whose terms cancel differ by more than their own last bits.
double relative_difference(const HostTensor& tensor, const HostTensor& expected) {
  const std::vector<double> a = tensor.to_doubles(), b = expected.to_doubles();
  double squares = 0, all = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    squares += (a[i] - b[i]) * (a[i] - b[i]);
    all += b[i] * b[i];
  }
  return all == 0 ? std::sqrt(squares) : std::sqrt(squares / all);
}

class AttentionGradients : public testing::TestWithParam<ProgramCase> {};

void expect_near(const std::vector<HostTensor>& outputs, const std::vector<HostTensor>& expected) {
  ASSERT_EQ(outputs.size(), expected.size());
  for (size_t i = 0; i < outputs.size(); ++i) EXPECT_LT(relative_difference(outputs[i], expected[i]), 0.01) << i;
}

TEST_P(AttentionGradients, ComputesAsTheEvaluator) {
  Program program = parse_text(GetParam().text);  // the compiled one has the whole gradient, which the evaluator does not know
  decompose(program);
  const CompiledModel model = compiled(GetParam().text, codegen::Target::EmulatedCuda);
  Executable executable = model.load(2);
  for (const SymbolSizes& call : GetParam().calls) {
    const std::vector<HostTensor> inputs = example_inputs(program, call), outputs = executable.run(inputs);
    expect_near(outputs, evaluate(program, inputs));
  }
}

INSTANTIATE_TEST_SUITE_P(OnGpu, AttentionGradients, testing::ValuesIn(kAttentionGradients),
                         [](const auto& each) { return each.param.name; });

// Rows that look nowhere have zeros, and change nothing, where the formula has no numbers.
TEST(AttentionGradientOnGpu, RowsThatSeeNothingHaveZeros) {
  const std::string text = R"(
graph(q: bf16[1, 2, 70, 64], k: bf16[1, 2, 80, 64], v: bf16[1, 2, 80, 64], g: bf16[1, 2, 70, 64], p: bool[1, 1, 70, 1]) {
  all: bool[1, 1, 70, 80] = aten::expand(p, [1, 1, 70, 80])
  hides: bf16[] = aten::scalar_tensor(-inf, dtype=dtype.bf16)
  shows: bf16[] = aten::scalar_tensor(0.0, dtype=dtype.bf16)
  m: bf16[1, 1, 70, 80] = aten::where.self(all, shows, hides)
  y: bf16[1, 2, 70, 64], l: f32[1, 2, 70] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, false, attn_mask=m)
  a: bf16[1, 2, 70, 64], b: bf16[1, 2, 80, 64], c: bf16[1, 2, 80, 64] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, false, attn_mask=m)
  return a, b, c
})";
  Program program = parse_text(text);
  decompose(program);
  std::vector<HostTensor> inputs = example_inputs(program);
  std::vector<int64_t> sees(70);
  for (size_t i = 0; i < sees.size(); ++i) sees[i] = i % 3 != 1;
  inputs[4] = HostTensor::from_ints(DType::Bool, {1, 1, 70, 1}, sees);
  const std::vector<HostTensor> outputs = compiled(text, codegen::Target::EmulatedCuda).load(2).run(inputs);
  const std::vector<double> of_q = outputs[0].to_doubles();
  std::vector<double> grad = inputs[3].to_doubles();
  for (size_t i = 0; i < of_q.size(); ++i) {
    if (sees[i / 64 % 70] != 0) continue;
    EXPECT_EQ(of_q[i], 0) << i;
    grad[i] = 0;
  }
  // As where they see all, and nothing reads what they give.
  inputs[3] = HostTensor::from_doubles(DType::BF16, {1, 2, 70, 64}, grad);
  inputs[4] = HostTensor::from_ints(DType::Bool, {1, 1, 70, 1}, std::vector<int64_t>(70, 1));
  expect_near(outputs, evaluate(program, inputs));
}

// A batch whose keys are all hidden has zeros, and the other one what it has alone: all tiles of the one are left out.
TEST(AttentionGradientOnGpu, ABatchThatSeesNothingHasZeros) {
  const std::string text = R"(
graph(q: bf16[2, 2, 70, 64], k: bf16[2, 2, 150, 64], v: bf16[2, 2, 150, 64], g: bf16[2, 2, 70, 64], p: bool[2, 1, 1, 150]) {
  hides: bf16[] = aten::scalar_tensor(-inf, dtype=dtype.bf16)
  shows: bf16[] = aten::scalar_tensor(0.0, dtype=dtype.bf16)
  m: bf16[2, 1, 1, 150] = aten::where.self(p, shows, hides)
  y: bf16[2, 2, 70, 64], l: f32[2, 2, 70] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, false, attn_mask=m)
  a: bf16[2, 2, 70, 64], b: bf16[2, 2, 150, 64], c: bf16[2, 2, 150, 64] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, false, attn_mask=m)
  return a, b, c
})";
  Program program = parse_text(text);
  decompose(program);
  std::vector<HostTensor> inputs = example_inputs(program);
  std::vector<int64_t> sees(300, 1);
  inputs[4] = HostTensor::from_ints(DType::Bool, {2, 1, 1, 150}, sees);
  const std::vector<HostTensor> expected = evaluate(program, inputs);
  std::fill(sees.begin() + 150, sees.end(), 0);
  inputs[4] = HostTensor::from_ints(DType::Bool, {2, 1, 1, 150}, sees);
  const std::vector<HostTensor> outputs = compiled(text, codegen::Target::EmulatedCuda).load(2).run(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto half = [&](const HostTensor& x, bool second) {
      const std::vector<double> all = x.to_doubles();
      const auto middle = all.begin() + static_cast<ptrdiff_t>(all.size() / 2);
      std::vector<int64_t> sizes = x.sizes();
      sizes[0] = 1;
      return HostTensor::from_doubles(DType::F32, sizes,
                                      second ? std::vector<double>(middle, all.end()) : std::vector<double>(all.begin(), middle));
    };
    EXPECT_LT(relative_difference(half(outputs[i], false), half(expected[i], false)), 0.01) << i;
    for (double each : half(outputs[i], true).to_doubles()) ASSERT_EQ(each, 0) << i;
  }
}

// Scaled scores beyond 2^31, each of two keys, so that gradients are not 0; beside rows of common ones. The formula with the logarithm of a
// row's sum, which the evaluator has for this operator as PyTorch has, loses such a sum; here it has the weights themselves.
TEST(AttentionGradientOnGpu, KeepsTheWeightsOfScoresThatAreFarFromZero) {
  const std::string operands = R"(
graph(q0: bf16[1, 2, 40, 32], k0: bf16[1, 2, 70, 32], k1: bf16[1, 2, 140, 32], v: bf16[1, 2, 140, 64], g: bf16[1, 2, 80, 64]) {
  small: bf16[1, 2, 40, 32] = aten::mul.Scalar(q0, 1e-9)
  rows: bf16[1, 2, 80, 32] = aten::cat([q0, small], 2)
  zeros: bf16[1, 2, 80, 32] = aten::mul.Scalar(rows, 0.0)
  q: bf16[1, 2, 80, 64] = aten::cat([rows, zeros], 3)
  pairs: bf16[1, 2, 140, 32] = aten::cat([k0, k0], 2)
  k: bf16[1, 2, 140, 64] = aten::cat([pairs, k1], 3)
)";
  const std::string merged = operands + R"(
  y: bf16[1, 2, 80, 64], l: f32[1, 2, 80] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, false, scale=1e9)
  a: bf16[1, 2, 80, 64], b: bf16[1, 2, 140, 64], c: bf16[1, 2, 140, 64] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, false, scale=1e9)
  return a, b, c
})";
  const std::string formula = operands + R"(
  qf: f32[1, 2, 80, 64] = aten::to.dtype(q, dtype.f32)
  kf: f32[1, 2, 140, 64] = aten::to.dtype(k, dtype.f32)
  vf: f32[1, 2, 140, 64] = aten::to.dtype(v, dtype.f32)
  gf: f32[1, 2, 80, 64] = aten::to.dtype(g, dtype.f32)
  kt: f32[1, 2, 64, 140] = aten::transpose.int(kf, 2, 3)
  vt: f32[1, 2, 64, 140] = aten::transpose.int(vf, 2, 3)
  scores: f32[1, 2, 80, 140] = aten::matmul(qf, kt)
  scaled: f32[1, 2, 80, 140] = aten::mul.Scalar(scores, 1e9)
  p: f32[1, 2, 80, 140] = aten::_softmax(scaled, 3, false)
  y: f32[1, 2, 80, 64] = aten::matmul(p, vf)
  gy: f32[1, 2, 80, 64] = aten::mul.Tensor(gf, y)
  d: f32[1, 2, 80, 1] = aten::sum.dim_IntList(gy, [3], true)
  dp: f32[1, 2, 80, 140] = aten::matmul(gf, vt)
  less: f32[1, 2, 80, 140] = aten::sub.Tensor(dp, d)
  ds: f32[1, 2, 80, 140] = aten::mul.Tensor(p, less)
  of_scores: f32[1, 2, 80, 140] = aten::mul.Scalar(ds, 1e9)
  pt: f32[1, 2, 140, 80] = aten::transpose.int(p, 2, 3)
  st: f32[1, 2, 140, 80] = aten::transpose.int(of_scores, 2, 3)
  a: f32[1, 2, 80, 64] = aten::matmul(of_scores, kf)
  b: f32[1, 2, 140, 64] = aten::matmul(st, qf)
  c: f32[1, 2, 140, 64] = aten::matmul(pt, gf)
  return a, b, c
})";
  Program reference = parse_text(formula);
  decompose(reference);
  const std::vector<HostTensor> inputs = example_inputs(reference), expected = evaluate(reference, inputs);
  const std::vector<HostTensor> outputs = compiled(merged, codegen::Target::EmulatedCuda).load(2).run(inputs);
  expect_near(outputs, expected);
}

}  // namespace
}  // namespace toroid
