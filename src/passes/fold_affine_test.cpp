#include "passes/fold_affine.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "graph/text/text.h"
#include "interp/compare.h"
#include "interp/evaluate.h"
#include "passes/pipeline.h"
#include "support/split_mix.h"

namespace toroid {
namespace {

// "constant 0 "w": f32[2, 3] = [0.25, …]": a line for each of "w: f32[2, 3]", with numbers between 0.25 and 1.75, as variances have to be.
std::string constants(const std::vector<std::string>& declarations, std::string_view kind = "constant") {
  SplitMix random(7);
  std::string text;
  for (size_t i = 0; i < declarations.size(); ++i) {
    const std::string& each = declarations[i];
    const size_t colon = each.find(':');
    int64_t count = 1;
    for (size_t at = each.find('['); at != each.npos && each[at] != ']'; at = each.find_first_of(",]", at + 1)) {
      if (each[at + 1] != ']') count *= std::stoll(each.substr(at + 1));
    }
    std::string values;
    for (int64_t k = 0; k < count; ++k)
      values += fmt::format("{}{}", k == 0 ? "" : ", ", 0.25 + static_cast<double>(random.next() % 1000) * 1.5e-3);
    text += fmt::format("{} {} \"{}\":{} = [{}]\n", kind, i, each.substr(0, colon), each.substr(colon + 1), values);
  }
  return text;
}

int count(const Program& program, ScalarOp op, DType dtype) {
  int found = 0;
  for (const Node& node : program.graph.nodes()) {
    const auto* pointwise = std::get_if<Pointwise>(&node.op);
    if (pointwise != nullptr && pointwise->op == op && program.graph.type(node.outputs[0]).dtype == dtype) ++found;
  }
  return found;
}

struct FoldCase {
  std::string name;
  std::vector<std::string> constants;
  std::string graph;
  DType dtype = DType::F32;
};
void PrintTo(const FoldCase& row, std::ostream* out) { *out << row.name; }

const FoldCase kFolded[] = {
    {"convolution",
     {"w: f32[6, 4, 3, 3]", "g: f32[6]", "b: f32[6]", "m: f32[6]", "v: f32[6]"},
     R"(graph(x: f32[2, 4, 5, 7]) {
  w: f32[6, 4, 3, 3] = constant(0)
  g: f32[6] = constant(1)
  b: f32[6] = constant(2)
  m: f32[6] = constant(3)
  v: f32[6] = constant(4)
  c: f32[2, 6, 5, 7] = aten::conv2d(x, w, padding=[1, 1])
  y: f32[2, 6, 5, 7] = aten::batch_norm(c, g, b, m, v, false, 0.1, 1e-05, false)
  return y
})"},
    {"with_a_bias_and_any_batch",
     {"w: f32[6, 4, 3]", "a: f32[6]", "b: f32[6]", "m: f32[6]", "v: f32[6]"},
     R"(sym s0 in [1, 64] hint 3
graph(x: f32[s0, 4, 9]) {
  w: f32[6, 4, 3] = constant(0)
  a: f32[6] = constant(1)
  b: f32[6] = constant(2)
  m: f32[6] = constant(3)
  v: f32[6] = constant(4)
  c: f32[s0, 6, 7] = aten::conv1d(x, w, a)
  y: f32[s0, 6, 7] = aten::batch_norm(c, none, b, m, v, false, 0.1, 1e-05, false)
  return y
})"},
    {"groups_in_three_dims",
     {"w: f32[6, 2, 2, 2, 2]", "b: f32[6]", "m: f32[6]", "v: f32[6]"},
     R"(graph(x: f32[1, 4, 3, 4, 5]) {
  w: f32[6, 2, 2, 2, 2] = constant(0)
  b: f32[6] = constant(1)
  m: f32[6] = constant(2)
  v: f32[6] = constant(3)
  c: f32[1, 6, 2, 3, 4] = aten::conv3d(x, w, groups=2)
  y: f32[1, 6, 2, 3, 4] = aten::batch_norm(c, b, none, m, v, false, 0.1, 1e-05, false)
  return y
})"},
    {"transposed",
     {"w: f32[4, 6, 2, 2]", "a: f32[6]", "m: f32[6]", "v: f32[6]"},
     R"(graph(x: f32[2, 4, 3, 4]) {
  w: f32[4, 6, 2, 2] = constant(0)
  a: f32[6] = constant(1)
  m: f32[6] = constant(2)
  v: f32[6] = constant(3)
  c: f32[2, 6, 6, 8] = aten::conv_transpose2d.input(x, w, a, [2, 2])
  y: f32[2, 6, 6, 8] = aten::batch_norm(c, none, none, m, v, false, 0.1, 1e-05, false)
  return y
})"},
    {"transposed_groups",
     {"w: f32[4, 3, 2, 2]", "m: f32[6]", "v: f32[6]"},
     R"(graph(x: f32[2, 4, 3, 4]) {
  w: f32[4, 3, 2, 2] = constant(0)
  m: f32[6] = constant(1)
  v: f32[6] = constant(2)
  c: f32[2, 6, 6, 8] = aten::conv_transpose2d.input(x, w, none, [2, 2], [0, 0], [0, 0], 2)
  y: f32[2, 6, 6, 8] = aten::batch_norm(c, none, none, m, v, false, 0.1, 1e-05, false)
  return y
})"},
    {"an_image_without_a_batch",
     {"w: f32[6, 4, 3, 3]", "s: f32[6, 1, 1]"},
     R"(graph(x: f32[4, 5, 7]) {
  w: f32[6, 4, 3, 3] = constant(0)
  s: f32[6, 1, 1] = constant(1)
  c: f32[6, 3, 5] = aten::conv2d(x, w)
  y: f32[6, 3, 5] = aten::mul.Tensor(s, c)
  return y
})"},
    {"linear",
     {"w: f32[6, 4]", "a: f32[6]", "g: f32[6]", "m: f32[6]", "v: f32[6]"},
     R"(graph(x: f32[5, 4]) {
  w: f32[6, 4] = constant(0)
  a: f32[6] = constant(1)
  g: f32[6] = constant(2)
  m: f32[6] = constant(3)
  v: f32[6] = constant(4)
  c: f32[5, 6] = aten::linear(x, w, a)
  y: f32[5, 6] = aten::batch_norm(c, g, none, m, v, false, 0.1, 1e-05, false)
  return y
})"},
    {"linear_whose_channels_move",
     {"w: f32[6, 4]", "a: f32[6]", "m: f32[6]", "v: f32[6]"},
     R"(graph(x: f32[3, 5, 4]) {
  w: f32[6, 4] = constant(0)
  a: f32[6] = constant(1)
  m: f32[6] = constant(2)
  v: f32[6] = constant(3)
  c: f32[3, 5, 6] = aten::linear(x, w, a)
  t: f32[3, 6, 5] = aten::transpose.int(c, 1, 2)
  y: f32[3, 6, 5] = aten::batch_norm(t, none, none, m, v, false, 0.1, 1e-05, false)
  return y
})"},
    {"all_arithmetic",
     {"w: f32[4, 6]", "p: f32[6]", "q: f32[1]"},
     R"(graph(x: f32[5, 4]) {
  w: f32[4, 6] = constant(0)
  p: f32[6] = constant(1)
  q: f32[1] = constant(2)
  a: f32[5, 6] = aten::mm(x, w)
  b: f32[5, 6] = aten::sub.Tensor(p, a)
  v: f32[6] = aten::add.Scalar(p, 0.5)
  r: f32[6] = aten::sqrt(v)
  c: f32[5, 6] = aten::div.Tensor(b, r)
  d: f32[5, 6] = aten::neg(c)
  e: f32[5, 6] = aten::sub.Tensor(d, q)
  f: f32[5, 6] = aten::mul.Scalar(e, 3)
  y: f32[5, 6] = aten::mul.Tensor(f, q)
  return y
})"},
    {"double",
     {"w: f64[6, 4, 3, 3]", "m: f64[6]", "v: f64[6]"},
     R"(graph(x: f64[2, 4, 5, 7]) {
  w: f64[6, 4, 3, 3] = constant(0)
  m: f64[6] = constant(1)
  v: f64[6] = constant(2)
  c: f64[2, 6, 3, 5] = aten::conv2d(x, w)
  y: f64[2, 6, 3, 5] = aten::batch_norm(c, none, none, m, v, false, 0.1, 1e-05, false)
  return y
})",
     DType::F64},
};

