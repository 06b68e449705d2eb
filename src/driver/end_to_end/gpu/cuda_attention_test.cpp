// The kernel of attention on a GPU: the text that a GPU runs, compiled for this processor, and compared with the evaluator.
#include <algorithm>

#include "base/error_for_test.h"
#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

const ProgramCase kAttentionPrograms[] = {
    // Few queries, whose keys blocks share: of one head, of several that share keys, with masks, and fewer keys than a warp has at a time.
    {"of_few_queries", R"(
graph(q: bf16[2, 4, 1, 64], k: bf16[2, 4, 333, 64], v: bf16[2, 4, 333, 64], g: f16[1, 8, 2, 128], gk: f16[1, 2, 150, 128],
      gv: f16[1, 2, 150, 128], m: bool[1, 1, 2, 150], p: bf16[2, 4, 1, 333], sk: bf16[2, 4, 5, 64], sv: bf16[2, 4, 5, 64]) {
  a: bf16[2, 4, 1, 64] = aten::scaled_dot_product_attention(q, k, v)
  b: bf16[2, 4, 1, 64] = aten::scaled_dot_product_attention(q, k, v, attn_mask=p)
  c: f16[1, 8, 2, 128] = aten::scaled_dot_product_attention(g, gk, gv, attn_mask=m, enable_gqa=True)
  d: bf16[2, 4, 1, 64] = aten::scaled_dot_product_attention(q, sk, sv)
  return a, b, c, d
})"},
    // Clusters of blocks that have equal parts of each tile's keys: of eight, of two with a mask and keys that end within a chunk, of four.
    {"of_few_queries_by_clusters", R"(
graph(q: bf16[1, 8, 1, 64], k: bf16[1, 2, 1024, 64], v: bf16[1, 2, 1024, 64], g: f16[2, 6, 1, 128], gk: f16[2, 3, 250, 128],
      gv: f16[2, 3, 250, 128], m: bool[1, 1, 1, 250], s: bf16[1, 1, 12, 64], sk: bf16[1, 1, 512, 64], p: bf16[1, 1, 12, 512]) {
  a: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(q, k, v, enable_gqa=True)
  b: f16[2, 6, 1, 128] = aten::scaled_dot_product_attention(g, gk, gv, attn_mask=m, enable_gqa=True)
  c: bf16[1, 1, 12, 64] = aten::scaled_dot_product_attention(s, sk, sk, attn_mask=p)
  return a, b, c
})"},
    // More of them than one tile has: of one head, and of several that share keys, with a mask for each query.
    {"of_some_queries", R"(
graph(q: bf16[1, 2, 17, 64], k: bf16[1, 2, 650, 64], v: bf16[1, 2, 650, 64], g: f16[1, 4, 10, 128], gk: f16[1, 1, 700, 128],
      gv: f16[1, 1, 700, 128], m: bool[1, 1, 10, 700]) {
  a: bf16[1, 2, 17, 64] = aten::scaled_dot_product_attention(q, k, v)
  b: f16[1, 4, 10, 128] = aten::scaled_dot_product_attention(g, gk, gv, attn_mask=m, enable_gqa=True)
  return a, b
})"},
    {"of_a_query_among_any_number_of_keys",
     R"(
sym s0 in [1, 700]
graph(q: bf16[1, 2, 1, 64], k: bf16[1, 2, s0, 64], v: bf16[1, 2, s0, 64]) {
  a: bf16[1, 2, 1, 64] = aten::scaled_dot_product_attention(q, k, v)
  return a
})",
     {{{"s0", 1}}, {{"s0", 17}}, {{"s0", 700}}}},
    // Rows and keys that end within a tile.
    {"of_few_heads", R"(
graph(q: bf16[2, 2, 70, 64], k: bf16[2, 2, 131, 64], v: bf16[2, 2, 131, 64]) {
  y: bf16[2, 2, 70, 64] = aten::scaled_dot_product_attention(q, k, v)
  return y
})"},
    {"causal_where_heads_share_keys", R"(
graph(q: f16[1, 4, 150, 32], k: f16[1, 2, 80, 32], v: f16[1, 2, 80, 32], k2: f16[1, 2, 200, 32], v2: f16[1, 2, 200, 32]) {
  y: f16[1, 4, 150, 32] = aten::scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
  z: f16[1, 4, 150, 32] = aten::scaled_dot_product_attention(q, k2, v2, is_causal=True, enable_gqa=True)
  return y, z
})"},
    // A mask for all heads, one with an odd number of columns, and rows that may look nowhere.
    {"with_masks", R"(
graph(q: bf16[2, 2, 20, 16], k: bf16[2, 2, 66, 16], v: bf16[2, 2, 66, 16], m: bf16[20, 66], p: bf16[2, 1, 1, 66],
      b: bool[2, 1, 20, 66], r: bool[20, 1], k2: bf16[2, 2, 7, 16], v2: bf16[2, 2, 7, 16], odd: bf16[2, 2, 20, 7]) {
  y: bf16[2, 2, 20, 16] = aten::scaled_dot_product_attention(q, k, v, attn_mask=m)
  z: bf16[2, 2, 20, 16] = aten::scaled_dot_product_attention(q, k, v, attn_mask=p)
  some: bool[2, 1, 20, 66] = aten::logical_and(b, r)
  w: bf16[2, 2, 20, 16] = aten::scaled_dot_product_attention(q, k, v, attn_mask=some)
  x: bf16[2, 2, 20, 16] = aten::scaled_dot_product_attention(q, k2, v2, attn_mask=odd)
  return y, z, w, x
})"},
    // Rows that are no multiples of 16 bytes, columns that do not lie beside each other, and a scale that is negative.
    {"of_any_layout", R"(
graph(q: bf16[2, 9, 3, 20], k: bf16[2, 3, 20, 33], v: bf16[2, 33, 3, 36]) {
  qt: bf16[2, 3, 9, 20] = aten::permute(q, [0, 2, 1, 3])
  kt: bf16[2, 3, 33, 20] = aten::permute(k, [0, 1, 3, 2])
  vt: bf16[2, 3, 33, 36] = aten::permute(v, [0, 2, 1, 3])
  y: bf16[2, 3, 9, 36] = aten::scaled_dot_product_attention(qt, kt, vt, scale=-0.25)
  h: bf16[2, 9, 3, 36] = aten::permute(y, [0, 2, 1, 3])
  z: bf16[2, 9, 108] = aten::view(h, [2, 9, 108])
  return z
})"},
    {"of_wide_rows", R"(
graph(q: bf16[1, 1, 12, 128], k: bf16[1, 1, 70, 128], v: bf16[1, 1, 70, 96],
      q2: f16[1, 1, 5, 256], k2: f16[1, 1, 40, 256], v2: f16[1, 1, 40, 256]) {
  y: bf16[1, 1, 12, 96] = aten::scaled_dot_product_attention(q, k, v)
  z: f16[1, 1, 5, 256] = aten::scaled_dot_product_attention(q2, k2, v2, is_causal=True)
  return y, z
})"},
    {"of_free_lengths",
     R"(
sym s0 in [1, 300]
sym s1 in [1, 300]
graph(q: bf16[2, 2, s0, 16], k: bf16[2, 2, s1, 16], v: bf16[2, 2, s1, 16], m: bf16[s0, s1]) {
  y: bf16[2, 2, s0, 16] = aten::scaled_dot_product_attention(q, k, v)
  z: bf16[2, 2, s0, 16] = aten::scaled_dot_product_attention(q, k, v, is_causal=True)
  w: bf16[2, 2, s0, 16] = aten::scaled_dot_product_attention(q, k, v, attn_mask=m)
  return y, z, w
})",
     {{{"s0", 1}, {"s1", 1}}, {{"s0", 65}, {"s1", 64}}, {{"s0", 17}, {"s1", 129}}}},
    {"of_other_ranks", R"(
graph(q: bf16[3, 5, 16], k: bf16[3, 9, 16], v: bf16[3, 9, 16], q2: bf16[5, 16], k2: bf16[9, 16], v2: bf16[9, 16]) {
  y: bf16[3, 5, 16] = aten::scaled_dot_product_attention(q, k, v)
  z: bf16[5, 16] = aten::scaled_dot_product_attention(q2, k2, v2, is_causal=True)
  return y, z
})"},
    // Scaled scores beyond 2^31, whose products with log2(e) are rounded by more than a float's exponent holds, beside rows of common ones.
    {"of_scores_that_are_far_from_zero", R"(
graph(q: bf16[1, 2, 70, 64], k: bf16[1, 2, 200, 64], v: bf16[1, 2, 200, 64], r: f16[1, 2, 40, 128], j: f16[1, 2, 90, 128],
      w: f16[1, 2, 90, 128], few: bf16[1, 2, 1, 64]) {
  small: bf16[1, 2, 70, 64] = aten::mul.Scalar(q, 1e-10)
  both: bf16[1, 2, 140, 64] = aten::cat([q, small], 2)
  y: bf16[1, 2, 140, 64] = aten::scaled_dot_product_attention(both, k, v, scale=1e10)
  c: bf16[1, 2, 140, 64] = aten::scaled_dot_product_attention(both, k, v, is_causal=True, scale=1e8)
  z: f16[1, 2, 40, 128] = aten::scaled_dot_product_attention(r, j, w, scale=1e12)
  n: f16[1, 2, 40, 128] = aten::scaled_dot_product_attention(r, j, w, scale=-1e12)
  f: bf16[1, 2, 1, 64] = aten::scaled_dot_product_attention(few, k, v, scale=1e10)
  return y, c, z, n, f
})"},
    // As models write it out: a bias of all batches, scores that are hidden by a truth and by the lowest number, three dims.
    {"written_as_products", R"(
graph(q: bf16[2, 2, 20, 64], k: bf16[2, 2, 66, 64], v: bf16[2, 2, 66, 64], bias: bf16[1, 2, 20, 66], m: bool[2, 1, 1, 66],
      q2: f16[6, 70, 32], k2: f16[6, 70, 32], v2: f16[6, 70, 48]) {
  t: bf16[2, 2, 64, 66] = aten::transpose.int(k, 2, 3)
  s: bf16[2, 2, 20, 66] = aten::matmul(q, t)
  c: bf16[2, 2, 20, 66] = aten::mul.Tensor(s, 0.125)
  a: bf16[2, 2, 20, 66] = aten::add.Tensor(c, bias)
  h: bf16[2, 2, 20, 66] = aten::masked_fill.Scalar(a, m, -3e38)
  p: f32[2, 2, 20, 66] = aten::softmax.int(h, -1, dtype.f32)
  w: bf16[2, 2, 20, 66] = aten::to.dtype(p, dtype.bf16)
  y: bf16[2, 2, 20, 64] = aten::matmul(w, v)
  o: bool[70, 70] = aten::ones([70, 70], dtype.bool)
  l: bool[70, 70] = aten::tril(o)
  n: bool[70, 70] = aten::logical_not(l)
  t2: f16[6, 32, 70] = aten::transpose.int(k2, 1, 2)
  s2: f16[6, 70, 70] = aten::bmm(q2, t2)
  c2: f16[6, 70, 70] = aten::div.Tensor(s2, 8.0)
  a2: f16[6, 70, 70] = aten::masked_fill.Scalar(c2, n, -inf)
  w2: f16[6, 70, 70] = aten::softmax.int(a2, -1)
  z: f16[6, 70, 48] = aten::bmm(w2, v2)
  return y, z
})"},
    // The first row's mask hides all of it: NaN, where the operation gives zeros.
    {"written_with_rows_that_see_nothing", R"(
graph(q: bf16[1, 2, 5, 16], k: bf16[1, 2, 9, 16], v: bf16[1, 2, 9, 16]) {
  s: i64[5] = aten::arange(5)
  u: i64[5, 1] = aten::unsqueeze(s, 1)
  j: i64[9] = aten::arange(9)
  m: bool[5, 9] = aten::lt.Tensor(j, u)
  zero: bf16[5, 9] = aten::zeros([5, 9], dtype.bf16)
  o: bool[5, 9] = aten::logical_not(m)
  f: bf16[5, 9] = aten::masked_fill.Scalar(zero, o, -inf)
  t: bf16[1, 2, 16, 9] = aten::transpose.int(k, 2, 3)
  s1: bf16[1, 2, 5, 9] = aten::matmul(q, t)
  a: bf16[1, 2, 5, 9] = aten::add.Tensor(s1, f)
  w: bf16[1, 2, 5, 9] = aten::softmax.int(a, -1)
  y: bf16[1, 2, 5, 16] = aten::matmul(w, v)
  return y
})"},
    // Masks that the kernel computes: a window, in which tiles of keys are seen by none, some and all of a tile's queries; documents; queries
    // that see nothing.
    {"with_masks_of_positions", R"(
graph(q: bf16[2, 2, 300, 64], k: bf16[2, 2, 420, 64], v: bf16[2, 2, 420, 64], d: i64[2, 300], e: i64[2, 420]) {
  a: i64[300] = aten::arange(300)
  i: i64[300, 1] = aten::unsqueeze(a, 1)
  c: i64[420] = aten::arange(420)
  j: i64[1, 420] = aten::unsqueeze(c, 0)
  n: i64[300, 420] = aten::sub.Tensor(i, j)
  lo: bool[300, 420] = aten::ge.Scalar(n, -200)
  hi: bool[300, 420] = aten::lt.Scalar(n, 90)
  w: bool[300, 420] = aten::logical_and(lo, hi)
  x: bf16[2, 2, 300, 64] = aten::scaled_dot_product_attention(q, k, v, attn_mask=w)
  di: i64[2, 300, 1] = aten::unsqueeze(d, 2)
  dj: i64[2, 1, 420] = aten::unsqueeze(e, 1)
  fi: i64[2, 300, 1] = aten::floor_divide.Scalar(di, 2)
  fj: i64[2, 1, 420] = aten::floor_divide.Scalar(dj, 2)
  same: bool[2, 300, 420] = aten::eq.Tensor(fi, fj)
  of_heads: bool[2, 1, 300, 420] = aten::unsqueeze(same, 1)
  y: bf16[2, 2, 300, 64] = aten::scaled_dot_product_attention(q, k, v, attn_mask=of_heads)
  far: bool[300, 420] = aten::lt.Scalar(n, -250)
  z: bf16[2, 2, 300, 64] = aten::scaled_dot_product_attention(q, k, v, attn_mask=far, scale=-0.5)
  o: bf16[2, 2, 300, 64] = aten::scaled_dot_product_attention(x, k, v, attn_mask=w)
  return x, y, z, o
})"},
    // Scores that the kernel computes: a soft cap, a slope for each head, a table of distances, heads that share keys; NaN where all are -inf.
    {"of_written_scores", R"(
graph(q: bf16[1, 4, 150, 64], k: bf16[1, 2, 150, 64], v: bf16[1, 2, 150, 64], q2: f16[1, 2, 60, 128], k2: f16[1, 2, 200, 128],
      v2: f16[1, 2, 200, 96], slopes: f32[4, 1, 1], table: bf16[2, 33]) {
  a: i64[150] = aten::arange(150)
  i: i64[150, 1] = aten::unsqueeze(a, 1)
  j: i64[1, 150] = aten::unsqueeze(a, 0)
  n: i64[150, 150] = aten::sub.Tensor(j, i)
  bias: f32[4, 150, 150] = aten::mul.Tensor(slopes, n)
  k5: bf16[1, 2, 1, 150, 64] = aten::unsqueeze(k, 2)
  ke: bf16[1, 2, 2, 150, 64] = aten::expand(k5, [1, 2, 2, 150, 64])
  kr: bf16[1, 4, 150, 64] = aten::reshape(ke, [1, 4, 150, 64])
  v5: bf16[1, 2, 1, 150, 64] = aten::unsqueeze(v, 2)
  ve: bf16[1, 2, 2, 150, 64] = aten::expand(v5, [1, 2, 2, 150, 64])
  vr: bf16[1, 4, 150, 64] = aten::reshape(ve, [1, 4, 150, 64])
  t: bf16[1, 4, 64, 150] = aten::transpose.int(kr, 2, 3)
  s: bf16[1, 4, 150, 150] = aten::matmul(q, t)
  f: f32[1, 4, 150, 150] = aten::to.dtype(s, dtype.f32)
  c: f32[1, 4, 150, 150] = aten::mul.Tensor(f, 0.125)
  b: f32[1, 4, 150, 150] = aten::add.Tensor(c, bias)
  over: bool[150, 150] = aten::ge.Scalar(n, 0)
  h: f32[1, 4, 150, 150] = aten::masked_fill.Scalar(b, over, -inf)
  p: f32[1, 4, 150, 150] = aten::softmax.int(h, -1)
  w: bf16[1, 4, 150, 150] = aten::to.dtype(p, dtype.bf16)
  y: bf16[1, 4, 150, 64] = aten::matmul(w, vr)
  t2: f16[1, 2, 128, 200] = aten::transpose.int(k2, 2, 3)
  s2: f16[1, 2, 60, 200] = aten::matmul(q2, t2)
  c2: f16[1, 2, 60, 200] = aten::div.Tensor(s2, 60.0)
  h2: f16[1, 2, 60, 200] = aten::tanh(c2)
  m2: f16[1, 2, 60, 200] = aten::mul.Tensor(h2, 5.0)
  w2: f16[1, 2, 60, 200] = aten::softmax.int(m2, -1)
  y2: f16[1, 2, 60, 96] = aten::matmul(w2, v2)
  near: i64[150, 150] = aten::clamp(n, -16, 16)
  place: i64[150, 150] = aten::add.Tensor(near, 16)
  of_distance: bf16[2, 150, 150] = aten::index.Tensor(table, [none, place])
  q3: bf16[1, 2, 150, 64] = aten::slice.Tensor(q, 1, 0, 2)
  t3: bf16[1, 2, 64, 150] = aten::transpose.int(k, 2, 3)
  s3: bf16[1, 2, 150, 150] = aten::matmul(q3, t3)
  b3: bf16[1, 2, 150, 150] = aten::add.Tensor(s3, of_distance)
  w3: bf16[1, 2, 150, 150] = aten::softmax.int(b3, -1)
  y3: bf16[1, 2, 150, 64] = aten::matmul(w3, v)
  return y, y2, y3
})"},
    {"of_written_scores_of_free_lengths",
     R"(
sym s0 in [1, 300]
sym s1 in [1, 300]
graph(q: bf16[1, 2, s0, 64], k: bf16[1, 2, s1, 64], v: bf16[1, 2, s1, 64]) {
  a: i64[s0] = aten::arange(s0)
  i: i64[s0, 1] = aten::unsqueeze(a, 1)
  c: i64[s1] = aten::arange(s1)
  j: i64[1, s1] = aten::unsqueeze(c, 0)
  n: i64[s0, s1] = aten::sub.Tensor(i, j)
  w: bool[s0, s1] = aten::lt.Scalar(n, 40)
  x: bf16[1, 2, s0, 64] = aten::scaled_dot_product_attention(q, k, v, attn_mask=w)
  return x
})",
     {{{"s0", 1}, {"s1", 1}}, {{"s0", 130}, {"s1", 257}}, {{"s0", 300}, {"s1", 90}}}},
    {"without_keys", R"(
graph(q: bf16[1, 2, 5, 16], k: bf16[1, 2, 0, 16], v: bf16[1, 2, 0, 16]) {
  y: bf16[1, 2, 5, 16] = aten::scaled_dot_product_attention(q, k, v)
  return y
})"},
};

