// Quantised values in plain integer tensors, as PyTorch's PT2E flow exports them, and fake quantisation, as models carry
// it while they train:
//
//   q = clamp(round(x * (1 / scale)) + zero_point, quant_min, quant_max)      x ~ (q - zero_point) * scale
//
// Scales and zero points are numbers, tensors of one element, or tensors with one element a channel, a token (a run of
// the last dim) or a group of a channel's elements. Rounding is to even, and in the dtype in which PyTorch rounds.
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/required.h"

namespace toroid {
namespace {

Tensor clamped(Decomposer& d, const Args& a, Tensor x) {
  // The bounds are tensors in one spelling of quantize_per_tensor.
  auto bound = [&](const char* name) { return d.b.reshape(operand(d, a, name, x.dtype()), {}); };
  return minimum(maximum(x, bound("quant_min")), bound("quant_max"));
}

Tensor one_element(Decomposer& d, const Args& a, std::string_view name, DType dtype) { return d.b.reshape(operand(d, a, name, dtype), {}); }

// A vector over dim `axis` of x, so that it broadcasts against x.
Tensor along(Tensor vector, Tensor x, int64_t axis) {
  Builder& b = x.builder();
  Sizes sizes(static_cast<size_t>(x.rank()), 1);
  sizes[static_cast<size_t>(b.wrap_dim(axis, x.rank()))] = vector.numel();
  return b.reshape(vector, sizes);
}

DType quantized_dtype(const Args& a) {
  const DType dtype = required_dtype(a, "dtype");
  if (is_integral(dtype)) return dtype;
  throw Error(ErrorKind::Unsupported, fmt::format("{} to {}: 8-bit floats are not supported", a.schema().name, to_string(dtype)))
      .help("quantise to int8, uint8 or int16");
}

// ---- one scale ------------------------------------------------------------------------------------------------------

std::vector<Tensor> quantize_per_tensor(Decomposer& d, const Args& a) {
  const DType dtype = quantized_dtype(a);
  Tensor x = d.b.cast(a.tensor("input"), DType::F32);
  Tensor inverse = d.b.cast(reciprocal(one_element(d, a, "scale", DType::F64)), DType::F32);
  Tensor q = round(x * inverse) + one_element(d, a, "zero_point", DType::F32);
  return {d.b.cast(clamped(d, a, q), dtype)};
}

std::vector<Tensor> dequantize_per_tensor(Decomposer& d, const Args& a) {
  const DType dtype = a.dtype("out_dtype").value_or(DType::F32), wide = compute_dtype(dtype);
  Tensor x = d.b.cast(d.b.cast(a.tensor("input"), dtype), wide);
  // Each step is rounded to the result's dtype.
  Tensor shifted = d.b.cast(d.b.cast(x - one_element(d, a, "zero_point", wide), dtype), wide);
  return {d.b.cast(shifted * one_element(d, a, "scale", wide), dtype)};
}

// ---- a scale for each channel, token or group -----------------------------------------------------------------------

// round(x / scale) + zero_point; x is F32, or what F32 and the scales promote to.
Tensor quantized(Tensor x, Tensor scales, Tensor zero_points) { return round(x * (1.0 / scales)) + zero_points; }

std::vector<Tensor> quantize_per_channel(Decomposer& d, const Args& a) {
  const DType dtype = quantized_dtype(a);
  Tensor x = d.b.cast(a.tensor("input"), DType::F32);
  const int64_t axis = a.constant("axis");
  Tensor q = quantized(x, along(a.tensor("scales"), x, axis), along(a.tensor("zero_points"), x, axis));
  return {d.b.cast(clamped(d, a, q), dtype)};
}

// Integers are subtracted as integers. Without zero points they are 0.
Tensor dequantized(Tensor q, Tensor scales, Tensor zero_points) { return (zero_points.defined() ? q - zero_points : q) * scales; }

std::vector<Tensor> dequantize_per_channel(Decomposer& d, const Args& a) {
  Tensor q = a.tensor("input"), zero_points = a.optional_tensor("zero_points");
  const int64_t axis = a.constant("axis");
  if (zero_points.defined()) zero_points = along(zero_points, q, axis);
  Tensor x = dequantized(q, along(a.tensor("scales"), q, axis), zero_points);
  return {d.b.cast(x, a.dtype("out_dtype").value_or(DType::F32))};
}

// Here the zero point is added before rounding.
Tensor rounded_late(Decomposer& d, const Args& a, Tensor x, Tensor scales, Tensor zero_points) {
  return d.b.cast(clamped(d, a, round(x * (1.0 / scales) + zero_points)), quantized_dtype(a));
}

std::vector<Tensor> quantize_per_token(Decomposer& d, const Args& a) {
  return {rounded_late(d, a, a.tensor("input"), a.tensor("scales"), a.tensor("zero_points"))};
}
std::vector<Tensor> dequantize_per_token(Decomposer& d, const Args& a) {
  Tensor x = dequantized(a.tensor("input"), a.tensor("scales"), a.tensor("zero_points"));
  return {d.b.cast(x, required_dtype(a, "output_dtype"))};
}

// The rows of a matrix cut into groups, [groups, group size]; a single group may be shorter than asked for.
Tensor in_groups(Tensor x, const Args& a) {
  if (x.rank() != 2) throw Error(ErrorKind::InvalidModel, fmt::format("{} of a tensor of rank {}", a.schema().name, x.rank()));
  sym::Expr size = a.integer("group_size");
  if (a.tensor("scales").size(-1).is_const(1)) size = sym::min(size, x.size(1));
  return x.builder().reshape(x, {-1, size});
}
Tensor column(Tensor x) { return x.builder().reshape(x, {x.numel(), 1}); }

std::vector<Tensor> quantize_per_group(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("input");
  Tensor q = rounded_late(d, a, in_groups(x, a), column(a.tensor("scales")), column(a.tensor("zero_points")));
  return {d.b.reshape(q, x.sizes())};
}
std::vector<Tensor> dequantize_per_group(Decomposer& d, const Args& a) {
  Tensor q = a.tensor("input"), zero_points = a.optional_tensor("zero_points");
  if (zero_points.defined()) zero_points = column(zero_points);
  Tensor x = dequantized(in_groups(q, a), column(a.tensor("scales")), zero_points);
  return {d.b.cast(d.b.reshape(x, q.sizes()), required_dtype(a, "output_dtype"))};
}

// ---- choosing scales and zero points --------------------------------------------------------------------------------

struct Range {
  Tensor low, high;  // with 0 between them
};

Range range_of(Tensor x, const Dims& dims) {
  Tensor low = reduce_keeping(ReduceOp::Min, x, dims), high = reduce_keeping(ReduceOp::Max, x, dims);
  return {minimum(low, 0), maximum(high, 0)};
}

// scale f64[1] and zero point i64[1] of a whole tensor.
std::vector<Tensor> choose(Decomposer& d, const Args& a, bool symmetric) {
  Tensor x = a.tensor("input");
  const double quant_min = a.number("quant_min"), quant_max = a.number("quant_max");
  const Range range = range_of(d.b.reshape(x, {x.numel()}), {0});
  auto narrow = [&](Tensor t) { return d.b.cast(d.b.cast(t, x.dtype()), DType::F32); };
  Tensor low = d.b.cast(range.low, DType::F32), high = d.b.cast(range.high, DType::F32);
  const Tensor eps = d.b.scalar(DType::F32, a.number("eps"));
  if (symmetric) {
    Tensor scale = maximum(narrow(maximum(-low, high) / ((quant_max - quant_min) / 2)), eps);
    const int64_t middle = required_dtype(a, "dtype") == DType::U8 ? 128 : 0;
    return {d.b.cast(scale, DType::F64), d.b.full({1}, DType::I64, sym::Expr(middle))};
  }
  Tensor scale = maximum(narrow(narrow(high - low) / (quant_max - quant_min)), eps);
  Tensor zero_point = clamped(d, a, quant_min - round(low / scale));
  return {d.b.cast(scale, DType::F64), d.b.cast(zero_point, DType::I64)};
}
std::vector<Tensor> choose_affine(Decomposer& d, const Args& a) { return choose(d, a, false); }
std::vector<Tensor> choose_symmetric(Decomposer& d, const Args& a) { return choose(d, a, true); }

// int8 without zero points; the largest element of a token becomes 127.
std::vector<Tensor> choose_per_token(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("input");
  if (x.dtype() == DType::F16) x = d.b.cast(x, DType::F32);
  if (a.dtype("dtype") != DType::I8) throw Error(ErrorKind::InvalidModel, fmt::format("{} is for int8", a.schema().name));
  Tensor largest = maximum(wide(reduce_keeping(ReduceOp::Max, abs(x), {-1})), 1e-5);
  Tensor scales = d.b.cast(wide(d.b.cast(largest, x.dtype())) / 127.0, x.dtype());
  return {scales, d.b.full(scales.sizes(), scales.dtype(), 0.0)};
}

// int8 with zero points, of which the one that errs less at its end of the range is taken. Each step is rounded to x's
// dtype.
std::vector<Tensor> choose_per_token_asymmetric(Decomposer& d, const Args& a) {
  constexpr double kMin = -128, kMax = 127;
  Tensor x = a.tensor("input");
  auto rounded = [&](Tensor t) { return wide(d.b.cast(t, x.dtype())); };
  const Range range = range_of(wide(x), {-1});
  Tensor scale = rounded(rounded(range.high - range.low) / (kMax - kMin));
  scale = rounded(maximum(scale, std::numeric_limits<float>::epsilon()));
  Tensor low = rounded(range.low / scale), high = rounded(range.high / scale);
  Tensor sum = rounded(rounded(kMin + low) + rounded(kMax + high));
  Tensor zero_point = where(sum > 0, rounded(kMin - low), rounded(kMax - high));
  zero_point = round(minimum(maximum(zero_point, kMin), kMax));
  return {d.b.cast(scale, DType::F64), d.b.cast(zero_point, DType::I64)};
}

std::vector<Tensor> convert(Decomposer&, const Args& a) { return {converted(a.tensor("input"), required_dtype(a, "dtype"))}; }

constexpr DecompositionRow kRows[] = {
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

std::span<const DecompositionRow> quantization_rows() { return kRows; }

}  // namespace toroid
