// ATen's fake quantisation, its gradients and its observers.
#include "formula/quantization/fake_quantization.h"

#include "formula/basics/channels.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"

namespace toroid {
namespace {

formula::FakeRange range_of(const Args& a) { return {a.number("quant_min"), a.number("quant_max")}; }

// A scale and a zero point that broadcast against `x`, F32.
struct Parameters {
  Tensor x, scale, zero_point;
};

Parameters per_tensor_arguments(Decomposer& d, const Args& a) {
  auto one_element = [&](std::string_view name) { return d.b.reshape(operand(d, a, name, DType::F32), {}); };
  return {a.tensor("self"), one_element("scale"), one_element("zero_point")};
}

Parameters per_channel_arguments(Decomposer& d, const Args& a, std::string_view input, std::string_view scale,
                                 std::string_view zero_point) {
  Tensor x = a.tensor(input);
  const int64_t axis = a.constant("axis");
  auto along = [&](std::string_view name) { return along_dim_of(x, axis, d.b.cast(a.tensor(name), DType::F32)); };
  return {x, along(scale), along(zero_point)};
}
Parameters per_channel_arguments(Decomposer& d, const Args& a) { return per_channel_arguments(d, a, "self", "scale", "zero_point"); }

formula::FakeQuantized quantized(const Args& a, const Parameters& p) {
  return formula::fake_quantize(p.x, p.scale, p.zero_point, range_of(a));
}
std::vector<Tensor> with_mask(const formula::FakeQuantized& result) { return {result.output, result.mask}; }

std::vector<Tensor> fake_quantize_per_tensor(Decomposer& d, const Args& a) { return {quantized(a, per_tensor_arguments(d, a)).output}; }
std::vector<Tensor> fake_quantize_per_tensor_with_mask(Decomposer& d, const Args& a) {
  return with_mask(quantized(a, per_tensor_arguments(d, a)));
}
std::vector<Tensor> fake_quantize_per_channel(Decomposer& d, const Args& a) { return {quantized(a, per_channel_arguments(d, a)).output}; }
std::vector<Tensor> fake_quantize_per_channel_with_mask(Decomposer& d, const Args& a) {
  return with_mask(quantized(a, per_channel_arguments(d, a)));
}
std::vector<Tensor> decomposed_per_channel(Decomposer& d, const Args& a) {
  return {quantized(a, per_channel_arguments(d, a, "input", "scales", "zero_points")).output};
}

std::vector<Tensor> fake_quantize_if_enabled(Decomposer& d, const Args& a) {
  const formula::FakeQuantized result = quantized(a, per_tensor_arguments(d, a));
  return with_mask(formula::if_enabled(a.tensor("fake_quant_enabled"), a.tensor("self"), result));
}

// ---- where scale and zero point are learnt --------------------------------------------------------------------------

Parameters learnable(const Args& a, Parameters p) {
  p.zero_point = formula::whole_zero_point(p.zero_point, range_of(a));
  return p;
}
std::vector<Tensor> learnable_per_tensor(Decomposer& d, const Args& a) {
  return {quantized(a, learnable(a, per_tensor_arguments(d, a))).output};
}
std::vector<Tensor> learnable_per_channel(Decomposer& d, const Args& a) {
  return {quantized(a, learnable(a, per_channel_arguments(d, a))).output};
}

std::vector<Tensor> learnable_gradients(Decomposer& d, const Args& a, const Parameters& p, const Dims& dims) {
  const formula::LearnableGradients gradients =
      formula::learnable_fake_quantize_backward(a.tensor("grad"), p.x, p.scale, p.zero_point, range_of(a), a.number("grad_factor"), dims);
  auto shaped = [&](Tensor gradient, Tensor like) { return d.b.cast(d.b.reshape(gradient, like.sizes()), like.dtype()); };
  return {gradients.x, shaped(gradients.scale, a.tensor("scale")), shaped(gradients.zero_point, a.tensor("zero_point"))};
}
std::vector<Tensor> learnable_per_tensor_backward(Decomposer& d, const Args& a) {
  return learnable_gradients(d, a, learnable(a, per_tensor_arguments(d, a)), d.b.wrap_dims({}, a.tensor("self").rank()));
}
std::vector<Tensor> learnable_per_channel_backward(Decomposer& d, const Args& a) {
  const int64_t rank = a.tensor("self").rank();
  return learnable_gradients(d, a, learnable(a, per_channel_arguments(d, a)), all_but(rank, d.b.wrap_dim(a.constant("axis"), rank)));
}

std::vector<Tensor> masked_gradient(Decomposer&, const Args& a) {
  return {formula::fake_quantize_backward(a.tensor("grad"), a.tensor("mask"))};
}

// ---- observers ------------------------------------------------------------------------------------------------------

// {output, mask, running_min, running_max, scale, zero_point}
std::vector<Tensor> observe(Decomposer&, const Args& a) {
  const formula::ObserverState state{a.tensor("running_min"), a.tensor("running_max"), a.tensor("scale"), a.tensor("zero_point")};
  formula::ObserverOptions options{
      .averaging = a.number("averaging_const"), .range = range_of(a), .axis = {}, .symmetric = a.flag("symmetric_quant")};
  if (a.flag("per_row_fake_quant")) options.axis = a.constant("ch_axis");
  const formula::Observation seen = formula::observe(a.tensor("self"), state, a.tensor("observer_on"), a.tensor("fake_quant_on"), options);
  return {seen.result.output, seen.result.mask, seen.state.running_min, seen.state.running_max, seen.state.scale, seen.state.zero_point};
}

// Its only result is the output; the updates follow it.
std::vector<Tensor> observe_without_mask(Decomposer& d, const Args& a) {
  std::vector<Tensor> results = observe(d, a);
  results.erase(results.begin() + 1);
  return results;
}

constexpr DecompositionRow kFakeQuantRows[] = {
    {"aten::fake_quantize_per_tensor_affine.*", fake_quantize_per_tensor},
    {"aten::fake_quantize_per_tensor_affine_cachemask", fake_quantize_per_tensor_with_mask},
    {"aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", fake_quantize_if_enabled},
    {"aten::fake_quantize_per_channel_affine", fake_quantize_per_channel},
    {"aten::fake_quantize_per_channel_affine_cachemask", fake_quantize_per_channel_with_mask},
    {"aten::_fake_quantize_learnable_per_tensor_affine", learnable_per_tensor},
    {"aten::_fake_quantize_learnable_per_channel_affine", learnable_per_channel},
    {"aten::fake_quantize_per_tensor_affine_cachemask_backward", masked_gradient},
    {"aten::fake_quantize_per_channel_affine_cachemask_backward", masked_gradient},
    {"aten::_fake_quantize_learnable_per_tensor_affine_backward", learnable_per_tensor_backward},
    {"aten::_fake_quantize_learnable_per_channel_affine_backward", learnable_per_channel_backward},
    {"aten::fused_moving_avg_obs_fake_quant", observe_without_mask},
    {"aten::_fused_moving_avg_obs_fq_helper", observe},
    {"aten::_fused_moving_avg_obs_fq_helper_functional", observe},
    {"quantized_decomposed::fake_quant_per_channel", decomposed_per_channel},
};

}  // namespace

std::span<const DecompositionRow> fake_quant_rows() { return kFakeQuantRows; }

}  // namespace toroid
