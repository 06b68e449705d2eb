// Kernels for a GPU: printed for CUDA, compiled for this processor, and compared with the evaluator. The text is the one that a GPU runs.
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "base/float16.h"
#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

const ProgramCase kCudaPrograms[] = {
    {"map_of_vectors", R"(
graph(x: bf16[64, 1024], y: f32[64, 1024]) {
  z: f32[64, 1024] = aten::add.Tensor(x, y)
  r: f32[64, 1024] = aten::gelu(z)
  h: f16[64, 1024] = aten::to.dtype(r, dtype.f16)
  return r, h
})"},
    {"large_map_of_vectors", R"(
graph(x: bf16[512, 1024], b: bf16[1024]) {
  z: bf16[512, 1024] = aten::add.Tensor(x, b)
  r: bf16[512, 1024] = aten::relu(z)
  return r
})"},
    // Blocks that go through all rows sum their columns beside them, of what they read, make and write.
    {"columns_of_the_rows_of_a_gradient", R"(
graph(x: bf16[8453, 256], g: bf16[8453, 256], r: bf16[8453, 256], w: bf16[256], b: bf16[256]) {
  y: bf16[8453, 256], m: bf16[8453, 1], s: bf16[8453, 1] = aten::native_layer_norm(x, [256], w, b, 0.00001)
  dx: bf16[8453, 256], dw: bf16[256], db: bf16[256] = aten::native_layer_norm_backward(g, x, [256], m, s, w, b, [True, True, True])
  a: bf16[8453, 256] = aten::add.Tensor(dx, r)
  c: bf16[256] = aten::sum.dim_IntList(a, [0])
  return y, a, dw, db, c
})"},
    {"transpose_and_add", R"(
graph(a: f32[33, 65], b: f32[65, 33]) {
  t: f32[65, 33] = aten::t(a)
  y: f32[65, 33] = aten::add.Tensor(t, b)
  return y
})"},
    {"transposes_by_tiles",
     R"(
sym s0 in [1, 200]
graph(a: f32[70, 130], b: bf16[2, 65, 64], c: bf16[2, 64, 65], d: f32[s0, 33], e: f32[33, s0]) {
  t: f32[130, 70] = aten::t(a)
  y: f32[130, 70] = aten::neg(t)
  u: bf16[2, 64, 65] = aten::permute(b, [0, 2, 1])
  z: bf16[2, 64, 65] = aten::add.Tensor(u, c)
  v: f32[33, s0] = aten::t(d)
  w: f32[33, s0] = aten::mul.Tensor(v, e)
  return y, z, w
})",
     {{{"s0", 1}}, {{"s0", 64}}, {{"s0", 131}}}},
    {"softmax_of_free_rows",
     R"(
sym s0 in [1, 64]
graph(a: f32[s0, 33]) {
  y: f32[s0, 33] = aten::softmax.int(a, 1)
  z: f32[s0, 33] = aten::cumsum(y, 1)
  return y, z
})",
     {{{"s0", 1}}, {{"s0", 7}}, {{"s0", 40}}}},
    {"cross_entropy_of_long_rows", R"(
graph(a: bf16[3, 20000], t: i64[3], b: f16[2, 4096]) {
  x: f32[3, 20000] = aten::to.dtype(a, dtype.f32)
  y: f32[] = aten::cross_entropy_loss(x, t)
  z: f32[3, 20000] = aten::log_softmax.int(x, 1)
  r: f16[2, 4096] = aten::softmax.int(b, 1)
  return y, z, r
})"},
    {"softmax_in_registers", R"(
graph(a: bf16[5, 1024], b: f32[3, 4096], c: f32[70, 16]) {
  y: bf16[5, 1024] = aten::softmax.int(a, 1)
  z: f32[3, 4096] = aten::log_softmax.int(b, 1)
  r: f32[70, 16] = aten::softmax.int(c, 1)
  return y, z, r
})"},
    {"softmax_of_long_rows", R"(
graph(a: f32[2, 100003]) {
  y: f32[2, 100003] = aten::softmax.int(a, 1)
  return y
})"},
    {"softmax_of_columns", R"(
graph(a: f32[129, 40]) {
  y: f32[129, 40] = aten::softmax.int(a, 0)
  return y
})"},
    {"norm_and_statistics", R"(
graph(a: f32[6, 768], w: f32[768], b: f32[768]) {
  y: f32[6, 768] = aten::layer_norm(a, [768], w, b)
  v: f32[768] = aten::var.correction(a, [0], correction=1)
  m: f32[6], at: i64[6] = aten::max.dim(a, 1)
  n: f32[768], to: i64[768] = aten::min.dim(a, 0)
  k: i64[] = aten::argmin(a)
  s: f32[] = aten::sum(a)
  return y, v, m, at, n, to, k, s
})"},
    // The correction of a mean is a stage of its own, for rows and columns that need it.
    {"variance_of_large_means", R"(
graph(x: f32[300, 40], m: f32[40]) {
  h: f32[40] = aten::mul.Scalar(m, 300)
  a: f32[300, 40] = aten::add.Tensor(x, h)
  v: f32[40] = aten::var.correction(a, [0], correction=1)
  w: f32[300] = aten::var.correction(a, [1], correction=0)
  return v, w
})"},
    {"product_of_columns_that_repeat", R"(
graph(x: f16[4, 6]) {
  c: f16[4, 6, 1] = aten::unsqueeze(x, 2)
  d: f16[4, 6, 2] = aten::cat([c, c], 2)
  a: f32[4, 6, 2] = aten::_to_copy(d, dtype=dtype.f32)
  t: f32[4, 2, 6] = aten::transpose.int(a, 1, 2)
  z: f32[4, 6, 6] = aten::matmul(a, t)
  return z
})"},
    // Nothing is added up, along a dim whose size a call tells.
    {"a_mean_of_nothing",
     R"(
sym s0 in [1, 16] hint 6
graph(x: f32[2, 1, s0]) {
  d: f32[2, 0, s0] = aten::diff(x, 1, 1)
  e: f32[2, 0, s0] = aten::log_softmax.int(d, -1)
  m: f32[] = aten::mse_loss(e, d, 1)
  return m
})",
     {{{"s0", 5}}}},
    // A thread has neighbouring columns, in several blocks of rows.
    {"sums_of_columns_in_vectors", R"(
graph(x: f32[2400, 1750], y: f32[2400, 1], z: f32[1750]) {
  s: f32[1750] = aten::sum.dim_IntList(x, [0])
  p: f32[2400, 1750] = aten::mul.Tensor(x, y)
  q: f32[2400, 1750] = aten::mul.Tensor(p, z)
  t: f32[1750] = aten::sum.dim_IntList(q, [0])
  return s, t
})"},
    // What is of a channel alone serves for several of a thread's elements.
    {"map_that_repeats", R"(
graph(x: f32[80000, 7], m: f32[7], v: f32[7]) {
  c: f32[80000, 7] = aten::sub.Tensor(x, m)
  e: f32[7] = aten::exp(v)
  y: f32[80000, 7] = aten::div.Tensor(c, e)
  return y
})"},
    {"extrema_with_ties_and_nan", R"(
graph(x: f32[12, 3], i: i64[40, 40]) {
  m: f32[3], at: i64[3] = aten::max.dim(x, 0)
  k: i64[] = aten::argmax(x)
  l: i64[40] = aten::argmax(i, 1)
  f: i64[40] = aten::argmin(i, 0)
  a: f32[12] = aten::amax(x, [1])
  return m, at, k, l, f, a
})"},
    {"sum_of_everything", R"(
graph(a: f32[300, 1000]) {
  s: f32[] = aten::sum(a)
  m: f32[] = aten::mean(a)
  return s, m
})"},
    {"reductions_of_integers_and_bools", R"(
graph(i: i32[7, 300], b: bool[7, 300], p: i64[4, 9]) {
  s: i64[7] = aten::sum.dim_IntList(i, [1])
  c: i64[300] = aten::sum.dim_IntList(b, [0])
  y: bool[7] = aten::any.dim(b, 1)
  z: bool[] = aten::all(b)
  q: i64[4] = aten::prod.dim_int(p, 1)
  return s, c, y, z, q
})"},
    {"scans_of_rows", R"(
graph(x: f32[3, 9000], h: bf16[2, 700], n: i64[2, 4099], b: bool[3, 130], p: f64[2, 600]) {
  s: f32[3, 9000] = aten::cumsum(x, 1)
  t: bf16[2, 700] = aten::cumsum(h, 1)
  c: i64[2, 4099] = aten::cumsum(n, 1)
  e: i64[3, 130] = aten::cumsum(b, 1)
  m: f32[3, 9000], at: i64[3, 9000] = aten::cummax(x, 1)
  k: bf16[2, 700], to: i64[2, 700] = aten::cummin(h, 1)
  l: f64[2, 600] = aten::logcumsumexp(p, 1)
  q: f64[2, 600] = aten::cumprod(p, 1)
  return s, t, c, e, m, at, k, to, l, q
})"},
    {"scans_of_rows_by_several_blocks", R"(
graph(x: f32[2, 70000], n: i32[1200000], b: bool[1, 40000], w: f32[2200008], o: f32[3, 50001]) {
  s: f32[2, 70000] = aten::cumsum(x, 1)
  c: i64[1200000] = aten::cumsum(n, 0)
  d: f32[3, 50001] = aten::cumsum(o, 1)
  k: f32[2200008], to: i64[2200008] = aten::cummax(w, 0)
  e: u8[1, 40000] = aten::cumsum(b, 1, dtype=dtype.u8)
  m: f32[2, 70000], at: i64[2, 70000] = aten::cummax(x, 1)
  l: f32[2, 70000] = aten::logcumsumexp(x, 1)
  return s, c, d, k, to, e, m, at, l
})"},
    {"scans_of_columns",
     R"(
sym s0 in [1, 900]
graph(x: f32[2, s0, 45], n: i32[s0, 3]) {
  s: f32[2, s0, 45] = aten::cumsum(x, 1)
  m: f32[2, s0, 45], at: i64[2, s0, 45] = aten::cummax(x, 1)
  c: i64[s0, 3] = aten::cumsum(n, 0)
  return s, m, at, c
})",
     {{{"s0", 1}}, {{"s0", 40}}, {{"s0", 900}}}},
    {"scans", R"(
graph(x: f32[5, 200], i: i64[3, 70]) {
  s: f32[5, 200] = aten::cumsum(x, 1)
  p: f32[5, 200] = aten::cumprod(x, 0)
  m: f32[5, 200], at: i64[5, 200] = aten::cummax(x, 1)
  n: i64[3, 70], to: i64[3, 70] = aten::cummin(i, 1)
  l: f32[5, 200] = aten::logcumsumexp(x, 1)
  return s, p, m, at, n, to, l
})"},
    {"rows_in_shared_memory", R"(
graph(x: bf16[2, 20480], g: f32[2, 20480]) {
  y: f32[2, 20480] = aten::_softmax(x, 1, True)
  p: f32[2, 20480] = aten::mul.Tensor(y, g)
  s: f32[2] = aten::sum.dim_IntList(p, [1])
  l: bf16[2, 20480] = aten::_log_softmax(x, 1, False)
  return s, l
})"},
    {"gathers_and_scatters", R"(
graph(a: f32[3, 64], i0: i64[20], v: f32[20, 64], i1: i64[3, 30], w: f32[3, 30], d: f32[3], d0: f32[20]) {
  g: f32[20, 64] = aten::index_select(a, 0, i0)
  s: f32[3, 64] = aten::index_add(a, 0, i0, v)
  t: f32[3, 64] = aten::scatter_add(a, 1, i1, w)
  r: f32[3, 64] = aten::scatter_reduce.two(a, 1, i1, w, "amax")
  e: f32[20, 64] = aten::embedding(a, i0)
  o: f32[3] = aten::index_put(d, [i0], d0, True)
  return g, s, t, r, e, o
})"},
    {"edges_of_floats", R"(
graph(x: f32[40], d: f32[40]) {
  f: f32[40] = aten::floor_divide(x, d)
  r: f32[40] = aten::remainder.Tensor(x, d)
  m: f32[40] = aten::maximum(x, d)
  s: f32[40] = aten::sigmoid(x)
  t: f32[40] = aten::tanh(x)
  g: f32[40] = aten::erf(x)
  i: i64[40] = aten::to.dtype(d, dtype.i64)
  u: u8[40] = aten::to.dtype(x, dtype.u8)
  h: f16[40] = aten::to.dtype(x, dtype.f16)
  b: bf16[40] = aten::to.dtype(x, dtype.bf16)
  e: f16[40] = aten::exp(h)
  c: i64[40], q: i64[40] = aten::cummax(i, 0)
  return f, r, m, s, t, g, i, u, h, b, e, c, q
})"},
    {"edges_of_integers", R"(
graph(x: i64[30], d: i64[30], y: u8[30], p: u8[30], z: i32[30]) {
  f: i64[30] = aten::floor_divide(x, d)
  r: i64[30] = aten::remainder.Tensor(x, d)
  a: u8[30] = aten::add.Tensor(y, p)
  b: i32[30] = aten::bitwise_not(z)
  w: i64[30] = aten::pow.Tensor_Scalar(x, 3)
  n: i64[30] = aten::neg(x)
  return f, r, a, b, w, n
})"},
    {"special_functions", R"(
graph(p: f32[50], q: f64[50]) {
  a: f32[50] = aten::special_zeta(p, p)
  b: f64[50] = aten::special_i1e(q)
  c: f64[50] = aten::digamma(q)
  d: f32[50] = aten::special_hermite_polynomial_h.n_scalar(p, 3)
  e: f64[50] = aten::lgamma(q)
  return a, b, c, d, e
})"},
    {"random_numbers",
     R"(
graph(a: f32[300]) {
  r: f32[300] = aten::rand_like(a)
  n: f32[300] = aten::randn_like(a)
  d: f32[300], k: bool[300] = aten::native_dropout(a, 0.5, True)
  return r, n, d, k
})",
     {{}, {}}},
    {"products_and_calls", R"(
graph(x: f32[8, 64], pw: f32[48, 64], b: f32[48], s: f32[9]) {
  y: f32[8, 48] = aten::linear(x, pw, b)
  z: f32[8, 48] = aten::gelu(y)
  v: f32[9], at: i64[9] = aten::sort(s)
  return z, v, at
})"},
    {"no_elements", R"(
graph(a: f32[0, 4], b: f32[3, 0]) {
  y: f32[0, 4] = aten::relu(a)
  s: f32[3] = aten::sum.dim_IntList(b, [1])
  c: f32[4] = aten::sum.dim_IntList(a, [0])
  return y, s, c
})"},
    {"products_of_both_layouts", R"(
graph(a: bf16[200, 72], b: bf16[72, 264], c: bf16[72, 200], d: bf16[264, 72]) {
  e: bf16[200, 264] = aten::mm(a, b)
  s: bf16[200, 72] = aten::t(c)
  t: bf16[72, 264] = aten::t(d)
  f: bf16[200, 264] = aten::mm(s, t)
  g: bf16[200, 264] = aten::mm(s, b)
  return e, f, g
})"},
    // Whose columns are permuted.
    {"linear_of_whole_eights", R"(
graph(x: bf16[208, 72], w: bf16[288, 72], v: bf16[96, 72], c: bf16[288], y: bf16[2, 2, 48, 72]) {
  a: bf16[208, 288] = aten::linear(x, w)
  b: bf16[208, 288] = aten::linear(x, w, c)
  g: bf16[208, 288] = aten::gelu(b)
  z: bf16[2, 2, 48, 96] = aten::linear(y, v)
  return a, g, z
})"},
    {"linear_with_an_epilogue",
     R"(
sym s0 in [1, 300]
graph(x: bf16[s0, 64], w: bf16[200, 64], b: bf16[200], r: bf16[s0, 200]) {
  y: bf16[s0, 200] = aten::linear(x, w, b)
  z: bf16[s0, 200] = aten::gelu(y)
  q: bf16[s0, 200] = aten::add.Tensor(z, r)
  return z, q
})",
     {{{"s0", 1}}, {{"s0", 130}}, {{"s0", 300}}}},
    {"a_matrix_by_itself", R"(
graph(x: f32[8, 8], h: bf16[16, 16]) {
  y: f32[8, 8] = aten::mm(x, x)
  z: bf16[16, 16] = aten::mm(h, h)
  r: bf16[16, 16] = aten::relu(z)
  return y, r
})"},
    {"linear_with_few_columns", R"(
graph(x: f16[2, 70, 64], w: f16[50, 64], b: f16[50]) {
  y: f16[2, 70, 50] = aten::linear(x, w, b)
  z: f16[2, 70, 50] = aten::relu(y)
  v: f16[2, 70, 50] = aten::linear(x, w)
  return z, v
})"},
    // One left side by two right ones: columns are permuted, or end within a tile, or their rows are contiguous.
    {"dual_products", R"(
graph(x: bf16[208, 72], w: bf16[288, 72], v: bf16[288, 72], c: bf16[288], a: bf16[72, 264], b: bf16[72, 264], h: f16[2, 35, 64],
      k: f16[200, 64], l: f16[200, 64], m: f16[200], r: f16[2, 35, 200]) {
  g: bf16[208, 288] = aten::linear(x, w)
  s: bf16[208, 288] = aten::silu(g)
  u: bf16[208, 288] = aten::linear(x, v, c)
  y: bf16[208, 288] = aten::mul.Tensor(s, u)
  i: bf16[208, 264] = aten::mm(x, a)
  j: bf16[208, 264] = aten::mm(x, b)
  n: bf16[208, 264] = aten::sub.Tensor(i, j)
  o: f16[2, 35, 200] = aten::linear(h, k, m)
  p: f16[2, 35, 200] = aten::gelu(o)
  q: f16[2, 35, 200] = aten::linear(h, l)
  t: f16[2, 35, 200] = aten::mul.Tensor(p, q)
  z: f16[2, 35, 200] = aten::add.Tensor(t, r)
  return y, n, t, z
})"},
    // Through a ring, behind a norm that blocks make; in registers, of whole tiles and of shares; columns end within a tile.
    {"dual_products_of_few_rows", R"(
graph(x: bf16[1, 576], w: bf16[269, 576], v: bf16[269, 576], h: f16[2, 192], k: f16[1040, 192], l: f16[1040, 192], c: f16[1040],
      e: bf16[11, 328], a: bf16[203, 328], b: bf16[203, 328], f: bf16[3, 64], m: bf16[2200, 64], d: bf16[2200, 64]) {
  n: bf16[1, 576] = aten::layer_norm(x, [576])
  g: bf16[1, 269] = aten::linear(n, w)
  s: bf16[1, 269] = aten::silu(g)
  u: bf16[1, 269] = aten::linear(n, v)
  y: bf16[1, 269] = aten::mul.Tensor(s, u)
  o: f16[2, 1040] = aten::linear(h, k)
  p: f16[2, 1040] = aten::linear(h, l, c)
  q: f16[2, 1040] = aten::sub.Tensor(o, p)
  i: bf16[11, 203] = aten::linear(e, a)
  j: bf16[11, 203] = aten::linear(e, b)
  z: bf16[11, 203] = aten::mul.Tensor(i, j)
  r: bf16[3, 2200] = aten::linear(f, m)
  t: bf16[3, 2200] = aten::linear(f, d)
  aa: bf16[3, 2200] = aten::sub.Tensor(r, t)
  return y, q, z, aa
})"},
    // Weights of eight bits, of which columns have scales.
    {"dual_products_of_bytes", R"(
graph(x: bf16[3, 80], w: i8[41, 80], v: i8[41, 80], s: bf16[41], t: bf16[41], h: f16[1, 64], k: i8[24, 64], l: i8[24, 64]) {
  a: bf16[41, 80] = aten::to.dtype(w, dtype.bf16)
  b: bf16[41, 80] = aten::to.dtype(v, dtype.bf16)
  g: bf16[3, 41] = aten::linear(x, a)
  i: bf16[3, 41] = aten::mul.Tensor(g, s)
  j: bf16[3, 41] = aten::silu(i)
  u: bf16[3, 41] = aten::linear(x, b)
  p: bf16[3, 41] = aten::mul.Tensor(u, t)
  y: bf16[3, 41] = aten::mul.Tensor(j, p)
  c: f16[24, 64] = aten::to.dtype(k, dtype.f16)
  d: f16[24, 64] = aten::to.dtype(l, dtype.f16)
  e: f16[1, 24] = aten::linear(h, c)
  f: f16[1, 24] = aten::linear(h, d)
  z: f16[1, 24] = aten::sub.Tensor(e, f)
  return y, z
})"},
    // Blocks share tiles; columns and depth end within chunks.
    {"products_of_few_rows", R"(
graph(x: bf16[3, 328], w: bf16[203, 328], b: bf16[203], u: bf16[328, 72], r: bf16[3, 72], h: f16[12, 1, 64], k: f16[12, 40, 64],
      t: bf16[40, 328]) {
  y: bf16[3, 203] = aten::linear(x, w, b)
  z: bf16[3, 203] = aten::silu(y)
  v: bf16[3, 72] = aten::mm(x, u)
  a: bf16[3, 72] = aten::add.Tensor(v, r)
  kt: f16[12, 64, 40] = aten::permute(k, [0, 2, 1])
  s: f16[12, 1, 40] = aten::bmm(h, kt)
  o: f16[12, 1, 64] = aten::bmm(s, k)
  l: bf16[40, 203] = aten::linear(t, w)
  n: bf16[40, 72] = aten::mm(t, u)
  return z, a, s, o, l, n
})"},
    // Tiles of sixteen columns and of eight, the last ones in part; depths of some stages and a part of one, and of less than one.
    {"products_through_a_ring", R"(
graph(x: bf16[2, 1600], w: bf16[267, 1600], b: bf16[267], h: f16[1, 192], v: f16[2200, 192]) {
  y: bf16[2, 267] = aten::linear(x, w, b)
  z: bf16[2, 267] = aten::silu(y)
  o: f16[1, 2200] = aten::linear(h, v)
  return z, o
})"},
    // The left side in registers: lines of several chunks, some of which not all warps have; parts of the depth; two right sides.
    {"products_with_a_stationary_left_side", R"(
graph(x: bf16[5, 1600], w: bf16[144, 1600], b: bf16[144], h: f16[12, 8320], v: f16[128, 8320], c: f16[12, 128], e: bf16[3, 192],
      u: bf16[1088, 192], t: bf16[1088, 192]) {
  y: bf16[5, 144] = aten::linear(x, w, b)
  z: bf16[5, 144] = aten::silu(y)
  o: f16[12, 128] = aten::linear(h, v)
  p: f16[12, 128] = aten::add.Tensor(o, c)
  g: bf16[3, 1088] = aten::linear(e, u)
  s: bf16[3, 1088] = aten::silu(g)
  l: bf16[3, 1088] = aten::linear(e, t)
  m: bf16[3, 1088] = aten::mul.Tensor(s, l)
  return z, p, m
})"},
    // The same of bytes that stay so in memory.
    {"stationary_beside_weights_of_eight_bits", R"(
graph(x: bf16[3, 4544], w: i8[128, 4544], h: f16[11, 128], v: i8[272, 128], s: bf16[128]) {
  a: bf16[128, 4544] = aten::to.dtype(w, dtype.bf16)
  y: bf16[3, 128] = aten::linear(x, a)
  z: bf16[3, 128] = aten::mul.Tensor(y, s)
  b: f16[272, 128] = aten::to.dtype(v, dtype.f16)
  o: f16[11, 272] = aten::linear(h, b)
  return z, o
})"},
    // A block makes the rows of its left side: a norm of two products, and a softmax.
    {"prologues_of_products", R"(
graph(x: bf16[1, 576], r: bf16[1, 576], w: bf16[270, 576], v: bf16[264, 576], u: f16[1, 64], k: f16[2176, 64]) {
  a: bf16[1, 576] = aten::add.Tensor(x, r)
  n: bf16[1, 576] = aten::layer_norm(a, [576])
  y: bf16[1, 270] = aten::linear(n, w)
  z: bf16[1, 264] = aten::linear(n, v)
  s: f16[1, 64] = aten::softmax.int(u, 1)
  t: f16[1, 2176] = aten::linear(s, k)
  f: f16[1, 2176] = aten::relu(t)
  return y, z, f
})"},
    // Bytes in pieces of 16, and a depth that ends within a chunk; four bits in groups of each kind.
    {"weights_of_eight_bits", R"(
graph(x: bf16[3, 80], w: i8[41, 80], h: f16[11, 128], v: i8[24, 128], s: bf16[41], t: bf16[20, 80], c: bf16[24, 1], e: f32[41, 1]) {
  a: bf16[41, 80] = aten::to.dtype(w, dtype.bf16)
  y: bf16[3, 41] = aten::linear(x, a)
  z: bf16[3, 41] = aten::mul.Tensor(y, s)
  b: f16[24, 128] = aten::to.dtype(v, dtype.f16)
  o: f16[11, 24] = aten::linear(h, b)
  l: bf16[20, 41] = aten::linear(t, a)
  d: bf16[24, 128] = aten::to.dtype(v, dtype.bf16)
  f: bf16[24, 128] = aten::mul.Tensor(d, c)
  g: bf16[11, 128] = aten::to.dtype(h, dtype.bf16)
  k: bf16[11, 24] = aten::linear(g, f)
  m: bf16[11, 24] = aten::relu(k)
  return z, o, l, m
})"},
    // Of up to 32 rows: blocks have more stages of a tile than are ahead.
    {"large_weights_in_tiles", R"(
graph(x: bf16[17, 135200], w: bf16[64, 135200]) {
  y: bf16[17, 64] = aten::linear(x, w)
  return y
})"},
    {"weights_of_eight_bits_in_tiles",
     R"(
sym s0 in [1, 32] hint 30
graph(t: bf16[s0, 208], v: i8[131, 208], c: bf16[131], x: bf16[18, 2080], w: i8[8, 2080]) {
  b: bf16[131, 208] = aten::to.dtype(v, dtype.bf16)
  d: bf16[s0, 131] = aten::linear(t, b, c)
  z: bf16[s0, 131] = aten::relu(d)
  a: bf16[8, 2080] = aten::to.dtype(w, dtype.bf16)
  y: bf16[18, 8] = aten::linear(x, a)
  return z, y
})",
     {{{"s0", 1}}, {{"s0", 17}}, {{"s0", 32}}}},
    // Bytes on tensor cores: with what follows, of many rows, with a right side that is transposed. Others as loops.
    {"products_of_integers", R"(
graph(x: i8[3, 80], w: i8[44, 80], h: i8[11, 272], v: i8[272, 24], t: i8[20, 80], g: i8[24, 80], s: f32[44], a: i8[3, 7], b: i8[7, 5],
      i: i64[2, 3, 4], j: i64[2, 4, 5], u: u8[3, 16], k: i32[4, 0], q: i32[0, 3]) {
  wt: i8[80, 44] = aten::t(w)
  p: i32[3, 44] = aten::_int_mm(x, wt)
  f: f32[3, 44] = aten::to.dtype(p, dtype.f32)
  y: f32[3, 44] = aten::mul.Tensor(f, s)
  o: i32[11, 24] = aten::_int_mm(h, v)
  gt: i8[80, 24] = aten::t(g)
  l: i32[20, 24] = aten::_int_mm(t, gt)
  z: i32[20, 44] = aten::_int_mm(t, wt)
  c: i32[3, 5] = aten::_int_mm(a, b)
  d: i64[2, 3, 5] = aten::bmm(i, j)
  r: i32[3, 16] = aten::to.dtype(u, dtype.i32)
  n: i32[16, 3] = aten::t(r)
  m: i32[3, 3] = aten::mm(r, n)
  e: i32[4, 3] = aten::mm(k, q)
  return y, o, l, z, c, d, m, e
})"},
    {"few_rows_of_any_number",
     R"(
sym s0 in [1, 90] hint 4
graph(x: bf16[s0, 64], w: bf16[48, 64]) {
  y: bf16[s0, 48] = aten::linear(x, w)
  z: bf16[s0, 48] = aten::relu(y)
  return z
})",
     {{{"s0", 1}}, {{"s0", 9}}, {{"s0", 90}}}},
    {"products_of_heads", R"(
graph(q: bf16[2, 40, 3, 32], k: bf16[2, 48, 3, 32], m: bf16[40, 48]) {
  a: bf16[2, 3, 40, 32] = aten::permute(q, [0, 2, 1, 3])
  b: bf16[2, 3, 32, 48] = aten::permute(k, [0, 2, 3, 1])
  s: bf16[2, 3, 40, 48] = aten::matmul(a, b)
  t: bf16[2, 3, 40, 48] = aten::add.Tensor(s, m)
  return t
})"},
    {"rows_that_begin_anywhere", R"(
graph(x: bf16[40, 64], w: bf16[77, 64], b: bf16[77], r: bf16[40, 77], e: f32[64, 77], v: bf16[77, 256], u: bf16[64, 256]) {
  y: bf16[40, 77] = aten::linear(x, w, b)
  a: bf16[40, 77] = aten::softmax.int(y, -1)
  n: bf16[40, 77] = aten::linear(x, w)
  c: bf16[40, 77] = aten::add.Tensor(n, r)
  t: bf16[64, 77] = aten::t(w)
  p: bf16[40, 77] = aten::mm(x, t)
  f: f32[64, 77] = aten::softmax.int(e, -1)
  d: bf16[64, 77] = aten::to.dtype(f, dtype.bf16)
  g: bf16[64, 256] = aten::mm(d, v)
  h: bf16[77, 64] = aten::t(d)
  i: bf16[77, 256] = aten::mm(h, u)
  return a, c, p, g, i
})"},
    {"products_with_one_right_side", R"(
graph(a: f16[5, 24, 16], b: f16[16, 8], c: f16[5, 40, 24]) {
  e: f16[5, 24, 8] = aten::matmul(a, b)
  f: f16[5, 40, 8] = aten::bmm(c, e)
  return f
})"},
    {"a_product_that_indices_follow", R"(
graph(a: bf16[16, 24], b: bf16[24, 32], t: bf16[7, 32], i: i64[16]) {
  e: bf16[16, 32] = aten::mm(a, b)
  r: bf16[16, 32] = aten::embedding(t, i)
  f: bf16[16, 32] = aten::add.Tensor(e, r)
  return f
})"},
};

