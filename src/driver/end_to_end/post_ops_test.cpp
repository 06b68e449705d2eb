// Epilogues as post-operations, which the runtime does, and as functions of the program, which a build with assertions has in their place.
#include <algorithm>

#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

struct Case {
  std::string name, program;
};
void PrintTo(const Case& row, std::ostream* out) { *out << row.name; }

const Case kPostOpCases[] = {
    {"linear_with_nan_and_infinities", R"(
graph(x: f32[37, 19], w: f32[45, 19], b: f32[45]) {
  h: f32[37, 45] = aten::linear(x, w, b)
  y: f32[37, 45] = aten::relu(h)
  return y
})"},
    {"residual", R"(
graph(x: f32[37, 19], w: f32[45, 19], b: f32[45], r: f32[37, 45]) {
  h: f32[37, 45] = aten::linear(x, w, b)
  s: f32[37, 45] = aten::add.Tensor(h, r)
  y: f32[37, 45] = aten::clamp(s, -3.0, 2.0)
  return y
})"},
    {"few_rows", R"(
graph(x: f32[2, 300], w: f32[45, 300], b: f32[45]) {
  h: f32[2, 45] = aten::linear(x, w, b)
  y: f32[2, 45] = aten::clamp(h, max=2.0)
  return y
})"},
    {"enough_for_products_in_parts", R"(
graph(a: f32[150, 256], w: f32[200, 256], b: f32[200], r: f32[150, 200]) {
  h: f32[150, 200] = aten::linear(a, w, b)
  s: f32[150, 200] = aten::add.Tensor(r, h)
  y: f32[150, 200] = aten::relu(s)
  return y
})"},
    {"batch_norms_of_a_bottleneck", R"(
graph(a: f32[2, 12, 23, 19], w: f32[40, 12, 1, 1], v: f32[40, 1, 3, 3], u: f32[12, 40, 1, 1], s: f32[40, 1, 1], t: f32[40, 1, 1], p: f32[12, 1, 1],
      q: f32[12, 1, 1]) {
  b: f32[2, 40, 23, 19] = aten::conv2d(a, w)
  c: f32[2, 40, 23, 19] = aten::mul.Tensor(b, s)
  d: f32[2, 40, 23, 19] = aten::add.Tensor(c, t)
  e: f32[2, 40, 23, 19] = aten::hardtanh(d, 0.0, 6.0)
  f: f32[2, 40, 23, 19] = aten::conv2d(e, v, padding=[1, 1], groups=40)
  g: f32[2, 40, 23, 19] = aten::mul.Tensor(f, s)
  h: f32[2, 40, 23, 19] = aten::add.Tensor(t, g)
  i: f32[2, 40, 23, 19] = aten::hardtanh(h, 0.0, 6.0)
  j: f32[2, 12, 23, 19] = aten::conv2d(i, u)
  k: f32[2, 12, 23, 19] = aten::mul.Tensor(j, p)
  l: f32[2, 12, 23, 19] = aten::add.Tensor(k, q)
  m: f32[2, 12, 23, 19] = aten::add.Tensor(a, l)
  z: f32[2, 40, 23, 19] = aten::conv2d(m, w)
  return z
})"},
    {"depthwise_of_bfloat16", R"(
graph(a: bf16[2, 72, 13, 19], v: bf16[72, 1, 3, 3], b: bf16[72], u: bf16[12, 72, 1, 1]) {
  b2: bf16[2, 72, 13, 19] = aten::conv2d(a, v, padding=[1, 1], groups=72)
  c: bf16[2, 72, 13, 19] = aten::batch_norm(b2, b, b, b, b, false, 0.1, 1.5, false)
  d: bf16[2, 72, 13, 19] = aten::hardtanh(c, 0.0, 6.0)
  y: bf16[2, 12, 13, 19] = aten::conv2d(d, u)
  return y
})"},
    {"winograds_method", R"(
graph(a: f32[1, 64, 56, 56], w: f32[64, 64, 3, 3], b: f32[64]) {
  h: f32[1, 64, 56, 56] = aten::conv2d(a, w, b, padding=[1, 1])
  g: f32[1, 64, 56, 56] = aten::relu(h)
  y: f32[1, 64, 56, 56] = aten::conv2d(g, w, b, padding=[1, 1])
  return y
})"},
};

class PostOperations : public testing::TestWithParam<Case> {};
TEST_P(PostOperations, AreWhatTheEvaluatorComputes) {
  for (const int threads : {1, 2}) expect_as_evaluated(GetParam().program, {{}}, threads);
}
TEST_P(PostOperations, AreWhatFunctionsCompute) {
  try {
    const Program program = parse_text(GetParam().program);
    const std::vector<HostTensor> inputs = example_inputs(program);
    const CompiledModel post_ops = compiled(GetParam().program);
    const CompiledModel functions =
        TestSession::get().compile(parse_text(GetParam().program), {.optimization = test_optimisation(), .assertions = true});
    const std::vector<HostTensor> actual = post_ops.load(2).run(inputs), expected = functions.load(2).run(inputs);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(difference(actual[i], expected[i], {.sums_or_products = true}), std::nullopt);
  } catch (const Error& error) {
    ADD_FAILURE() << error.report();
  }
}
TEST_P(PostOperations, DoNotDependOnThreads) {
  try {
    const CompiledModel model = compiled(GetParam().program);
    const std::vector<HostTensor> inputs = example_inputs(*model.program);
    const std::vector<HostTensor> one = model.load(1).run(inputs), two = model.load(2).run(inputs);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(std::ranges::equal(one[i].bytes(), two[i].bytes()));
  } catch (const Error& error) {
    ADD_FAILURE() << error.report();
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, PostOperations, testing::ValuesIn(kPostOpCases), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace toroid
