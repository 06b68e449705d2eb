// ATen's gradients of batch, layer, group and RMS norms, and of weight norm.
#include "formula/backward/normalization_backward.h"

#include "passes/decompose/arguments/output_mask.h"
#include "passes/decompose/arguments/recorded.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// The gradients of weight and bias in the dtypes that the model records.
std::vector<Tensor> results(Decomposer& d, const formula::NormGradients& gradients) {
  auto recorded = [&](size_t i, Tensor x) { return x.defined() ? as_recorded(d, i, x) : x; };
  return {gradients.x, recorded(1, gradients.weight), recorded(2, gradients.bias)};
}

// ---- batch norm -----------------------------------------------------------------------------------------------------

// `saved` is 1/deviation, as the forward operator saves it.
formula::NormGradients in_training(const Args& a, std::string_view grad, std::string_view saved) {
  return formula::batch_norm_in_training_backward(a.tensor(grad), a.tensor("input"), a.optional_tensor("weight"), a.tensor("save_mean"),
                                                  a.tensor(saved));
}
formula::NormGradients outside_training(const Args& a) {
  return formula::batch_norm_backward(a.tensor("grad_out"), a.tensor("input"), a.optional_tensor("weight"), a.tensor("running_mean"),
                                      a.tensor("running_var"), a.number("eps"));
}

std::vector<Tensor> only_wanted(Decomposer& d, const Args& a, const formula::NormGradients& all) {
  std::vector<Tensor> gradients = results(d, all);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!is_wanted(a, i)) gradients[i] = {};
  }
  return gradients;
}

std::vector<Tensor> native_batch_norm_backward(Decomposer& d, const Args& a) {
  return only_wanted(d, a, a.flag("train") ? in_training(a, "grad_out", "save_invstd") : outside_training(a));
}

std::vector<Tensor> batch_norm_backward(Decomposer& d, const Args& a) {
  return only_wanted(d, a, a.flag("update") ? in_training(a, "grad_out", "save_var") : outside_training(a));
}

std::vector<Tensor> cudnn_batch_norm_backward(Decomposer& d, const Args& a) {
  return results(d, in_training(a, "grad_output", "save_var"));
}

// ---- layer, RMS and group norm --------------------------------------------------------------------------------------

std::vector<Tensor> native_layer_norm_backward(Decomposer& d, const Args& a) {
  return results(d, formula::layer_norm_backward(a.tensor("grad_out"), a.tensor("input"), a.integers("normalized_shape").size(),
                                                 a.optional_tensor("weight"), a.tensor("mean"), a.tensor("rstd"), wanted<3>(a)));
}

std::vector<Tensor> fused_rms_norm_backward(Decomposer& d, const Args& a) {
  std::vector<Tensor> gradients =
      results(d, formula::rms_norm_backward(a.tensor("grad_out"), a.tensor("input"), a.integers("normalized_shape").size(),
                                            a.optional_tensor("weight"), a.tensor("rstd"), wanted<2>(a)));
  gradients.pop_back();
  return gradients;
}

std::vector<Tensor> native_group_norm_backward(Decomposer& d, const Args& a) {
  return results(d, formula::group_norm_backward(a.tensor("grad_out"), a.tensor("input"), a.integer("group"), a.optional_tensor("weight"),
                                                 a.tensor("mean"), a.tensor("rstd"), wanted<3>(a)));
}

// ---- weight norm ----------------------------------------------------------------------------------------------------

std::vector<Tensor> weight_norm_backward(Decomposer&, const Args& a) {
  const formula::WeightNormGradients gradients = formula::weight_norm_backward(a.tensor("grad_w"), a.tensor("saved_v"), a.tensor("saved_g"),
                                                                               a.tensor("saved_norms"), a.constant("dim"));
  return {gradients.v, gradients.g};
}

constexpr DecompositionRow kNormalizationBackwardRows[] = {
    {"aten::native_batch_norm_backward", native_batch_norm_backward},     {"aten::batch_norm_backward", batch_norm_backward},
    {"aten::cudnn_batch_norm_backward", cudnn_batch_norm_backward},       {"aten::miopen_batch_norm_backward", cudnn_batch_norm_backward},
    {"aten::native_layer_norm_backward", native_layer_norm_backward},     {"aten::_fused_rms_norm_backward", fused_rms_norm_backward},
    {"aten::native_group_norm_backward", native_group_norm_backward},     {"aten::_weight_norm_interface_backward", weight_norm_backward},
    {"aten::_weight_norm_differentiable_backward", weight_norm_backward},
};

}  // namespace

std::span<const DecompositionRow> normalization_backward_rows() { return kNormalizationBackwardRows; }

}  // namespace toroid