class EmulatedAttention : public testing::TestWithParam<ProgramCase> {};
TEST_P(EmulatedAttention, ComputesAsTheEvaluator) {
  expect_as_evaluated(GetParam().text, GetParam().calls, 2, codegen::Target::EmulatedCuda);
}
INSTANTIATE_TEST_SUITE_P(Programs, EmulatedAttention, testing::ValuesIn(kAttentionPrograms),
                         [](const auto& each) { return each.param.name; });

// A step of decoding: its kernel has keys and values on their way before the row is written that the step adds.
std::string step_of_a_cache(int keys) {
  std::string cache;
  for (int i = 0; i < 2 * keys * 64; ++i) cache += fmt::format("{}{}", i == 0 ? "" : ", ", (i * 37 % 64 - 32) / 32.0);
  return fmt::format(R"(
buffer 0 "keys": bf16[1, 2, {0}, 64] = [{1}]
buffer 1 "values": bf16[1, 2, {0}, 64] = [{1}]
graph(x: bf16[1, 8, 1, 64], n: bf16[1, 2, 1, 64], p: i64[1]) {{
  k: bf16[1, 2, {0}, 64] = constant(0)
  v: bf16[1, 2, {0}, 64] = constant(1)
  q: bf16[1, 8, 1, 64] = aten::mul.Tensor(x, 4.0)
  m: bf16[1, 2, 1, 64] = aten::mul.Tensor(n, 8.0)
  l: bf16[1, 2, {0}, 64] = aten::index_copy(k, 2, p, m)
  w: bf16[1, 2, {0}, 64] = aten::index_copy(v, 2, p, n)
  y: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(q, l, w, enable_gqa=True)
  z: bf16[1, 8, 1, 64] = aten::relu(y)
  return z, l -> buffer "keys", w -> buffer "values"
}})",
                     keys, cache);
}
TEST(EmulatedAttention, OfACacheHasTheRowThatIsWritten) {
  for (const int keys : {40, 256}) {  // the latter by blocks in clusters
    const CompiledModel model = compiled(step_of_a_cache(keys), codegen::Target::EmulatedCuda);
    for (const int64_t row : {0, 17, keys - 1, -keys, -3}) {
      std::vector<HostTensor> inputs = example_inputs(*model.program);
      inputs[2] = HostTensor::from_ints(DType::I64, {1}, std::vector<int64_t>{row});
      const std::vector<HostTensor> expected = evaluate(*model.program, inputs), outputs = model.load(2).run(inputs);
      EXPECT_EQ(difference(outputs[0], expected[0], {.sums_or_products = true}), std::nullopt) << keys << " keys, row " << row;
    }
  }
}