class EmulatedCuda : public testing::TestWithParam<ProgramCase> {};

TEST_P(EmulatedCuda, ComputesAsTheEvaluator) { expect_as_evaluated(GetParam().text, GetParam().calls, 2, codegen::Target::EmulatedCuda); }

INSTANTIATE_TEST_SUITE_P(Programs, EmulatedCuda, testing::ValuesIn(kCudaPrograms), [](const auto& each) { return each.param.name; });

// Constant weights of four bits: a row of [rows, depth / 2] bytes has the even numbers in low halves; scales and zeros by groups of the
// depth.
std::string product_of_int4(std::string_view type, int x_rows, int rows, int depth, int group) {
  std::string bytes, scales;
  for (int i = 0; i < rows * depth / 2; ++i) bytes += fmt::format("{}{}", i == 0 ? "" : ", ", (i * 37 + i / 7) % 256);
  for (int i = 0; i < rows * depth / group; ++i) scales += fmt::format("{}{}", i == 0 ? "" : ", ", 0.01 * (i % 5 + 1));
  return fmt::format(R"(
buffer 0 "p": u8[{1}, {3}] = [{6}]
buffer 1 "s": f32[{1}, {4}, 1] = [{7}]
graph(x: {0}[{2}, {8}]) {{
  p: u8[{1}, {3}] = constant(0)
  s: f32[{1}, {4}, 1] = constant(1)
  a: u8[{1}, {3}] = aten::bitwise_and.Scalar(p, 15)
  b: u8[{1}, {3}] = aten::bitwise_right_shift.Tensor_Scalar(p, 4)
  c: u8[{1}, {3}, 2] = aten::stack([a, b], -1)
  f: f32[{1}, {3}, 2] = aten::to.dtype(c, dtype.f32)
  g: f32[{1}, {4}, {5}] = aten::reshape(f, [{1}, {4}, {5}])
  h: f32[{1}, {4}, {5}] = aten::sub.Scalar(g, 7.5)
  i: f32[{1}, {4}, {5}] = aten::mul.Tensor(h, s)
  j: f32[{1}, {8}] = aten::reshape(i, [{1}, {8}])
  w: {0}[{1}, {8}] = aten::to.dtype(j, dtype.{0})
  y: {0}[{2}, {1}] = aten::linear(x, w)
  z: {0}[{2}, {1}] = aten::relu(y)
  return z
}})",
                     type, rows, x_rows, depth / 2, depth / group, group, bytes, scales, depth);
}
TEST(EmulatedCuda, MultipliesByWeightsOfFourBits) {
  expect_as_evaluated(product_of_int4("bf16", 3, 43, 256, 128), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("f16", 11, 24, 192, 64), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("bf16", 1, 16, 96, 32), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("bf16", 40, 16, 64, 32), {{}}, 2, codegen::Target::EmulatedCuda);  // of many rows: widened
  // Copied into shared memory: blocks have one tile, the last of fewer columns; or two; or blocks share tiles.
  expect_as_evaluated(product_of_int4("bf16", 3, 12730, 128, 128), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("f16", 7, 17024, 128, 128), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("bf16", 3, 72, 1024, 128), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("bf16", 11, 200, 1280, 256), {{}}, 2, codegen::Target::EmulatedCuda);
  // The left side in registers: a line of a chunk of some warps; groups that are longer than chunks.
  expect_as_evaluated(product_of_int4("bf16", 3, 2128, 128, 128), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("f16", 11, 2128, 256, 256), {{}}, 2, codegen::Target::EmulatedCuda);
  // Packed, as those of columns in sixteens and groups of 128 are: by registers; parts of the depth, of which some warps have fewer chunks.
  expect_as_evaluated(product_of_int4("bf16", 3, 64, 1024, 128), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("f16", 2, 16, 128, 128), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("f16", 12, 128, 3712, 128), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("bf16", 5, 272, 2176, 128), {{}}, 2, codegen::Target::EmulatedCuda);
}