class FoldAffine : public testing::TestWithParam<FoldCase> {};

TEST_P(FoldAffine, KeepsWhatTheProgramComputes) {
  Program program = parse_text(constants(GetParam().constants) + GetParam().graph);
  run_passes(program, {.without = {"fold-affine"}});
  std::vector<int64_t> sizes;
  for (sym::Expr size : program.graph.type(program.graph.inputs[0]).sizes) sizes.push_back(sym::evaluate_hint(size));
  SplitMix random(3);
  std::vector<double> values(static_cast<size_t>(numel(sizes)));
  for (double& value : values) value = static_cast<double>(random.next() % 2000) * 1e-3 - 1;
  const HostTensor input = HostTensor::from_doubles(GetParam().dtype, sizes, values);
  const HostTensor expected = evaluate(program, {&input, 1})[0];
  const std::string name = program.graph.value(program.graph.outputs[0]).name;

  EXPECT_TRUE(fold_affine(program));
  run_passes(program);
  const HostTensor actual = evaluate(program, {&input, 1})[0];
  for (int64_t i = 0; i < expected.numel(); ++i) EXPECT_NEAR(actual.double_at(i), expected.double_at(i), 1e-5) << "element " << i;
  EXPECT_EQ(program.graph.value(program.graph.outputs[0]).name, name);
  EXPECT_FALSE(fold_affine(program));
  if (GetParam().dtype != DType::F32) return;
  // What is left of the arithmetic is on constants, in double.
  EXPECT_EQ(count(program, ScalarOp::Mul, DType::F32) + count(program, ScalarOp::Div, DType::F32), 0) << to_text(program);
}

