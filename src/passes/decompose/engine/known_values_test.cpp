// What decompositions compute, against what PyTorch computed for the same small inputs: one row a case, chosen for the
// corners of each family. The wide net is PyTorch's own OpInfo samples, which `toroid conform` runs.
//
// Element i of the k-th input is ((7i + 3k) mod 13 - 6) / 4 for floats, (5i + k) mod 3 for integers, and whether
// (i + k) mod 3 is not 0 for Bool.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "graph/text/text.h"
#include "graph/verify.h"
#include "interp/evaluate.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

struct Case {
  const char* name;
  const char* inputs;
  const char* node;              // its first result is out
  std::vector<double> expected;  // of out, row by row
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }  // NOLINT: gtest's name

const Case kKnownValues[] = {
    // products
    {"linear folds leading dims",
     "x: f32[1, 2, 3], w: f32[4, 3], b: f32[4]",
     "out: f32[1, 2, 4] = aten::linear(x, w, b)",
     {2, -5.3125, -0.4375, 2, -1.75, 0.5, 1.9375, -3.125}},
    {"matmul broadcasts batches",
     "x: f32[2, 1, 1, 2], y: f32[2, 2, 1]",
     "out: f32[2, 2, 1, 1] = aten::matmul(x, y)",
     {1.375, 1.0625, 1.4375, 1.25}},
    {"matmul of a vector and a stack", "x: f32[2], y: f32[2, 2, 2]", "out: f32[2, 2] = aten::matmul(x, y)", {1, -1.1875, 0.375, -2.625}},
    {"addmm blends",
     "c: f32[2], x: f32[2, 3], y: f32[3, 2]",
     "out: f32[2, 2] = aten::addmm(c, x, y, beta=0.5, alpha=2)",
     {-0.75, 0.875, 0.625, -6}},
    {"integer factors truncate", "c: i64[2], x: i64[2, 3], v: i64[3]", "out: i64[2] = aten::addmv(c, x, v, beta=0.5, alpha=2.5)", {4, 4}},
    {"kron of different ranks",
     "x: f32[2], y: f32[2, 2]",
     "out: f32[2, 4] = aten::kron(x, y)",
     {1.125, -1.5, -0.1875, 0.25, 0.75, -1.875, -0.125, 0.3125}},
    {"cross along the first dim",
     "x: f32[3, 2], y: f32[3, 2]",
     "out: f32[3, 2] = aten::linalg_cross(x, y, dim=0)",
     {-0.1875, -0.1875, 0.375, 0.375, -0.1875, -0.1875}},
    {"matrix_power", "x: f32[2, 2]", "out: f32[2, 2] = aten::matrix_power(x, 3)", {-2.59375, 0.359375, -1.796875, 0.28125}},
    // contractions
    {"einsum takes a diagonal and sums it", "x: f32[3, 3]", "out: f32[] = aten::einsum(\"ii->\", [x])", {-3}},
    {"einsum sums integers as PyTorch does", "x: u8[2, 3]", "out: i64[2] = aten::einsum(\"ij->i\", [x])", {3, 3}},
    {"differences of unsigned integers wrap before their norm is taken",
     "x: u8[3], y: u8[3]",
     "out: f32[] = aten::pairwise_distance(x, y)",
     {360.63}},
    {"einsum with dots and a batch label",
     "x: f32[2, 1, 2], y: f32[2, 2, 2]",
     "out: f32[1, 2, 2] = aten::einsum(\"b...i,bij->...bj\", [x, y])",
     {1, -1.1875, 0.3125, -2.625}},
    {"einsum of three by a path",
     "x: f32[2, 2], y: f32[2, 2], z: f32[2, 2]",
     "out: f32[2, 2] = aten::einsum(\"ij,jk,kl->il\", [x, y, z], path=[1, 2, 0, 1])",
     {-0.296875, -0.015625, -0.15625, -0.25}},
    {"tensordot over two dims",
     "x: f32[2, 3, 2], y: f32[3, 2, 2]",
     "out: f32[2, 2] = aten::tensordot(x, y, [1, 0], [0, 1])",
     {1.4375, -2.0625, 0.125, -2.0625}},
    {"bilinear",
     "x: f32[2, 2], y: f32[2, 3], w: f32[2, 2, 3], b: f32[2]",
     "out: f32[2, 2] = aten::bilinear(x, y, w, b)",
     {3.671875, 2.40625, -1.78125, -4.6875}},
    // in place
    {"fill_diagonal_ of a tall matrix",
     "x: f32[4, 2]",
     "out: f32[4, 2] = aten::fill_diagonal_(x, 5)",
     {5, 0.25, -1.25, 5, -1, 0.75, -0.75, 1}},
    {"fill_diagonal_ that wraps",
     "x: f32[5, 2]",
     "out: f32[5, 2] = aten::fill_diagonal_(x, 5, true)",
     {5, 0.25, -1.25, 5, -1, 0.75, 5, 1, -0.5, 5}},
    {"fill_diagonal_ of three dims",
     "x: f32[2, 2, 2]",
     "out: f32[2, 2, 2] = aten::fill_diagonal_(x, 5)",
     {5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 5}},
    {"bytes of a view that converts nothing, more than a byte can count",
     "x: i8[3, 80]",
     "same: i8[3, 80] = aten::type_as(x, x)\n  diagonal: i8[3] = aten::diagonal(same)\n"
     "  filled: i8[3] = aten::fill_.Scalar(diagonal, 4)\n  out: i64[3] = aten::sum.dim_IntList(x, [1])",
     {84, 83, 85}},
    {"ldexp_ by integers", "x: f32[3], n: i64[3]", "out: f32[3] = aten::ldexp_(x, n)", {-3, 0.25, -5}},
    {"full.out takes the dtype of out", "x: f64[2]", "out: f64[2] = aten::full.out([2], 0.1, out=x)", {0.1, 0.1}},
    // convolutions
    {"conv1d without a batch", "x: f32[2, 5], w: f32[1, 2, 2]", "out: f32[1, 2] = aten::conv1d(x, w, none, [2])", {0.0625, 0.3125}},
    {"same padding of an even kernel",
     "x: f32[1, 1, 4], w: f32[1, 1, 2]",
     "out: f32[1, 1, 4] = aten::conv1d.padding(x, w, none, [1], \"same\")",
     {1.375, -1.4375, 1.4375, -0.375}},
    {"transposed convolution",
     "x: f32[1, 1, 2, 2], w: f32[1, 1, 2, 2], b: f32[1]",
     "out: f32[1, 1, 3, 3] = aten::conv_transpose2d.input(x, w, b, [2, 2], [1, 1], [1, 1])",
     {-1.875, -0.125, 0.3125, -1.25, -0.375, 0.5, -1.5625, -0.25, 0.625}},
    {"col2im sums what overlaps",
     "x: f32[1, 4, 4]",
     "out: f32[1, 1, 3, 3] = aten::col2im(x, [3, 3], [2, 2], [1, 1], [0, 0], [1, 1])",
     {-1.5, -0.75, 0.75, -1.75, 1, -0.5, -0.25, 1.75, -1.25}},
    // pools
    {"a last partial window with ceil_mode",
     "x: f32[1, 1, 5]",
     "out: f32[1, 1, 3] = aten::avg_pool1d(x, [2], [2], [0], true)",
     {-0.625, -0.375, -1}},
    {"padding that does not count",
     "x: f32[1, 1, 3, 3]",
     "out: f32[1, 1, 2, 2] = aten::avg_pool2d(x, [2, 2], [2, 2], [1, 1], false, false)",
     {-1.5, -0.5, -0.125, 0.0625}},
    {"max pool with dilation",
     "x: f32[1, 1, 6]",
     "out: f32[1, 1, 6] = aten::max_pool1d(x, [2], [1], [1], [2])",
     {0.25, -1.25, 0.5, -1, 0.75, -1}},
    {"adaptive average of uneven windows",
     "x: f32[1, 1, 5]",
     "out: f32[1, 1, 3] = aten::adaptive_avg_pool1d(x, [3])",
     {-0.625, -0.1666667, -0.25}},
    {"global average", "x: f32[1, 2, 2, 3]", "out: f32[1, 2, 1, 1] = aten::adaptive_avg_pool2d(x, [1, 1])", {-0.375, 0.375}},
    // resampling
    {"nearest that is not a whole factor",
     "x: f32[1, 1, 3]",
     "out: f32[1, 1, 5] = aten::upsample_nearest1d(x, [5])",
     {-1.5, -1.5, 0.25, 0.25, -1.25}},
    {"bilinear by a factor",
     "x: f32[1, 1, 2, 2]",
     "out: f32[1, 1, 3, 3] = aten::upsample_bilinear2d.vec(x, none, false, [1.5, 1.5])",
     {-1.5, -0.625, 0.25, -1.375, -0.5, 0.375, -1.25, -0.375, 0.5}},
    {"cubic with aligned corners",
     "x: f32[1, 1, 2, 3]",
     "out: f32[1, 1, 2, 4] = aten::upsample_bicubic2d(x, [2, 4], true)",
     {-1.5, -0.1342595, -0.02777748, -1.25, 0.5, -0.7222221, -0.6157408, 0.75}},
    {"no dims to resample", "x: f32[1, 3]", "out: f32[1, 3] = aten::upsample_bilinear2d.vec(x, none, none, none)", {-1.5, 0.25, -1.25}},
    {"no dims to filter", "x: f32[1, 3]", "out: f32[1, 3] = aten::_upsample_bicubic2d_aa.vec(x, none, none, none)", {-1.5, 0.25, -1.25}},
    {"shrinking with antialiasing",
     "x: f32[1, 1, 2, 6]",
     "out: f32[1, 1, 2, 3] = aten::_upsample_bilinear2d_aa(x, [2, 3], false)",
     {-0.7142857, -0.375, -0.03571429, 0.03571429, 0.375, 0.7142857}},
    {"a grid beyond the border",
     "x: f32[1, 1, 2, 2], g: f32[1, 1, 4, 2]",
     "out: f32[1, 1, 1, 4] = aten::grid_sampler_2d(x, g, 0, 2, false)",
     {-1.25, -1.25, -0.8125, -0.625}},
    // normalizations
    {"layer norm over two dims",
     "x: f32[2, 2, 2], w: f32[2, 2]",
     "out: f32[2, 2, 2] = aten::layer_norm(x, [2, 2], w)",
     {0.8485227, 0.8485227, 0.4242614, 1.414205, 0.8485227, 0.8485227, 0.4242614, 1.414205}},
    {"batch norm with given statistics",
     "x: f32[1, 2, 2], w: f32[2], m: f32[2], v: f32[2]",
     "out: f32[1, 2, 2] = aten::batch_norm(x, w, none, m, v, false, 0.1, 3.0, false)",
     {0.5809475, -0.09682459, 0.1666666, 1.333333}},
    {"group norm in bfloat16",
     "x: bf16[1, 4, 2]",
     "out: bf16[1, 4, 2] = aten::group_norm(x, 2)",
     {-1.132812, 0.8476562, -0.8476562, 1.132812, -1.132812, 0.8476562, -0.8476562, 1.132812}},
    {"rms norm",
     "x: f32[2, 3]",
     "out: f32[2, 3] = aten::rms_norm(x, [3], none, 0.5)",
     {-1.120631, 0.1867719, -0.9338593, 0.4758309, -0.9516618, 0.7137464}},
    // attention
    {"causal with more keys than queries",
     "q: f32[1, 2, 2], k: f32[1, 3, 2], v: f32[1, 3, 2]",
     "out: f32[1, 2, 2] = aten::scaled_dot_product_attention(q, k, v, none, 0.0, true)",
     {0, -1.5, 0.1167257, -1.383274}},
    {"grouped keys and values",
     "q: f32[1, 2, 1, 2], k: f32[1, 1, 2, 2], v: f32[1, 1, 2, 2]",
     "out: f32[1, 2, 1, 2] = aten::scaled_dot_product_attention(q, k, v, enable_gqa=true)",
     {0.1112452, -1.388755, 0.1167257, -1.383274}},
    {"a row that may see nothing is zero",
     "q: f32[1, 1, 2, 2], m: bool[2, 1]",
     "out: f32[1, 1, 2, 2] = aten::scaled_dot_product_attention(q, q, q, m)",
     {-1.388755, 0.3612452, -1.383274, 0.3667257}},
    // indexing
    {"index tensors that are not neighbours come first",
     "x: f32[3, 2, 3], i: i64[2], j: i64[2]",
     "out: f32[2, 2] = aten::index.Tensor(x, [i, none, j])",
     {-0.5, 1.5, 0.25, -1}},
    {"gather reads along a dim", "x: f32[3, 2], i: i64[2, 2]", "out: f32[2, 2] = aten::gather(x, 0, i)", {-1.25, 0.25, -1, 0.5}},
    {"cross entropy of the only class is -0",
     "x: f32[2, 1]",
     "t: f32[2, 1] = aten::ones_like(x)\n  l: f32[] = aten::cross_entropy_loss(x, t)\n  out: bool[] = aten::signbit(l)",
     {1}},
    {"cross entropy of the only class, for each target",
     "x: f32[2, 1]",
     "t: i64[2] = aten::argmax(x, 1)\n  l: f32[2] = aten::cross_entropy_loss(x, t, none, 0)\n  out: bool[2] = aten::signbit(l)",
     {1, 1}},
    {"cross entropy of no class", "x: f32[2, 0]", "l: f32[] = aten::cross_entropy_loss(x, x)\n  out: bool[] = aten::isnan(l)", {1}},
    {"searchsorted on the right, in what is not sorted",
     "x: i64[4], v: i64[3]",
     "out: i64[3] = aten::searchsorted.Tensor(x, v, right=true)",
     {4, 1, 4}},
    {"isin", "x: i64[3], v: i64[2]", "out: bool[3] = aten::isin.Tensor_Tensor(x, v)", {1, 0, 1}},
    // views that schemas do not declare
    {"meshgrid shows its vectors",
     "x: f32[2], y: f32[2]",
     "g: f32[2, 2], h: f32[2, 2] = aten::meshgrid([x, y])\n  w: f32[2] = aten::mul_.Scalar(x, 2)\n  out: f32[2, 2] = aten::clone(g)",
     {-3, -3, 0.5, 0.5}},
    {"broadcast_tensors shows its tensors",
     "x: f32[2], y: f32[2]",
     "p: f32[2], q: f32[2] = aten::broadcast_tensors([x, y])\n  w: f32[2] = aten::mul_.Scalar(p, 2)\n  out: f32[2] = aten::add.Tensor(x, "
     "q)",
     {-3.75, 1.5}},
    {"atleast_2d shows its vector",
     "x: f32[2]",
     "v: f32[1, 2] = aten::atleast_2d(x)\n  w: f32[1, 2] = aten::mul_.Scalar(v, 2)\n  out: f32[2] = aten::clone(x)",
     {-3, 0.5}},
    {"einsum that sums nothing shows its operand",
     "x: f32[2, 2]",
     "v: f32[2, 2] = aten::einsum(\"ij->ji\", [x])\n  r: f32[2] = aten::select.int(v, 0, 0)\n  w: f32[2] = aten::zero_(r)\n"
     "  out: f32[2, 2] = aten::clone(x)",
     {0, 0.25, 0, 0.5}},
    // scattering
    {"scatter_reduce leaves the old values out",
     "x: f32[3, 2], i: i64[3, 2], s: f32[3, 2]",
     "out: f32[3, 2] = aten::scatter_reduce.two(x, 0, i, s, \"mean\", include_self=false)",
     {0.5, -1.5, 0, -1.25, 0.25, -1}},
    {"index_put accumulates what meets", "x: f32[3], i: i64[4], v: f32[4]", "out: f32[3] = aten::index_put(x, [i], v, true)", {-3, -1, -1}},
    {"index_put through a mask", "x: f32[4], m: bool[4], v: f32[]", "out: f32[4] = aten::index_put(x, [m], v)", {0, 0, -1.25, 0}},
    {"masked_scatter takes values in order",
     "x: f32[4], m: bool[4], v: f32[4]",
     "out: f32[4] = aten::masked_scatter(x, m, v)",
     {0, -1.5, -1.25, 0.25}},
    {"nonzero_static fills up", "x: i64[2, 2]", "out: i64[4, 2] = aten::nonzero_static(x, size=4)", {0, 1, 1, 0, -1, -1, -1, -1}},
    // embeddings
    {"one_hot", "x: i64[3]", "out: i64[3, 3] = aten::one_hot(x, 3)", {1, 0, 0, 0, 0, 1, 0, 1, 0}},
    // losses
    {"cross entropy with weights, smoothing and an ignored class",
     "x: f32[3, 3], t: i64[3], w: f32[3]",
     "out: f32[] = aten::cross_entropy_loss(x, t, w, 1, 2, 0.1)",
     {0.3787051}},
    {"nll_loss over an image", "x: f32[1, 3, 2], t: i64[1, 2]", "out: f32[1, 2] = aten::nll_loss_nd(x, t, none, 0)", {1.25, -0.25}},
    {"huber", "x: f32[4], t: f32[4]", "out: f32[] = aten::huber_loss(x, t, 2, 0.5)", {1}},
    {"binary cross entropy with logits",
     "x: f32[3], t: f32[3], p: f32[3]",
     "out: f32[] = aten::binary_cross_entropy_with_logits(x, t, none, p)",
     {-0.1070945}},
    // Floats of two kinds give the target's, the input's, the wider.
    {"binary cross entropy with logits in the target's dtype",
     "x: f64[3], t: f32[3], p: f32[3]",
     "out: f32[] = aten::binary_cross_entropy_with_logits(x, t, none, p)",
     {-0.1070945}},
    {"hinge embedding in the input's dtype", "x: f32[3], t: f64[3]", "out: f32[] = aten::hinge_embedding_loss(x, t, 1.0, 1)", {0.75}},
    {"cross entropy with probabilities of another dtype",
     "x: f32[2, 3], t: f64[2, 3]",
     "out: f64[] = aten::cross_entropy_loss(x, t)",
     {-0.2990963}},
    {"multilabel margin", "x: f32[2, 3], t: i64[2, 3]", "out: f32[2] = aten::multilabel_margin_loss(x, t, 0)", {0, 0}},
    {"pdist of the third order", "x: f32[3, 2]", "out: f32[3] = aten::pdist(x, 3.0)", {0.3149803, 0.6299605, 0.3149803}},
    // recurrent
    {"gru_cell", "x: f32[1, 2], h: f32[1, 1], wi: f32[3, 2], wh: f32[3, 1]", "out: f32[1, 1] = aten::gru_cell(x, h, wi, wh)", {-0.7962128}},
    {"rnn in both directions",
     "x: f32[2, 1, 2], h: f32[2, 1, 1], a: f32[1, 2], b: f32[1, 1], c: f32[1, 2], d: f32[1, 1]",
     "out: f32[2, 1, 2], out1: f32[2, 1, 1] = "
     "aten::rnn_tanh.input(x, h, [a, b, c, d], false, 1, 0.0, false, true, false)",
     {-0.7340715, -0.8500534, -0.8618656, -0.9936546}},
    // linear algebra
    {"inverse", "x: f32[2, 2]", "out: f32[2, 2] = aten::linalg_inv(x)", {-1.142857, 0.5714285, -2.857143, 3.428571}},
    {"solve for a vector", "x: f32[2, 2], b: f32[2]", "out: f32[2] = aten::linalg_solve(x, b)", {1.428571, 5.571428}},
    {"pseudo-inverse of a wide matrix",
     "x: f32[2, 3]",
     "out: f32[3, 2] = aten::pinverse(x)",
     {-0.5352448, -0.2962963, -0.4540024, -1.037037, -0.2485065, 0.1481482}},
    {"nuclear norm", "x: f32[2, 2]", "out: f32[] = aten::linalg_matrix_norm.str_ord(x, \"nuc\")", {2.236068}},
    // gradients
    {"layer norm",
     "g: f32[2, 2], x: f32[2, 2], m: f32[2, 1], r: f32[2, 1], w: f32[2], b: f32[2]",
     "out: f32[2, 2], out1: f32[2], out2: f32[2] = "
     "aten::native_layer_norm_backward(g, x, [2], m, r, w, b, [true, true, true])",
     {-0.5767822, 0.487793, 0.3076172, -1.790771}},
    {"gelu", "g: f32[3], x: f32[3]", "out: f32[3] = aten::gelu_backward(g, x)", {-0.001161307, 0.2708288, -0.1656311}},
    {"embedding",
     "g: f32[3, 2], i: i64[3]",
     "out: f32[3, 2] = aten::embedding_dense_backward(g, i, 3, -1, false)",
     {-1.25, 0.5, -1.5, 0.25, -1, 0.75}},
};

