// The operators of PyTorch's PT2E flow, quantized_decomposed::*: quantised values in plain integer tensors.
#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/precision.h"
#include "formula/quantization/affine.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/required.h"
#include "passes/decompose/movement/literal.h"

namespace toroid {
namespace {

// The bounds are tensors in one spelling of quantize_per_tensor.
formula::QuantizedRange quantized_range(const Args& a) {
  auto bound = [&](const char* name) {
    return is_number_argument(a, name) ? formula::Bound(a.scalar(name)) : formula::Bound(a.tensor(name));
  };
  return {bound("quant_min"), bound("quant_max")};
}

// So may be a tensor's scale and zero point.
Tensor one_element(Decomposer& d, const Args& a, std::string_view name, DType dtype) { return d.b.reshape(operand(d, a, name, dtype), {}); }

DType quantized_dtype(const Args& a) {
  const DType dtype = required_dtype(a, "dtype");
  if (is_integral(dtype)) return dtype;
  throw Error(ErrorKind::Unsupported, fmt::format("{} to {}: 8-bit floats are not supported", a.schema().name, to_string(dtype)))
      .help("quantise to int8, uint8 or int16");
}

std::vector<Tensor> quantize_per_tensor(Decomposer& d, const Args& a) {
  const DType dtype = quantized_dtype(a);
  Tensor scale = one_element(d, a, "scale", DType::F64), zero_point = one_element(d, a, "zero_point", DType::F32);
  return {formula::quantize_per_tensor(a.tensor("input"), scale, zero_point, quantized_range(a), dtype)};
}

std::vector<Tensor> dequantize_per_tensor(Decomposer& d, const Args& a) {
  const DType dtype = a.dtype("out_dtype").value_or(DType::F32), wide = compute_dtype(dtype);
  Tensor scale = one_element(d, a, "scale", wide), zero_point = one_element(d, a, "zero_point", wide);
  return {formula::dequantize_per_tensor(a.tensor("input"), scale, zero_point, dtype)};
}

std::vector<Tensor> quantize_per_channel(Decomposer&, const Args& a) {
  return {formula::quantize_per_channel(a.tensor("input"), a.tensor("scales"), a.tensor("zero_points"), a.constant("axis"),
                                        quantized_range(a), quantized_dtype(a))};
}
// Undefined where they are known to be 0, as those of symmetric weights: a product need not sum its rows for them.
Tensor zero_points_but_zeros(const Decomposer& d, const Args& a) {
  Tensor zeros = a.optional_tensor("zero_points");
  if (!zeros.defined()) return zeros;
  if (!std::holds_alternative<Constant>(d.b.graph().producer(zeros.id()).op)) return zeros;
  const std::optional<std::vector<int64_t>> values = constant_integers(d, zeros);
  return values && std::ranges::all_of(*values, [](int64_t value) { return value == 0; }) ? Tensor() : zeros;
}

std::vector<Tensor> dequantize_per_channel(Decomposer& d, const Args& a) {
  return {formula::dequantize_per_channel(a.tensor("input"), a.tensor("scales"), zero_points_but_zeros(d, a), a.constant("axis"),
                                          a.dtype("out_dtype").value_or(DType::F32))};
}

std::vector<Tensor> quantize_per_token(Decomposer&, const Args& a) {
  return {
      formula::quantize_per_token(a.tensor("input"), a.tensor("scales"), a.tensor("zero_points"), quantized_range(a), quantized_dtype(a))};
}
std::vector<Tensor> dequantize_per_token(Decomposer&, const Args& a) {
  return {formula::dequantize_per_token(a.tensor("input"), a.tensor("scales"), a.tensor("zero_points"), required_dtype(a, "output_dtype"))};
}

std::vector<Tensor> quantize_per_group(Decomposer&, const Args& a) {
  return {formula::quantize_per_group(a.tensor("input"), a.tensor("scales"), a.tensor("zero_points"), a.integer("group_size"),
                                      quantized_range(a), quantized_dtype(a))};
}
std::vector<Tensor> dequantize_per_group(Decomposer&, const Args& a) {
  return {formula::dequantize_per_group(a.tensor("input"), a.tensor("scales"), a.optional_tensor("zero_points"), a.integer("group_size"),
                                        required_dtype(a, "output_dtype"))};
}

// ---- choosing scales and zero points --------------------------------------------------------------------------------

std::vector<Tensor> both(const formula::QuantizationParameters& chosen) { return {chosen.scale, chosen.zero_point}; }

std::vector<Tensor> choose_affine(Decomposer&, const Args& a) {
  return both(formula::choose_parameters(a.tensor("input"), a.number("quant_min"), a.number("quant_max"), a.number("eps")));
}
std::vector<Tensor> choose_symmetric(Decomposer&, const Args& a) {
  const int64_t zero_point = required_dtype(a, "dtype") == DType::U8 ? 128 : 0;
  return both(
      formula::choose_symmetric_parameters(a.tensor("input"), a.number("quant_min"), a.number("quant_max"), a.number("eps"), zero_point));
}
std::vector<Tensor> choose_per_token(Decomposer&, const Args& a) {
  if (a.dtype("dtype") != DType::I8) throw Error(ErrorKind::InvalidModel, fmt::format("{} is for int8", a.schema().name));
  return both(formula::choose_parameters_per_token(a.tensor("input")));
}
std::vector<Tensor> choose_per_token_asymmetric(Decomposer&, const Args& a) {
  return both(formula::choose_asymmetric_parameters_per_token(a.tensor("input")));
}

std::vector<Tensor> convert(Decomposer&, const Args& a) { return {converted(a.tensor("input"), required_dtype(a, "dtype"))}; }

constexpr DecompositionRow kQuantizationRows[] = {
    {"quantized_decomposed::convert_element_type.no_fuse", convert},
    {"quantized_decomposed::quantize_per_tensor.*", quantize_per_tensor},
    {"quantized_decomposed::dequantize_per_tensor.*", dequantize_per_tensor},
    {"quantized_decomposed::quantize_per_channel", quantize_per_channel},
    {"quantized_decomposed::dequantize_per_channel", dequantize_per_channel},
    {"quantized_decomposed::quantize_per_token", quantize_per_token},
    {"quantized_decomposed::dequantize_per_token", dequantize_per_token},
    {"quantized_decomposed::quantize_per_channel_group", quantize_per_group},
    {"quantized_decomposed::dequantize_per_channel_group", dequantize_per_group},
    {"quantized_decomposed::choose_qparams.tensor", choose_affine},
    {"quantized_decomposed::choose_qparams_symmetric.tensor", choose_symmetric},
    {"quantized_decomposed::choose_qparams_per_token", choose_per_token},
    {"quantized_decomposed::choose_qparams_per_token_asymmetric", choose_per_token_asymmetric},
    {"quantized_decomposed::_choose_qparams_per_token_asymmetric_impl", choose_per_token_asymmetric},
};

}  // namespace

std::span<const DecompositionRow> quantization_rows() { return kQuantizationRows; }

}  // namespace toroid