// Of 17 to 32 rows: packed or not, groups of each kind; columns and the depth end within tiles and stages, and blocks share tiles.
TEST(EmulatedCuda, MultipliesUpTo32RowsByWeightsOfFourBits) {
  expect_as_evaluated(product_of_int4("bf16", 17, 144, 640, 128), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("f16", 32, 16, 128, 128), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("bf16", 31, 42, 512, 256), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("f16", 24, 24, 192, 64), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("bf16", 25, 16, 96, 32), {{}}, 2, codegen::Target::EmulatedCuda);
  expect_as_evaluated(product_of_int4("bf16", 20, 43, 256, 128), {{}}, 2, codegen::Target::EmulatedCuda);  // an odd number: by registers
}

// Constant weights of 8-bit floats, of all values but the largest, with a scale before or after the product.
std::string product_of_float8(std::string_view type, std::string_view float8, int x_rows, int rows, int depth, bool scale_first) {
  std::string bytes, scales;
  for (int i = 0; i < rows * depth; ++i) {
    const int byte = i * 37 % 256, magnitude = byte & 0x7f;
    const bool is_number = magnitude < (float8 == "f8e5m2" ? 0x4c : 0x7f);
    bytes += fmt::format("{}{}", i == 0 ? "" : ", ", is_number ? byte : byte & 0x8f);
  }
  for (int i = 0; i < rows; ++i) scales += fmt::format("{}{}", i == 0 ? "" : ", ", 0.01 * (i % 5 + 1));
  const std::string_view scaled = R"(
  f: {0}[{1}, {2}] = aten::mul.Tensor(w, s)
  y: {0}[{3}, {1}] = aten::linear(x, f))";
  const std::string_view after = R"(
  p: {0}[{3}, {1}] = aten::linear(x, w)
  t: {0}[{1}] = aten::reshape(s, [{1}])
  y: {0}[{3}, {1}] = aten::mul.Tensor(p, t))";
  return fmt::format(R"(
buffer 0 "b": u8[{1}, {2}] = [{5}]
buffer 1 "s": {0}[{1}, 1] = [{6}]
graph(x: {0}[{3}, {2}]) {{
  b: u8[{1}, {2}] = constant(0)
  s: {0}[{1}, 1] = constant(1)
  v: {4}[{1}, {2}] = aten::view.dtype(b, dtype.{4})
  w: {0}[{1}, {2}] = aten::to.dtype(v, dtype.{0}))",
                     type, rows, depth, x_rows, float8, bytes, scales) +
         fmt::format(fmt::runtime(scale_first ? scaled : after), type, rows, depth, x_rows) + "\n  return y\n}";
}
TEST(EmulatedCuda, MultipliesByWeightsOf8BitFloats) {
  for (const std::string_view float8 : {"f8e4m3fn", "f8e5m2"}) {
    for (const bool scale_first : {false, true}) {
      expect_as_evaluated(product_of_float8("bf16", float8, 3, 43, 208, scale_first), {{}}, 2, codegen::Target::EmulatedCuda);
      expect_as_evaluated(product_of_float8("f16", float8, 11, 24, 64, scale_first), {{}}, 2, codegen::Target::EmulatedCuda);
    }
    expect_as_evaluated(product_of_float8("bf16", float8, 20, 24, 208, true), {{}}, 2, codegen::Target::EmulatedCuda);
    expect_as_evaluated(product_of_float8("f16", float8, 32, 136, 64, false), {{}}, 2, codegen::Target::EmulatedCuda);
    expect_as_evaluated(product_of_float8("bf16", float8, 40, 16, 64, true), {{}}, 2,
                        codegen::Target::EmulatedCuda);  // of many rows: widened
    expect_as_evaluated(product_of_float8("bf16", float8, 5, 16, 64, true), {{}}, 2, codegen::Target::Cpu);
  }
}
// Both factors are 8-bit floats, with scales of rows and columns or one for all: a GPU's tensor cores multiply them as halves.
TEST(EmulatedCuda, MultipliesScaled8BitFloats) {
  const std::pair<const char*, const char*> kSides[] = {
      {"f8e4m3fn", "f8e4m3fn"}, {"f8e5m2", "f8e5m2"}, {"f8e4m3fn", "f8e5m2"}, {"f8e5m2", "f8e4m3fn"}};
  for (const auto& [left, right] : kSides) {
    for (const int rows : {5, 70}) {
      const std::string text = fmt::format(R"(
graph(x: bf16[{0}, 64], w: bf16[136, 64], px: f32[{0}, 1], pw: f32[1, 136], ps: f32[1], b: bf16[136]) {{
  a: {1}[{0}, 64] = aten::to.dtype(x, dtype.{1})
  c: {2}[136, 64] = aten::to.dtype(w, dtype.{2})
  t: {2}[64, 136] = aten::t(c)
  y: bf16[{0}, 136] = aten::_scaled_mm(a, t, px, pw, b, none, dtype.bf16)
  z: bf16[{0}, 136] = aten::_scaled_mm(a, t, ps, ps, none, none, dtype.bf16)
  g: bf16[{0}, 136] = aten::gelu(z)
  return y, g
}})",
                                           rows, left, right);
      expect_as_evaluated(text, {{}}, 2, codegen::Target::EmulatedCuda);
      expect_as_evaluated(text);
    }
  }
}
TEST(EmulatedCuda, KeepsInfinitiesAndNaNOf8BitFloats) {
  const auto results = [](std::string_view float8, int byte) {
    std::string bytes = fmt::format("{}", byte);
    for (int i = 1; i < 32; ++i) bytes += ", 0";
    const CompiledModel model = compiled(fmt::format(R"(
buffer 0 "b": u8[2, 16] = [{}]
graph(x: bf16[1, 16]) {{
  b: u8[2, 16] = constant(0)
  v: {}[2, 16] = aten::view.dtype(b, dtype.{})
  w: bf16[2, 16] = aten::to.dtype(v, dtype.bf16)
  y: bf16[1, 2] = aten::linear(x, w)
  return y
}})",
                                                     bytes, float8, float8),
                                         codegen::Target::EmulatedCuda);
    const std::vector<double> ones(16, 1);
    return model.load().run(std::vector{HostTensor::from_doubles(DType::BF16, {1, 16}, ones)})[0].to_doubles();
  };
  EXPECT_TRUE(std::isnan(results("f8e4m3fn", 0x7f)[0]));
  EXPECT_TRUE(std::isnan(results("f8e4m3fn", 0xff)[0]));
  EXPECT_TRUE(std::isnan(results("f8e5m2", 0xfd)[0]));
  EXPECT_EQ(results("f8e5m2", 0xfc)[0], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(results("f8e4m3fn", 0xfe)[0], -448);
  EXPECT_EQ(results("f8e4m3fn", 0x81)[0], -0x1p-9);
  EXPECT_EQ(results("f8e5m2", 0x01), (std::vector<double>{0x1p-16, 0}));
}

