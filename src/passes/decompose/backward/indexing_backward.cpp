// ATen's gradients of views, of selections by index or mask, and of running extrema and products.
#include "formula/backward/indexing_backward.h"

#include "formula/movement/scattering.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// ---- views ----------------------------------------------------------------------------------------------------------

std::vector<Tensor> select_backward(Decomposer&, const Args& a) {
  return {formula::select_backward(a.tensor("grad_output"), a.integers("input_sizes"), a.constant("dim"), a.integer("index"))};
}

std::vector<Tensor> slice_backward(Decomposer&, const Args& a) {
  return {formula::slice_backward(a.tensor("grad_output"), a.integers("input_sizes"), a.constant("dim"), a.integer("start"),
                                  a.integer("step"))};
}

std::vector<Tensor> diagonal_backward(Decomposer&, const Args& a) {
  return {formula::diagonal_backward(a.tensor("grad_output"), a.integers("input_sizes"), a.constant("offset"), a.constant("dim1"),
                                     a.constant("dim2"))};
}

std::vector<Tensor> trace_backward(Decomposer&, const Args& a) { return {formula::trace_backward(a.tensor("grad"), a.integers("sizes"))}; }

std::vector<Tensor> unfold_backward(Decomposer&, const Args& a) {
  return {
      formula::unfold_backward(a.tensor("grad_in"), a.integers("input_sizes"), a.constant("dim"), a.integer("size"), a.integer("step"))};
}

// ---- indices and masks ----------------------------------------------------------------------------------------------

std::vector<Tensor> index_select_backward(Decomposer& d, const Args& a) {
  Tensor grad = a.tensor("grad");
  Tensor zeros = d.b.full(a.integers("self_sizes"), grad.dtype(), 0.0);
  return {formula::scatter_slices(zeros, a.constant("dim"), a.tensor("index"), grad, ScatterMode::Add)};
}

// The gradient of max, median, topk, …, which choose elements along a dim.
std::vector<Tensor> value_selecting_reduction_backward(Decomposer& d, const Args& a) {
  Tensor grad = a.tensor("grad"), indices = a.tensor("indices");
  const Sizes sizes = a.integers("sizes");
  if (sizes.empty()) return {grad};
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), static_cast<int64_t>(sizes.size()));
  if (!a.flag("keepdim")) {
    grad = d.b.unsqueeze(grad, dim);
    indices = d.b.unsqueeze(indices, dim);
  }
  return {formula::chosen_backward(grad, sizes, dim, indices)};
}

std::vector<Tensor> masked_select_backward(Decomposer& d, const Args& a) {
  Tensor grad = a.tensor("grad"), input = a.tensor("input"), mask = a.tensor("mask");
  Tensor zeros = d.b.full(d.b.broadcast(input.sizes(), mask.sizes()), input.dtype(), 0.0);
  return {formula::masked_scatter(zeros, mask, grad)};
}

std::vector<Tensor> masked_scatter_backward(Decomposer&, const Args& a) {
  return {formula::masked_scatter_backward(a.tensor("grad_output"), a.tensor("mask"), a.integers("sizes"))};
}

// ---- scans ----------------------------------------------------------------------------------------------------------

std::vector<Tensor> cummaxmin_backward(Decomposer& d, const Args& a) {
  Tensor input = a.tensor("input"), grad = a.tensor("grad");
  Tensor zeros = d.b.full(input.sizes(), input.dtype(), 0.0);
  return {formula::scatter(zeros, a.constant("dim"), a.tensor("indices"), grad, ScatterMode::Add)};
}

std::vector<Tensor> cumprod_backward(Decomposer&, const Args& a) {
  return {formula::cumprod_backward(a.tensor("grad"), a.tensor("input"), a.constant("dim"), a.tensor("output"))};
}

constexpr DecompositionRow kIndexingBackwardRows[] = {
    {"aten::select_backward", select_backward},
    {"aten::slice_backward", slice_backward},
    {"aten::diagonal_backward", diagonal_backward},
    {"aten::trace_backward", trace_backward},
    {"aten::unfold_backward", unfold_backward},
    {"aten::index_select_backward", index_select_backward},
    {"aten::value_selecting_reduction_backward", value_selecting_reduction_backward},
    {"aten::masked_select_backward", masked_select_backward},
    {"aten::masked_scatter_backward", masked_scatter_backward},
    {"aten::cummaxmin_backward", cummaxmin_backward},
    {"aten::cumprod_backward", cumprod_backward},
};

}  // namespace

std::span<const DecompositionRow> indexing_backward_rows() { return kIndexingBackwardRows; }

}  // namespace toroid
