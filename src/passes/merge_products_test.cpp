#include "passes/merge_products.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "graph/text/text.h"
#include "interp/evaluate.h"
#include "passes/pipeline.h"
#include "support/split_mix.h"

namespace toroid {
namespace {

// A machine on which a call takes as long as a hundred thousand multiplications.
PassCosts costs() {
  return {.product_s = [](const ProductToEstimate& p) { return 1e5 + static_cast<double>(p.m * p.n * p.k); }};
}

std::string weights(int number, const std::string& name, const std::string& type, int64_t count) {
  SplitMix random(static_cast<uint64_t>(number));
  std::string values;
  for (int64_t i = 0; i < count; ++i)
    values += fmt::format("{}{}", i == 0 ? "" : ", ", static_cast<double>(random.next() % 1000) * 2e-3 - 1);
  return fmt::format("constant {} \"{}\": {} = [{}]\n", number, name, type, values);
}

const std::string kMergedWeights = weights(0, "wq", "f32[8, 6]", 48) + weights(1, "wk", "f32[8, 6]", 48) +
                                   weights(2, "wv", "f32[4, 6]", 24) + weights(3, "bq", "f32[8]", 8) + weights(4, "bk", "f32[8]", 8) +
                                   weights(5, "bv", "f32[4]", 4);

int matmuls(const Program& program) {
  int found = 0;
  for (const Node& node : program.graph.nodes()) found += std::holds_alternative<Matmul>(node.op) ? 1 : 0;
  return found;
}

struct MergeCase {
  std::string name;
  int products;  // that are left
  std::string body;
};
void PrintTo(const MergeCase& row, std::ostream* out) { *out << row.name; }

// Where results are read at other places than where they were made, they are stored in any case.
const MergeCase kMergeCases[] = {
    {"queries_keys_and_values", 1 + 2,
     R"(  q: f32[3, 5, 8] = aten::linear(x, wq, bq)
  k: f32[3, 5, 8] = aten::linear(x, wk, bk)
  v: f32[3, 5, 4] = aten::linear(x, wv, bv)
  t: f32[3, 8, 5] = aten::transpose.int(k, 1, 2)
  s: f32[3, 5, 5] = aten::matmul(q, t)
  y: f32[3, 5, 4] = aten::matmul(s, v)
  return y
)"},
    {"without_biases", 1 + 2,
     R"(  q: f32[3, 5, 8] = aten::linear(x, wq)
  k: f32[3, 5, 8] = aten::linear(x, wk)
  v: f32[3, 5, 4] = aten::linear(x, wv)
  t: f32[3, 8, 5] = aten::transpose.int(k, 1, 2)
  s: f32[3, 5, 5] = aten::matmul(q, t)
  y: f32[3, 5, 4] = aten::matmul(s, v)
  return y
)"},
    {"values_that_are_scattered", 1,
     R"(  k: f32[3, 5, 8] = aten::linear(x, wk)
  v: f32[3, 5, 4] = aten::linear(x, wv)
  a: f32[3, 9, 8] = aten::zeros([3, 9, 8])
  b: f32[3, 9, 4] = aten::zeros([3, 9, 4])
  i: i64[5] = aten::arange(5, dtype=dtype.i64)
  keys: f32[3, 9, 8] = aten::index_copy(a, 1, i, k)
  values: f32[3, 9, 4] = aten::index_copy(b, 1, i, v)
  y: f32[3, 9, 12] = aten::cat([keys, values], 2)
  return y
)"},
    {"a_bias_that_one_has_not", 2 + 2,
     R"(  q: f32[3, 5, 8] = aten::linear(x, wq, bq)
  k: f32[3, 5, 8] = aten::linear(x, wk)
  v: f32[3, 5, 4] = aten::linear(x, wv, bv)
  t: f32[3, 8, 5] = aten::transpose.int(k, 1, 2)
  s: f32[3, 5, 5] = aten::matmul(q, t)
  y: f32[3, 5, 4] = aten::matmul(s, v)
  return y
)"},
    {"the_first_is_read_before_the_second_is_made", 1 + 1,
     R"(  q: f32[3, 5, 8] = aten::linear(x, wq, bq)
  m: f32[3, 5] = aten::sum.dim_IntList(q, [2])
  e: f32[3, 5, 1] = aten::unsqueeze(m, 2)
  k: f32[3, 5, 8] = aten::linear(x, wk, bk)
  t: f32[3, 8, 5] = aten::transpose.int(k, 1, 2)
  s: f32[3, 5, 5] = aten::matmul(q, t)
  y: f32[3, 5, 5] = aten::mul.Tensor(s, e)
  return y
)"},
    {"gate_and_up", 2,
     R"(  q: f32[3, 5, 8] = aten::linear(x, wq)
  k: f32[3, 5, 8] = aten::linear(x, wk)
  g: f32[3, 5, 8] = aten::silu(q)
  y: f32[3, 5, 8] = aten::mul.Tensor(g, k)
  return y
)"},
    {"outputs", 2,
     R"(  q: f32[3, 5, 8] = aten::linear(x, wq)
  k: f32[3, 5, 8] = aten::linear(x, wk)
  return q, k
)"},
    {"a_call_that_wants_its_operand_contiguous", 2,
     R"(  q: f32[3, 5, 8] = aten::linear(x, wq)
  k: f32[3, 5, 8] = aten::linear(x, wk)
  v: f32[3, 5, 2], i: i64[3, 5, 2] = aten::topk(q, 2)
  w: f32[3, 5, 2], j: i64[3, 5, 2] = aten::topk(k, 2)
  y: f32[3, 5, 2] = aten::add.Tensor(v, w)
  return y
)"},
    {"other_left_sides", 2 + 1,
     R"(  z: f32[3, 5, 6] = aten::relu(x)
  q: f32[3, 5, 8] = aten::linear(x, wq)
  k: f32[3, 5, 8] = aten::linear(z, wk)
  t: f32[3, 8, 5] = aten::transpose.int(k, 1, 2)
  s: f32[3, 5, 5] = aten::matmul(q, t)
  return s
)"},
    {"weights_that_are_computed", 2 + 1,
     R"(  e: f32[8, 6] = aten::exp(wq)
  f: f32[8, 6] = aten::exp(wk)
  q: f32[3, 5, 8] = aten::linear(x, e)
  k: f32[3, 5, 8] = aten::linear(x, f)
  t: f32[3, 8, 5] = aten::transpose.int(k, 1, 2)
  s: f32[3, 5, 5] = aten::matmul(q, t)
  return s
)"},
};

class MergeProducts : public testing::TestWithParam<MergeCase> {
 protected:
  static Program program(const std::string& body) {
    Program result = parse_text(kMergedWeights + R"(graph(x: f32[3, 5, 6]) {
  wq: f32[8, 6] = constant(0)
  wk: f32[8, 6] = constant(1)
  wv: f32[4, 6] = constant(2)
  bq: f32[8] = constant(3)
  bk: f32[8] = constant(4)
  bv: f32[4] = constant(5)
)" + body + "}");
    run_passes(result);
    return result;
  }
};

TEST_P(MergeProducts, WhereItPays) {
  Program apart = program(GetParam().body), merged = program(GetParam().body);
  const int products = matmuls(apart);
  EXPECT_EQ(merge_products(merged, costs()), products != GetParam().products);
  run_passes(merged, {.costs = costs()});
  EXPECT_EQ(matmuls(merged), GetParam().products) << to_text(merged);
  std::vector<double> values(90);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 17) * 0.1 - 0.7;
  const HostTensor x = HostTensor::from_doubles(DType::F32, {3, 5, 6}, values);
  const auto expected = evaluate(apart, {&x, 1}), actual = evaluate(merged, {&x, 1});
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(actual[i].to_doubles(), expected[i].to_doubles());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(merged.graph.value(merged.graph.outputs[i]).name, apart.graph.value(apart.graph.outputs[i]).name);
}

