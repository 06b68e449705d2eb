// Sorts, selections and searches by a GPU's kernels, compiled for this processor: they give what the evaluator gives, position by position.
#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

const ProgramCase kOrders[] = {
    {"rows_in_shared_memory", R"(
graph(x: f32[3, 700], h: bf16[2, 33], n: i64[2, 300], b: bool[2, 40], u: u8[1, 5000]) {
  v: f32[3, 700], at: i64[3, 700] = aten::sort(x, 1)
  w: bf16[2, 33], to: i64[2, 33] = aten::sort(h, 1, True)
  m: i64[2, 300], of: i64[2, 300] = aten::sort(n, 1, True)
  c: bool[2, 40], q: i64[2, 40] = aten::sort.stable(b, stable=True, dim=1)
  d: u8[1, 5000], r: i64[1, 5000] = aten::sort(u, 1)
  return v, at, w, to, m, of, c, q, d, r
})"},
    {"rows_along_an_inner_dim", R"(
graph(x: f32[2, 50, 3]) {
  v: f32[2, 50, 3], at: i64[2, 50, 3] = aten::sort(x, 1, True)
  return v, at
})"},
    {"rows_digit_by_digit", R"(
graph(x: f32[2, 20000], h: f16[1, 17000], n: i64[1, 9000], u: u8[2, 17000]) {
  v: f32[2, 20000], at: i64[2, 20000] = aten::sort(x, 1)
  w: f16[1, 17000], to: i64[1, 17000] = aten::sort(h, 1, True)
  m: i64[1, 9000], of: i64[1, 9000] = aten::sort(n, 1)
  d: u8[2, 17000], r: i64[2, 17000] = aten::sort(u, 1, True)
  return v, at, w, to, m, of, d, r
})"},
    {"rows_of_a_free_length",
     R"(
sym s0 in [1, 20000]
graph(x: f32[2, s0, 2]) {
  v: f32[2, s0, 2], at: i64[2, s0, 2] = aten::sort(x, 1)
  return v, at
})",
     {{{"s0", 1}}, {{"s0", 77}}, {{"s0", 9000}}}},
    {"the_first_of_rows", R"(
graph(x: f32[3, 4096], h: bf16[2, 999], n: i64[2, 640], b: bool[2, 900], z: f32[2, 20000]) {
  v: f32[3, 64], at: i64[3, 64] = aten::topk(x, 64)
  w: bf16[2, 5], to: i64[2, 5] = aten::topk(h, 5, 1, False)
  m: i64[2, 80], of: i64[2, 80] = aten::topk(n, 80)
  c: bool[2, 3], q: i64[2, 3] = aten::topk(b, 3)
  d: f32[2, 1500], r: i64[2, 1500] = aten::topk(z, 1500)
  return v, at, w, to, m, of, c, q, d, r
})"},
    {"the_first_of_long_rows", R"(
graph(h: bf16[2, 32000], z: f32[1, 20000]) {
  v: bf16[2, 64], at: i64[2, 64] = aten::topk(h, 64)
  w: f32[1, 700], to: i64[1, 700] = aten::topk(z, 700, 1, False)
  m: bf16[2], of: i64[2] = aten::median.dim(h, 1)
  k: f32[1], q: i64[1] = aten::kthvalue(z, 12345)
  return v, at, w, to, m, of, k, q
})"},
    {"the_first_of_rows_by_groups_of_packs",
     R"(
sym s0 in [64, 30000] hint 4000
graph(x: bf16[2, 9000], y: f32[2, 20000], n: i64[1, 9001], z: f16[2, s0]) {
  v: bf16[2, 50], at: i64[2, 50] = aten::topk(x, 50)
  w: f32[2, 200], to: i64[2, 200] = aten::topk(y, 200, 1, False)
  m: i64[1, 7], of: i64[1, 7] = aten::topk(n, 7)
  c: f16[2, 64], q: i64[2, 64] = aten::topk(z, 64, 1, False)
  t: bf16[2, 9000] = aten::trunc(x)
  d: bf16[2, 50], r: i64[2, 50] = aten::topk(t, 50)
  return v, at, w, to, m, of, c, q, d, r
})",
     {{{"s0", 64}}, {{"s0", 3000}}, {{"s0", 20000}}}},
    {"one_of_each_row", R"(
graph(x: f32[3, 1030], p: f32[4, 65], n: i64[2, 300]) {
  k: f32[3], at: i64[3] = aten::kthvalue(x, 17)
  m: f32[3], to: i64[3] = aten::median.dim(x, 1)
  o: f32[3], of: i64[3] = aten::nanmedian.dim(x, 1)
  a: f32[4], q: i64[4] = aten::median.dim(p, 1)
  b: i64[2], r: i64[2] = aten::kthvalue(n, 299)
  return k, at, m, to, o, of, a, q, b, r
})"},
    {"scatters_by_destination",
     R"(
sym s0 in [1, 3000]
graph(a: f32[3, 5], i0: i64[s0], v: f32[s0, 5], h: bf16[3, 4], w: bf16[s0, 4], i1: i64[1200, 2], n: i64[3, 2], m: i64[1200, 2]) {
  s: f32[3, 5] = aten::index_add(a, 0, i0, v)
  b: bf16[3, 4] = aten::index_add(h, 0, i0, w)
  c: i64[3, 2] = aten::scatter_add(n, 0, i1, m)
  return s, b, c
})",
     {{{"s0", 1}}, {{"s0", 3000}}}},
    {"gradients_of_an_embedding", R"(
graph(g: f32[900, 24], i: i64[900]) {
  e: f32[50, 24] = aten::embedding_dense_backward(g, i, 50, -1, False)
  return e
})"},
    // A block for each high byte of the words: of few and of most tokens.
    {"gradients_of_many_words", R"(
graph(g: bf16[2500, 8], h: f32[2500, 3], i: i64[2500]) {
  a: i64[2500] = aten::arange(2500)
  m: i64[2500] = aten::mul.Tensor(a, 7919)
  n: i64[2500] = aten::add.Tensor(m, i)
  j: i64[2500] = aten::remainder.Scalar(n, 50257)
  e: bf16[50257, 8] = aten::embedding_dense_backward(g, j, 50257, -1, False)
  f: f32[50257, 3] = aten::embedding_dense_backward(h, i, 50257, 1, False)
  return e, f
})"},
    {"searches_and_positions", R"(
graph(x: f32[2, 90], p: f32[2, 40], b: bool[9000]) {
  s: f32[2, 90], at: i64[2, 90] = aten::sort(x, 1)
  l: i64[2, 40] = aten::searchsorted.Tensor(s, p)
  r: i64[2, 40] = aten::searchsorted.Tensor(s, p, right=True)
  n: i64[200, 1] = aten::nonzero_static(b, size=200)
  return l, r, n
})"},
};

class CudaOrders : public testing::TestWithParam<ProgramCase> {};

TEST_P(CudaOrders, GiveWhatTheEvaluatorGives) { expect_as_evaluated(GetParam().text, GetParam().calls, 2, codegen::Target::EmulatedCuda); }

INSTANTIATE_TEST_SUITE_P(Programs, CudaOrders, testing::ValuesIn(kOrders), [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace toroid