// In few operations where results have 16 bits: within a unit in the last place, or next to nothing, of all of them.
// Of all numbers of 16 bits. relative: the dtype's rounding, and what the polynomial may err by.
void expect_gelu_of_all(DType dtype, double (*value_of)(uint16_t bits), double relative) {
  constexpr size_t kAll = 1 << 16;
  const std::string text = fmt::format("graph(x: {0}[65536]) {{\n  y: {0}[65536] = aten::gelu(x)\n  return y\n}}", to_string(dtype));
  Executable program = compiled(text, codegen::Target::EmulatedCuda).load();
  std::vector<double> values(kAll);
  for (size_t bits = 0; bits < kAll; ++bits) values[bits] = value_of(static_cast<uint16_t>(bits));
  const std::vector<double> made = program.run(std::vector{HostTensor::from_doubles(dtype, {kAll}, values)})[0].to_doubles();
  for (size_t bits = 0; bits < kAll; ++bits) {
    const double x = values[bits], expected = x / 2 * std::erfc(-x / std::sqrt(2.0));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(made[bits])) << x;
    } else if (std::isinf(expected)) {
      EXPECT_EQ(made[bits], expected) << x;
    } else {
      EXPECT_NEAR(made[bits], expected, std::abs(expected) * relative + 1e-5) << x;
    }
  }
}
TEST(EmulatedCuda, ComputesGeluOfAllBfloats) {
  const auto value_of = [](uint16_t bits) { return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16)); };
  expect_gelu_of_all(DType::BF16, value_of, 0x1p-8);
}
TEST(EmulatedCuda, ComputesGeluOfAllHalves) {
  const auto value_of = [](uint16_t bits) { return static_cast<double>(static_cast<float>(std::bit_cast<Float16>(bits))); };
  expect_gelu_of_all(DType::F16, value_of, 0x1p-11 + 1e-4);
}