INSTANTIATE_TEST_SUITE_P(Cases, MergeProducts, testing::ValuesIn(kMergeCases), [](const auto& row) { return row.param.name; });

TEST_F(MergeProducts, NotWhereTheEstimateSaysNo) {
  const std::string body = kMergeCases[0].body;
  Program once = program(body);
  EXPECT_FALSE(merge_products(once, {}));
  EXPECT_FALSE(merge_products(once, {.product_s = [](const ProductToEstimate& p) { return static_cast<double>(p.m * p.n * p.k); }}));
  std::string asked;
  merge_products(once, {.product_s = [&](const ProductToEstimate& p) {
                   asked += fmt::format("{}x{}x{}{} ", p.m, p.n, p.k, p.by_columns ? " by columns" : "");
                   return 1.0;
                 }});
  EXPECT_EQ(asked, "15x8x6 by columns 15x8x6 by columns 15x4x6 by columns 15x20x6 by columns ");
}

// A constant may stand behind the first product.
TEST_F(MergeProducts, RightSidesInRowsDefinedLate) {
  Program merged = parse_text(weights(0, "a", "f32[6, 2]", 12) + weights(1, "b", "f32[6, 3]", 18) + R"(sym s0 in [2, 64] hint 4
graph(x: f32[s0, 6]) {
  a: f32[6, 2] = constant(0)
  p: f32[s0, 2] = matmul(x, a)
  b: f32[6, 3] = constant(1)
  q: f32[s0, 3] = matmul(x, b)
  t: f32[2, s0] = permute(p, dims=[1, 0])
  y: f32[2, 3] = matmul(t, q)
  return y
})");
  const HostTensor x = HostTensor::from_doubles(DType::F32, {2, 6}, std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const std::vector<double> expected = evaluate(merged, {&x, 1})[0].to_doubles();
  run_passes(merged, {.costs = costs()});
  EXPECT_EQ(matmuls(merged), 2);
  EXPECT_EQ(evaluate(merged, {&x, 1})[0].to_doubles(), expected);
}

}  // namespace
}  // namespace toroid
