// Reading by index: index, gather, take, index_select, isin.
//
// Each becomes one Gather with an index tensor per dim, broadcast together; a whole dim is its own positions:
//
//   x[:, i]  =>  gather(x, iota, i)
#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "passes/decompose/engine/data_dependent.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

Tensor flat(Tensor x) { return x.builder().reshape(x, {x.numel()}); }

std::vector<Tensor> index(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const std::vector<Tensor> indices = positions_of_masks(d, a.optional_tensors("indices"));
  return {d.b.gather(x, advanced_index(x, indices).per_dim)};
}

std::vector<Tensor> index_select(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), index = a.tensor("index");
  if (x.rank() == 0) return {x};
  if (index.rank() == 0) index = d.b.unsqueeze(index, 0);
  return {d.b.gather(x, index_one_dim(x, a.constant("dim"), index).per_dim)};
}

std::vector<Tensor> gather(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), index = a.tensor("index");
  const Sizes sizes = index.sizes();
  if (index.numel().is_const(0)) return {d.b.full(sizes, x.dtype(), 0.0)};  // of any rank
  if (x.rank() == 0) x = d.b.unsqueeze(x, 0);
  if (index.rank() == 0) index = d.b.unsqueeze(index, 0);
  return {d.b.reshape(d.b.gather(x, index_along(index, d.b.wrap_dim(a.constant("dim"), x.rank()))), sizes)};
}

// Elements of x as if it were flat.
std::vector<Tensor> take(Decomposer& d, const Args& a) {
  Tensor x = flat(a.tensor("self"));
  return {d.b.gather(x, {wrap_index(a.tensor("index"), x.numel())})};
}

// Like gather, but the other dims broadcast; without a dim, x is flat.
std::vector<Tensor> take_along_dim(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self"), index = a.tensor("indices");
  if (!a.has("dim")) return {b.gather(flat(x), {wrap_index(flat(index), x.numel())})};
  const size_t dim = static_cast<size_t>(b.wrap_dim(a.constant("dim"), x.rank()));
  Sizes x_sizes = x.sizes(), index_sizes = index.sizes();
  x_sizes[dim] = index_sizes[dim] = 1;
  Sizes sizes = b.broadcast(x_sizes, index_sizes);
  sizes[dim] = index.sizes()[dim];
  index = b.expand(index, sizes);
  sizes[dim] = x.sizes()[dim];
  return {b.gather(b.expand(x, sizes), index_along(wrap_index(index, x.sizes()[dim]), static_cast<int64_t>(dim)))};
}

// x[indices] where the mask is true, `fill` elsewhere; there the indices may be anything.
std::vector<Tensor> masked_index(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), mask = a.tensor("mask");
  Tensors indices = a.optional_tensors("indices");
  for (Tensor& index : indices) {
    if (index.defined()) index = d.b.where(mask, index, d.b.scalar(index.dtype(), sym::Expr(0)));
  }
  Tensor picked = d.b.gather(x, advanced_index(x, indices).per_dim);
  return {d.b.where(mask, picked, d.b.scalar(x.dtype(), a.scalar("fill")))};
}

// ---- membership -----------------------------------------------------------------------------------------------------

Tensor is_in(Tensor elements, Tensor candidates, bool invert) {
  Builder& b = elements.builder();
  Tensor equal = b.binary(ScalarOp::Eq, b.unsqueeze(elements, -1), flat(candidates));
  Tensor found = b.reduce(ReduceOp::Any, equal, {-1})[0];
  return invert ? b.unary(ScalarOp::BitNot, found) : found;
}

std::vector<Tensor> isin(Decomposer&, const Args& a) { return {is_in(a.tensor("elements"), a.tensor("test_elements"), a.flag("invert"))}; }

std::vector<Tensor> isin_tensor_scalar(Decomposer& d, const Args& a) {
  const ScalarOp compare = a.flag("invert") ? ScalarOp::Ne : ScalarOp::Eq;
  return {d.b.binary(compare, a.tensor("elements"), a.scalar("test_element"))};
}

std::vector<Tensor> isin_scalar_tensor(Decomposer& d, const Args& a) {
  Tensor candidates = flat(a.tensor("test_elements"));
  Tensor found = d.b.reduce(ReduceOp::Any, d.b.binary(ScalarOp::Eq, candidates, a.scalar("element")), {0})[0];
  return {a.flag("invert") ? d.b.unary(ScalarOp::BitNot, found) : found};
}

constexpr DecompositionRow kRows[] = {
    {"aten::index.Tensor", index},
    {"aten::index.Tensor_hacked_twin", index},
    {"aten::_unsafe_index.Tensor", index},
    {"aten::_unsafe_index.Tensor_hacked_twin", index},
    {"aten::_unsafe_masked_index", masked_index},
    {"aten::index_select", index_select},
    {"aten::gather", gather},
    {"aten::take", take},
    {"aten::take_along_dim", take_along_dim},
    {"aten::isin.Tensor_Tensor", isin},
    {"aten::isin.Tensor_Scalar", isin_tensor_scalar},
    {"aten::isin.Scalar_Tensor", isin_scalar_tensor},
};

}  // namespace

std::span<const DecompositionRow> indexing_rows() { return kRows; }

}  // namespace toroid