// Heads beside each other in each row, two batches, wide rows, a mask, and more queries of the same keys than a tile has. What comes behind
// reads the rows that were written, and, `reads_old`, those that were there.
std::string step_of_a_cache_by_rows(bool reads_old) {
  constexpr int kKeys = 48, kNumbers = 2 * kKeys * 2 * 128;
  std::string cache;
  for (int i = 0; i < kNumbers; ++i) cache += fmt::format("{}{}", i == 0 ? "" : ", ", (i * 37 % 64 - 32) / 64.0);
  return fmt::format(R"(
buffer 0 "keys": f16[2, {0}, 2, 128] = [{1}]
buffer 1 "values": f16[2, {0}, 2, 128] = [{1}]
graph(x: f16[2, 1, 6144], n: f16[2, 1, 2, 128], p: i64[2], s: f16[1, {0}]) {{
  k: f16[2, {0}, 2, 128] = constant(0)
  v: f16[2, {0}, 2, 128] = constant(1)
  i: i64[1] = aten::slice.Tensor(p, 0, 1, 2)
  m: f16[2, 1, 2, 128] = aten::mul.Tensor(n, 8.0)
  l: f16[2, {0}, 2, 128] = aten::index_copy(k, 1, i, m)
  w: f16[2, {0}, 2, 128] = aten::index_copy(v, 1, i, n)
  a: f16[2, 2, {0}, 128] = aten::transpose.int(l, 1, 2)
  b: f16[2, 2, {0}, 128] = aten::transpose.int(w, 1, 2)
  r: f16[2, 1, 6144] = aten::mul.Tensor(x, 2.0)
  h: f16[2, 1, 48, 128] = aten::reshape(r, [2, 1, 48, 128])
  q: f16[2, 48, 1, 128] = aten::transpose.int(h, 1, 2)
  y: f16[2, 48, 1, 128] = aten::scaled_dot_product_attention(q, a, b, s, enable_gqa=True)
  c: f16[2, {0}, 2, 128] = aten::add.Tensor({2})
  d: f16[2, {0}, 2, 128] = aten::neg(w)
  return y, c, d, l -> buffer "keys", w -> buffer "values"
}})",
                     kKeys, cache, reads_old ? "l, k" : "l, l");
}
TEST(EmulatedAttention, WritesTheRowOfItsCache) {
  for (const bool reads_old : {false, true}) {
    const CompiledModel model = compiled(step_of_a_cache_by_rows(reads_old), codegen::Target::EmulatedCuda);
    for (const int64_t row : {0, 31, 47, -48, -2}) {
      std::vector<HostTensor> inputs = example_inputs(*model.program);
      inputs[2] = HostTensor::from_ints(DType::I64, {2}, std::vector<int64_t>{-1, row});
      const std::vector<HostTensor> expected = evaluate(*model.program, inputs), outputs = model.load(2).run(inputs);
      EXPECT_EQ(difference(outputs[0], expected[0], {.sums_or_products = true}), std::nullopt) << "row " << row;
      for (const size_t rows : {size_t{1}, size_t{2}})
        EXPECT_EQ(difference(outputs[rows], expected[rows], {}), std::nullopt) << "row " << row;
    }
  }
}