HostTensor sample(const TensorType& type, int64_t k) {
  std::vector<int64_t> sizes;
  for (sym::Expr size : type.sizes) sizes.push_back(size.value());
  std::vector<double> reals;
  std::vector<int64_t> integers;
  for (int64_t i = 0; i < numel(sizes); ++i) {
    reals.push_back(static_cast<double>((7 * i + 3 * k) % 13 - 6) / 4);
    integers.push_back(type.dtype == DType::Bool ? (i + k) % 3 != 0 : (5 * i + k) % 3);
  }
  return is_floating(type.dtype) ? HostTensor::from_doubles(type.dtype, sizes, reals) : HostTensor::from_ints(type.dtype, sizes, integers);
}

class KnownValues : public testing::TestWithParam<Case> {};

TEST_P(KnownValues, AreComputed) {
  const Case& test = GetParam();
  SCOPED_TRACE(test.name);
  Program program = parse_text(fmt::format("graph({}) {{\n  {}\n  return out\n}}", test.inputs, test.node));
  verify(program, Level::Import);
  decompose(program);
  verify(program, Level::Core);
  std::vector<HostTensor> inputs;
  for (ValueId input : program.graph.inputs) {
    inputs.push_back(sample(program.graph.type(input), static_cast<int64_t>(inputs.size())));
  }
  const HostTensor out = evaluate(program, inputs)[0];
  ASSERT_EQ(out.numel(), static_cast<int64_t>(test.expected.size()));
  const double tolerance = is_reduced_float(out.dtype()) ? 1e-2 : 1e-5;
  for (int64_t i = 0; i < out.numel(); ++i) {
    const double wanted = test.expected[static_cast<size_t>(i)];
    EXPECT_NEAR(out.double_at(i), wanted, tolerance * std::max(1.0, std::abs(wanted))) << "element " << i;
  }
}

std::string test_name(const testing::TestParamInfo<Case>& info) {
  std::string name;
  for (const char* c = info.param.name; *c != 0; ++c) name += std::isalnum(static_cast<unsigned char>(*c)) ? *c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Decompose, KnownValues, testing::ValuesIn(kKnownValues), test_name);

}  // namespace
}  // namespace toroid