TEST(EmulatedCudaErrors, AnIndexOutOfBoundsIsNamedWithItsSize) {
  Executable executable = compiled("graph(a: f32[4, 2], i: i64[3]) {\n  y: f32[3, 2] = aten::index_select(a, 0, i)\n  return y\n}",
                                   codegen::Target::EmulatedCuda)
                              .load();
  const std::vector<HostTensor> inputs = {HostTensor(DType::F32, {4, 2}),
                                          HostTensor::from_ints(DType::I64, {3}, std::vector<int64_t>{0, 7, 1})};
  const Error error = error_of([&] { executable.run(inputs); });
  EXPECT_EQ(error.message(), "an index read from a tensor is out of bounds: 7, where 0 to 3 are allowed");
  EXPECT_EQ(executable.run(std::vector{inputs[0], HostTensor::from_ints(DType::I64, {3}, std::vector<int64_t>{3, 0, 1})})[0].sizes(),
            (std::vector<int64_t>{3, 2}));
}

// The rows that a product's blocks make are of a table: each of them finds the index wrong.
TEST(EmulatedCudaErrors, APrologueNamesAnIndexOutOfBounds) {
  Executable executable = compiled(R"(
graph(t: bf16[5, 64], i: i64[1], w: bf16[320, 64]) {
  e: bf16[1, 64] = aten::embedding(t, i)
  n: bf16[1, 64] = aten::layer_norm(e, [64])
  y: bf16[1, 320] = aten::linear(n, w)
  return y
})",
                                   codegen::Target::EmulatedCuda)
                              .load();
  const auto inputs = [](int64_t index) {
    return std::vector{HostTensor(DType::BF16, {5, 64}), HostTensor::from_ints(DType::I64, {1}, std::vector<int64_t>{index}),
                       HostTensor(DType::BF16, {320, 64})};
  };
  const Error error = error_of([&] { executable.run(inputs(5)); });
  EXPECT_EQ(error.message(), "an index read from a tensor is out of bounds: 5, where 0 to 4 are allowed");
  EXPECT_EQ(executable.run(inputs(4))[0].sizes(), (std::vector<int64_t>{1, 320}));
}

TEST(EmulatedCudaErrors, AnIntegerDividedByZeroIsNamed) {
  Executable executable =
      compiled("graph(x: i64[3], y: i64[3]) {\n  z: i64[3] = aten::floor_divide(x, y)\n  return z\n}", codegen::Target::EmulatedCuda)
          .load();
  const std::vector<HostTensor> inputs = {HostTensor::from_ints(DType::I64, {3}, std::vector<int64_t>{1, 2, 3}),
                                          HostTensor::from_ints(DType::I64, {3}, std::vector<int64_t>{1, 0, 3})};
  EXPECT_EQ(error_of([&] { executable.run(inputs); }).message(), "an integer is divided by zero");
}

TEST(CudaTarget, ChecksOfEachAccessAreRefused) {
  const Error error = error_of([] {
    TestSession::get().compile(parse_text("graph(x: f32[3]) {\n  return x\n}"),
                               {.target = codegen::Target::EmulatedCuda, .assertions = true});
  });
  EXPECT_EQ(error.message(), "there are no checks of each access for programs on a GPU yet");
}

}  // namespace
}  // namespace toroid