TEST(EmulatedAttention, OfACacheReadsNoRowThatIsNotThere) {
  constexpr int kKeys = 40;  // the last warp has chunks of sixteen
  const CompiledModel model = compiled(step_of_a_cache(kKeys), codegen::Target::EmulatedCuda);
  for (const int64_t row : {int64_t{kKeys}, int64_t{kKeys + 3}, int64_t{-kKeys - 1}, int64_t{1} << 40}) {
    std::vector<HostTensor> inputs = example_inputs(*model.program);
    inputs[2] = HostTensor::from_ints(DType::I64, {1}, std::vector<int64_t>{row});
    EXPECT_NE(error_of([&] { model.load(2).run(inputs); }).report().find("indices"), std::string::npos) << row;
  }
}

// Each is one call, where products of the program's own are none.
TEST(WrittenAttention, IsOneOperation) {
  const auto calls_of = [](std::string_view name) {
    const auto* found = std::find_if(std::begin(kAttentionPrograms), std::end(kAttentionPrograms),
                                     [&](const ProgramCase& each) { return each.name == name; });
    return compiled(found->text, codegen::Target::EmulatedCuda).library_calls;
  };
  EXPECT_EQ(calls_of("written_as_products"), 2);
  EXPECT_EQ(calls_of("written_with_rows_that_see_nothing"), 1);
  // Kernels of the program's own.
  for (const std::string_view name : {"with_masks_of_positions", "of_written_scores", "of_written_scores_of_free_lengths"})
    EXPECT_EQ(calls_of(name), 0) << name;
}

}  // namespace
}  // namespace toroid
