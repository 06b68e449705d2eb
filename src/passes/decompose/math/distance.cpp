// Distances and similarities between vectors.
#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/reduced_dims.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// Two arguments in the dtype that the result is computed in.
struct Pair {
  Tensor x, y;
  DType dtype;  // of the result
};

Pair pair_of(Decomposer& d, const Args& a, std::string_view x, std::string_view y) {
  const DType dtype = as_floating(promoted_dtype(a, {x, y}));
  return {operand(d, a, x, compute_dtype(dtype)), operand(d, a, y, compute_dtype(dtype)), dtype};
}

Tensor norm_of(Decomposer& d, Tensor x, double p, const Dims& dims, bool keepdim = false) {
  return d.call1("aten::linalg_vector_norm", {x, p, dims, keepdim});
}

std::vector<Tensor> pairwise_distance(Decomposer& d, const Args& a) {
  const Pair pair = pair_of(d, a, "x1", "x2");
  const DType given = promoted_dtype(a, {"x1", "x2"});
  Tensor difference = pair.x - pair.y;
  if (!is_floating(given)) {  // wraps around where the integers do
    difference = d.b.cast(operand(d, a, "x1", given) - operand(d, a, "x2", given), pair.x.dtype());
  }
  difference = difference + a.number("eps");
  return {d.b.cast(norm_of(d, difference, a.number("p"), {-1}, a.flag("keepdim")), pair.dtype)};
}

// All distances between rows of [.., P, M] and rows of [.., R, M].
Tensor all_distances(Decomposer& d, const Pair& pair, double p) {
  return d.b.cast(norm_of(d, d.b.unsqueeze(pair.x, -2) - d.b.unsqueeze(pair.y, -3), p, {-1}), pair.dtype);
}

// The same of Euclidean distances by one product: |x - y|^2 = |x|^2 + |y|^2 - 2 x.y, as PyTorch computes them for many rows.
Tensor distances_by_product(Decomposer& d, const Pair& pair) {
  Builder& b = d.b;
  auto before_rows = [](Tensor t) { return t.sizes().without_last(2); };
  const Sizes leading = b.broadcast(before_rows(pair.x), before_rows(pair.y));
  auto batched = [&](Tensor t) {
    Sizes sizes = leading;
    sizes.append(t.sizes().last(2));
    return b.expand(t, sizes);
  };
  const Tensor x = batched(pair.x), y = batched(pair.y);
  const Tensor product = b.matmul(x, b.transpose(y, -2, -1));
  const Tensor squares = b.unsqueeze(b.sum(x * x, {-1}), -1) + b.unsqueeze(b.sum(y * y, {-1}), -2) - product * 2.0;
  return b.cast(sqrt(maximum(squares, 0)), pair.dtype);
}

std::vector<Tensor> cdist(Decomposer& d, const Args& a) {
  // PyTorch's compute_mode: 0 a product if there are many rows, 1 always, 2 never.
  constexpr int64_t kManyRows = 25;
  const Pair pair = pair_of(d, a, "x1", "x2");
  const int64_t mode = has_parameter(a, "compute_mode") && a.has("compute_mode") ? a.constant("compute_mode") : 0;
  const bool many = sym::known_lt(kManyRows, pair.x.size(-2)) || sym::known_lt(kManyRows, pair.y.size(-2));
  if (a.number("p") == 2 && (mode == 1 || (mode == 0 && many))) return {distances_by_product(d, pair)};
  return {all_distances(d, pair, a.number("p"))};
}
std::vector<Tensor> euclidean_dist(Decomposer& d, const Args& a) { return {all_distances(d, pair_of(d, a, "x1", "x2"), 2)}; }

// Distances of the pairs i < j of n rows. Pair k has the row i with i*(2n - i - 1)/2 <= k: the smaller root of a
// quadratic.
std::vector<Tensor> pdist(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self");
  const sym::Expr n = x.size(0), pairs = sym::floor_div(n * (n - 1), 2);
  auto whole = [&](sym::Expr value) { return b.scalar(DType::I64, value); };
  Tensor k = b.arange(pairs);
  Tensor side = b.scalar(DType::F64, Scalar(n * 2 - 1));
  Tensor root = sqrt(side * side - b.cast(k, DType::F64) * 8.0);
  Tensor i = b.cast(floor((side - root) / 2.0), DType::I64);
  auto before = [&](Tensor row) { return b.binary(ScalarOp::FloorDiv, row * (whole(n * 2 - 1) - row), Scalar(sym::Expr(2))); };
  // The root may round to either side of a whole number.
  i = where(before(i) > Term(k), i - whole(1), i);
  i = where(before(i + whole(1)) <= Term(k), i + whole(1), i);
  Tensor j = k - before(i) + i + whole(1);
  auto rows = [&](Tensor index) { return wide(b.gather(x, index_one_dim(x, 0, index).per_dim)); };
  return {b.cast(norm_of(d, rows(i) - rows(j), a.number("p"), {-1}), x.dtype())};
}

// Norms below eps count as eps, which is a number of the vectors' type: 1e-8 is 0 in float16. Each vector is divided by its own norm, in
// its own floating type, before the two meet: the product of two norms may overflow where neither does.
std::vector<Tensor> cosine_similarity(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  const Tensor x = a.tensor("x1"), y = a.tensor("x2");
  const DType dtype = promoted_dtype(a, {"x1", "x2"});
  if (!is_floating(dtype)) throw Error(ErrorKind::InvalidModel, "cosine_similarity of integers: one tensor must be floating");
  const Sizes sizes = b.broadcast(x.sizes(), y.sizes());
  const Dims dim = {a.constant("dim")};
  const auto normalised = [&](Tensor v) {
    v = b.expand(is_floating(v.dtype()) ? v : b.cast(v, dtype), sizes);
    const Tensor eps = b.cast(b.scalar(v.dtype(), a.number("eps")), compute_dtype(v.dtype()));
    const Tensor norm = b.cast(maximum(wide(norm_of(d, v, 2, dim, true)), eps), v.dtype());
    return d.call1("aten::div.Tensor", {v, norm});
  };
  return {d.call1("aten::sum.dim_IntList", {d.call1("aten::mul.Tensor", {normalised(x), normalised(y)}), dim})};
}

constexpr DecompositionRow kDistanceRows[] = {
    {"aten::pairwise_distance", pairwise_distance}, {"aten::cdist", cdist}, {"aten::_cdist_forward", cdist},
    {"aten::_euclidean_dist", euclidean_dist},      {"aten::pdist", pdist}, {"aten::_pdist_forward", pdist},
    {"aten::cosine_similarity", cosine_similarity},
};

}  // namespace

std::span<const DecompositionRow> distance_rows() { return kDistanceRows; }

}  // namespace toroid
