// ATen's negative log likelihood and cross entropy.
#include "formula/nn/cross_entropy.h"

#include "passes/decompose/arguments/reduced_dims.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/nn/loss_reduction.h"

namespace toroid {
namespace {

formula::CrossEntropyOptions options_of(const Args& a) {
  return {.class_weight = a.optional_tensor("weight"),
          .reduction = loss_reduction(a),
          .ignored = a.integer("ignore_index"),
          .label_smoothing = has_parameter(a, "label_smoothing") ? a.number("label_smoothing") : 0};
}

std::vector<Tensor> nll_loss_forward(Decomposer&, const Args& a) {
  const formula::NllLoss result = formula::nll_loss(a.tensor("self"), a.tensor("target"), options_of(a));
  return {result.loss, result.total_weight};
}

std::vector<Tensor> nll_loss(Decomposer& d, const Args& a) { return {nll_loss_forward(d, a)[0]}; }

std::vector<Tensor> cross_entropy_loss(Decomposer&, const Args& a) {
  return {formula::cross_entropy(a.tensor("self"), a.tensor("target"), options_of(a))};
}

constexpr DecompositionRow kCrossEntropyRows[] = {
    {"aten::nll_loss", nll_loss},
    {"aten::nll_loss_nd", nll_loss},
    {"aten::nll_loss2d", nll_loss},
    {"aten::nll_loss_forward", nll_loss_forward},
    {"aten::nll_loss2d_forward", nll_loss_forward},
    {"aten::cross_entropy_loss", cross_entropy_loss},
};

}  // namespace

std::span<const DecompositionRow> cross_entropy_rows() { return kCrossEntropyRows; }

}  // namespace toroid
