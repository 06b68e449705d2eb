// The kernels of attention's gradient on a GPU: the text that a GPU runs, compiled for this processor, and compared with the evaluator.
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
    {"of_wide_and_of_ragged_rows", R"(
graph(q: f16[1, 1, 40, 128], k: f16[1, 1, 90, 128], v: f16[1, 1, 90, 128], g: f16[1, 1, 40, 128],
      q2: bf16[1, 2, 33, 40], k2: bf16[1, 2, 17, 40], v2: bf16[1, 2, 17, 40], g2: bf16[1, 2, 33, 40]) {
  y: f16[1, 1, 40, 128], l: f32[1, 1, 40] = aten::_scaled_dot_product_flash_attention_for_cpu(q, k, v)
  a: f16[1, 1, 40, 128], b: f16[1, 1, 90, 128], c: f16[1, 1, 90, 128] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, y, l, 0, false)
  z: bf16[1, 2, 33, 40], m: f32[1, 2, 33] = aten::_scaled_dot_product_flash_attention_for_cpu(q2, k2, v2, 0, true)
  d: bf16[1, 2, 33, 40], e: bf16[1, 2, 17, 40], f: bf16[1, 2, 17, 40] = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g2, q2, k2, v2, z, m, 0, true)
  return a, b, c, d, e, f
})"},
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

// The norm of the difference over that of what is expected. Both sides round weights and scores' gradients to 16 bits, but at different scales, so
// elements whose terms cancel differ by more than their own last bits.
double relative_difference(const HostTensor& tensor, const HostTensor& expected) {
  const std::vector<double> a = tensor.to_doubles(), b = expected.to_doubles();
  double squares = 0, all = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    squares += (a[i] - b[i]) * (a[i] - b[i]);
    all += b[i] * b[i];
  }
  return all == 0 ? std::sqrt(squares) : std::sqrt(squares / all);
}

class AttentionGradientOnGpu : public testing::TestWithParam<ProgramCase> {};

TEST_P(AttentionGradientOnGpu, ComputesAsTheEvaluator) {
  Program program = parse_text(GetParam().text);  // the compiled one has the whole gradient, which the evaluator does not know
  decompose(program);
  const CompiledModel model = compiled(GetParam().text, codegen::Target::EmulatedCuda);
  Executable executable = model.load(2);
  for (const SymbolSizes& call : GetParam().calls) {
    const std::vector<HostTensor> inputs = example_inputs(program, call), outputs = executable.run(inputs);
    const std::vector<HostTensor> expected = evaluate(program, inputs);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) EXPECT_LT(relative_difference(outputs[i], expected[i]), 0.01) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, AttentionGradientOnGpu, testing::ValuesIn(kAttentionGradients),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace toroid