INSTANTIATE_TEST_SUITE_P(Cases, FoldAffine, testing::ValuesIn(kFolded), [](const auto& row) { return row.param.name; });

const FoldCase kLeftAlone[] = {
    {"a_product_that_others_read",
     {"w: f32[6, 4]", "s: f32[6]"},
     R"(graph(x: f32[5, 4]) {
  w: f32[6, 4] = constant(0)
  s: f32[6] = constant(1)
  c: f32[5, 6] = aten::linear(x, w)
  y: f32[5, 6] = aten::mul.Tensor(c, s)
  return y, c
})"},
    {"a_product_that_is_an_operand_twice",
     {"w: f32[6, 4]", "s: f32[6]"},
     R"(graph(x: f32[5, 4]) {
  w: f32[6, 4] = constant(0)
  s: f32[6] = constant(1)
  c: f32[5, 6] = aten::linear(x, w)
  d: f32[5, 6] = aten::mul.Tensor(c, c)
  y: f32[5, 6] = aten::mul.Tensor(d, s)
  return y
})"},
    {"a_scale_of_rows",
     {"w: f32[6, 4]", "s: f32[5, 1]"},
     R"(graph(x: f32[5, 4]) {
  w: f32[6, 4] = constant(0)
  s: f32[5, 1] = constant(1)
  c: f32[5, 6] = aten::linear(x, w)
  y: f32[5, 6] = aten::mul.Tensor(c, s)
  return y
})"},
    {"a_scale_that_calls_give",
     {"w: f32[6, 4]"},
     R"(graph(x: f32[5, 4], s: f32[6]) {
  w: f32[6, 4] = constant(0)
  c: f32[5, 6] = aten::linear(x, w)
  y: f32[5, 6] = aten::mul.Tensor(c, s)
  return y
})"},
    {"a_plain_number",
     {"w: f32[6, 4]"},
     R"(graph(x: f32[5, 4]) {
  w: f32[6, 4] = constant(0)
  c: f32[5, 6] = aten::linear(x, w)
  y: f32[5, 6] = aten::mul.Scalar(c, 0.125)
  return y
})"},
    {"a_bias_alone",
     {"w: f32[6, 4]", "b: f32[6]"},
     R"(graph(x: f32[5, 4]) {
  w: f32[6, 4] = constant(0)
  b: f32[6] = constant(1)
  y: f32[5, 6] = aten::linear(x, w, b)
  return y
})"},
    {"filters_that_calls_give",
     {"s: f32[6]"},
     R"(graph(x: f32[5, 4], w: f32[6, 4]) {
  s: f32[6] = constant(0)
  c: f32[5, 6] = aten::linear(x, w)
  y: f32[5, 6] = aten::mul.Tensor(c, s)
  return y
})"},
    {"filters_that_are_computed",
     {"w: f32[6, 4]", "s: f32[6]"},
     R"(graph(x: f32[5, 4]) {
  w: f32[6, 4] = constant(0)
  s: f32[6] = constant(1)
  e: f32[6, 4] = aten::exp(w)
  c: f32[5, 6] = aten::linear(x, e)
  y: f32[5, 6] = aten::mul.Tensor(c, s)
  return y
})"},
    {"filters_that_the_program_writes",
     {"w: f32[6, 4]", "s: f32[6]"},
     R"(graph(x: f32[5, 4]) {
  w: f32[6, 4] = constant(0)
  s: f32[6] = constant(1)
  c: f32[5, 6] = aten::linear(x, w)
  y: f32[5, 6] = aten::mul.Tensor(c, s)
  z: f32[6, 4] = aten::add_.Scalar(w, 1)
  return y
})"},
    {"divisors_that_may_be_zero",
     {"w: f32[6, 4]", "s: f32[6]"},
     R"(graph(x: f32[5, 4]) {
  w: f32[6, 4] = constant(0)
  s: f32[6] = constant(1)
  c: f32[5, 6] = aten::linear(x, w)
  y: f32[5, 6] = aten::div.Tensor(c, s)
  return y
})"},
    {"reciprocals_of_what_may_be_zero",
     {"w: f32[6, 4]", "s: f32[6]"},
     R"(graph(x: f32[5, 4]) {
  w: f32[6, 4] = constant(0)
  s: f32[6] = constant(1)
  c: f32[5, 6] = aten::linear(x, w)
  r: f32[6] = aten::reciprocal(s)
  y: f32[5, 6] = aten::mul.Tensor(c, r)
  return y
})"},
    {"variances_without_an_epsilon",
     {"w: f32[6, 4, 1]", "m: f32[6]", "v: f32[6]"},
     R"(graph(x: f32[5, 4, 8]) {
  w: f32[6, 4, 1] = constant(0)
  m: f32[6] = constant(1)
  v: f32[6] = constant(2)
  c: f32[5, 6, 8] = aten::conv1d(x, w)
  y: f32[5, 6, 8] = aten::batch_norm(c, none, none, m, v, false, 0.1, 0.0, false)
  return y
})"},
    {"statistics_that_the_program_writes",
     {"w: f32[6, 4, 1]", "m: f32[6]", "v: f32[6]"},
     R"(graph(x: f32[5, 4, 8]) {
  w: f32[6, 4, 1] = constant(0)
  m: f32[6] = constant(1)
  v: f32[6] = constant(2)
  c: f32[5, 6, 8] = aten::conv1d(x, w)
  y: f32[5, 6, 8] = aten::batch_norm(c, none, none, m, v, true, 0.1, 1e-05, false)
  return y
})"},
    {"bfloat16",
     {"w: bf16[6, 4]", "s: bf16[6]"},
     R"(graph(x: bf16[5, 4]) {
  w: bf16[6, 4] = constant(0)
  s: bf16[6] = constant(1)
  c: bf16[5, 6] = aten::linear(x, w)
  y: bf16[5, 6] = aten::mul.Tensor(c, s)
  return y
})",
     DType::BF16},
    {"gradients",
     {"w: f32[6, 4]", "s: f32[6]"},
     R"(graph(x: f32[5, 4]) {
  w: f32[6, 4] = constant(0)
  s: f32[6] = constant(1)
  c: f32[5, 6] = aten::linear(x, w)
  y: f32[5, 6] = aten::mul.Tensor(c, s)
  g: f32[6] = aten::neg(s)
  return y, g -> gradient "s"
})"},
};

class FoldAffineNot : public testing::TestWithParam<FoldCase> {};

TEST_P(FoldAffineNot, LeavesTheProgramAsItIs) {
  Program program = parse_text(constants(GetParam().constants, "buffer") + GetParam().graph);
  run_passes(program, {.without = {"fold-affine"}});
  const std::string before = to_text(program);
  EXPECT_FALSE(fold_affine(program));
  EXPECT_EQ(to_text(program), before);
}

INSTANTIATE_TEST_SUITE_P(Cases, FoldAffineNot, testing::ValuesIn(kLeftAlone), [](const auto& row) { return row.param.name; });

// The scale's own arithmetic is not rounded to F32 on its way into the filters.
TEST(FoldAffineOnce, IsRoundedOnce) {
  Program program = parse_text(R"(constant 0 "w": f32[1, 1] = [0.1]
constant 1 "s": f32[1] = [3.0]
graph(x: f32[1, 1]) {
  w: f32[1, 1] = constant(0)
  s: f32[1] = constant(1)
  c: f32[1, 1] = aten::linear(x, w)
  t: f32[1] = aten::div.Scalar(s, 7)
  y: f32[1, 1] = aten::mul.Tensor(c, t)
  return y
})");
  run_passes(program);
  const HostTensor one = HostTensor::from_doubles(DType::F32, {1, 1}, std::vector<double>{1});
  EXPECT_EQ(evaluate(program, {&one, 1})[0].double_at(0), static_cast<float>(static_cast<double>(0.1f) * (3.0 / 7)));
}

}  // namespace
}  // namespace toroid
