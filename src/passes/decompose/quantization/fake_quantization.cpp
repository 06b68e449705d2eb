// Fake quantisation: values as they would be after quantising and back, in floats, and which of them the range held.
//
//   q = round(x / scale) + zero_point      output = (clamp(q, quant_min, quant_max) - zero_point) * scale
//   mask = quant_min <= q <= quant_max
//
// The observers of training update a running range and choose scales from it.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"

namespace toroid {
namespace {

struct FakeQuantized {
  Tensor output, mask;
};

// scale and zero_point broadcast against x and are F32.
FakeQuantized fake_quantized(Decomposer& d, const Args& a, Tensor self, Tensor scale, Tensor zero_point) {
  const double low = a.number("quant_min"), high = a.number("quant_max");
  Tensor x = wide(self);
  scale = d.b.cast(scale, x.dtype());
  zero_point = d.b.cast(zero_point, x.dtype());
  Tensor q = round(x * (1.0 / scale)) + zero_point;
  Tensor output = (minimum(maximum(q, low), high) - zero_point) * scale;
  return {d.b.cast(output, self.dtype()), (q >= low) & (q <= high)};
}

Tensor one_element(Decomposer& d, const Args& a, std::string_view name) { return d.b.reshape(operand(d, a, name, DType::F32), {}); }

Tensor along(Tensor vector, Tensor x, int64_t axis) {
  Builder& b = x.builder();
  Sizes sizes(static_cast<size_t>(x.rank()), 1);
  sizes[static_cast<size_t>(b.wrap_dim(axis, x.rank()))] = vector.numel();
  return b.reshape(b.cast(vector, DType::F32), sizes);
}

FakeQuantized per_tensor(Decomposer& d, const Args& a) {
  return fake_quantized(d, a, a.tensor("self"), one_element(d, a, "scale"), one_element(d, a, "zero_point"));
}

FakeQuantized per_channel(Decomposer& d, const Args& a, const char* input, const char* scales) {
  Tensor x = a.tensor(input);
  const int64_t axis = a.constant("axis");
  const char* zero_points = input == std::string_view("self") ? "zero_point" : "zero_points";
  return fake_quantized(d, a, x, along(a.tensor(scales), x, axis), along(a.tensor(zero_points), x, axis));
}

std::vector<Tensor> fake_quantize_per_tensor(Decomposer& d, const Args& a) { return {per_tensor(d, a).output}; }
std::vector<Tensor> fake_quantize_per_tensor_with_mask(Decomposer& d, const Args& a) {
  const FakeQuantized result = per_tensor(d, a);
  return {result.output, result.mask};
}
std::vector<Tensor> fake_quantize_per_channel(Decomposer& d, const Args& a) { return {per_channel(d, a, "self", "scale").output}; }
std::vector<Tensor> fake_quantize_per_channel_with_mask(Decomposer& d, const Args& a) {
  const FakeQuantized result = per_channel(d, a, "self", "scale");
  return {result.output, result.mask};
}
std::vector<Tensor> decomposed_per_channel(Decomposer& d, const Args& a) { return {per_channel(d, a, "input", "scales").output}; }

// A tensor says whether anything is done.
FakeQuantized if_enabled(Decomposer& d, Tensor enabled, Tensor self, const FakeQuantized& result) {
  Tensor is_on = d.b.reshape(ne(enabled, 0), {});
  return {where(is_on, result.output, self), result.mask | !is_on};
}
std::vector<Tensor> fake_quantize_if_enabled(Decomposer& d, const Args& a) {
  const FakeQuantized result = if_enabled(d, a.tensor("fake_quant_enabled"), a.tensor("self"), per_tensor(d, a));
  return {result.output, result.mask};
}

// Learnt zero points are floats: rounded, and kept within the range.
Tensor whole(const Args& a, Tensor zero_point) { return minimum(maximum(round(zero_point), a.number("quant_min")), a.number("quant_max")); }
std::vector<Tensor> learnable_per_tensor(Decomposer& d, const Args& a) {
  Tensor zero_point = whole(a, one_element(d, a, "zero_point"));
  return {fake_quantized(d, a, a.tensor("self"), one_element(d, a, "scale"), zero_point).output};
}
std::vector<Tensor> learnable_per_channel(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const int64_t axis = a.constant("axis");
  Tensor zero_point = whole(a, along(a.tensor("zero_point"), x, axis));
  return {fake_quantized(d, a, x, along(a.tensor("scale"), x, axis), zero_point).output};
}

// ---- gradients ------------------------------------------------------------------------------------------------------

// What the range did not hold has no gradient.
std::vector<Tensor> masked_gradient(Decomposer& d, const Args& a) {
  Tensor grad = a.tensor("grad");
  return {where(d.b.cast(a.tensor("mask"), DType::Bool), grad, 0)};
}

// Of x, scale and zero point where those are learnt: within the range the scale moves the rounding error, outside it the end of
// the range. `dims` are summed over.
std::vector<Tensor> learnable_gradients(Decomposer& d, const Args& a, Tensor scale, Tensor zero_point, const Dims& dims) {
  const double low = a.number("quant_min"), high = a.number("quant_max"), factor = a.number("grad_factor");
  Tensor self = a.tensor("self"), x = wide(self), grad = wide(a.tensor("grad"));
  scale = d.b.cast(scale, x.dtype());
  zero_point = d.b.cast(zero_point, x.dtype());
  Tensor inverse = 1.0 / scale;
  Tensor q = round(zero_point + x * inverse);
  Tensor is_inside = (q >= low) & (q <= high);
  Tensor end = where(q < low, low - zero_point, high - zero_point);
  Tensor error = ((q - zero_point) * scale - x) * inverse;
  Tensor for_scale = grad * where(is_inside, error, end) * factor;
  Tensor for_zero_point = where(is_inside, 0, -(grad * scale) * factor);
  auto shaped = [&](Tensor t, std::string_view like) {
    Tensor total = dims.empty() ? t : d.b.sum(t, dims);
    return d.b.cast(d.b.reshape(total, a.tensor(like).sizes()), a.tensor(like).dtype());
  };
  return {d.b.cast(where(is_inside, grad, 0), self.dtype()), shaped(for_scale, "scale"), shaped(for_zero_point, "zero_point")};
}

std::vector<Tensor> learnable_per_tensor_backward(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  return learnable_gradients(d, a, one_element(d, a, "scale"), whole(a, one_element(d, a, "zero_point")), d.b.wrap_dims({}, x.rank()));
}

std::vector<Tensor> learnable_per_channel_backward(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const int64_t axis = d.b.wrap_dim(a.constant("axis"), x.rank());
  Dims dims;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    if (dim != axis) dims.push_back(dim);
  }
  return learnable_gradients(d, a, along(a.tensor("scale"), x, axis), along(whole(a, wide(a.tensor("zero_point"))), x, axis), dims);
}

// ---- observers ------------------------------------------------------------------------------------------------------

struct QuantizationParameters {
  Tensor scale, zero_point;  // F64; the scale is one of F32
};

// For a range of floats: 0 is within it and falls on a whole number, which is taken from the end of the range where
// that errs less. Symmetric ranges have the middle of the quantised ones as their zero.
QuantizationParameters parameters_for(Tensor low, Tensor high, double quant_min, double quant_max, bool symmetric) {
  constexpr float kSmallestScale = 6.1e-5f;
  Builder& b = low.builder();
  low = b.cast(low, DType::F64);
  high = b.cast(high, DType::F64);
  Tensor is_mixed = (low < 0) & (high > 0);
  auto to_float = [&](Tensor t) { return b.cast(b.cast(t, DType::F32), DType::F64); };
  if (symmetric) {
    const double half = std::trunc((quant_max - quant_min) / 2);
    Tensor scale = maximum(abs(to_float(low / -(half + 1))), abs(to_float(high / half)));
    low = where(is_mixed, to_float(scale * -(half + 1)), low);
    high = where(is_mixed, to_float(scale * half), high);
  }
  low = minimum(low, 0);
  high = maximum(high, 0);
  Tensor scale = to_float((high - low) / (quant_max - quant_min));
  Tensor as_float = b.cast(scale, DType::F32);
  scale = where(eq(as_float, 0) | isinf(reciprocal(as_float)), to_float(number_like(scale, 0.1)), scale);
  // Scales that are too small grow, and the range with them.
  Tensor is_small = scale < kSmallestScale;
  const double width = static_cast<double>(kSmallestScale) * (quant_max - quant_min);
  Tensor factor = kSmallestScale / scale;
  Tensor grown_low = where(eq(low, 0), 0, where(eq(high, 0), -width, low * factor));
  Tensor grown_high = where(eq(low, 0), width, where(eq(high, 0), 0, high * factor));
  low = where(is_small, grown_low, low);
  high = where(is_small, grown_high, high);
  scale = where(is_small, kSmallestScale, scale);
  Tensor error_at_low = std::abs(quant_min) - abs(low / scale), error_at_high = std::abs(quant_max) - abs(high / scale);
  Tensor zero = where(error_at_low < error_at_high, quant_min - low / scale, quant_max - high / scale);
  if (symmetric) zero = where((low < 0) & (high > 0), (quant_min + quant_max) / 2, zero);
  return {scale, round(minimum(maximum(zero, quant_min), quant_max))};
}

// {output, mask, running_min, running_max, scale, zero_point}: with the observer on, the running range moves by
// `averaging_const` toward that of x, and the first one is taken as it is; with fake quantisation on, scale and zero point
// follow from the range.
std::vector<Tensor> observe(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor self = a.tensor("self"), x = b.cast(self, DType::F32);
  const bool per_row = a.flag("per_row_fake_quant");
  const int64_t axis = per_row ? b.wrap_dim(a.constant("ch_axis"), x.rank()) : 0;
  Dims dims;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    if (!per_row || dim != axis) dims.push_back(dim);
  }
  Tensor is_observing = b.reshape(ne(a.tensor("observer_on"), 0), {});
  const sym::Expr count = per_row ? x.size(axis) : sym::Expr(1);
  auto moved = [&](const char* name, ReduceOp op) {
    Tensor running = a.tensor(name);
    Tensor old = b.reshape(b.cast(running, DType::F32), {running.numel()});
    if (running.numel().is_const(0)) old = b.full({count}, DType::F32, std::numeric_limits<double>::infinity());
    Tensor batch = b.reshape(dims.empty() ? x : b.reduce(op, x, dims)[0], {count});
    Tensor next = where(isinf(old), batch, old + (batch - old) * a.number("averaging_const"));
    return where(is_observing, next, old);
  };
  Tensor low = moved("running_min", ReduceOp::Min), high = moved("running_max", ReduceOp::Max);
  const QuantizationParameters chosen = parameters_for(low, high, a.number("quant_min"), a.number("quant_max"), a.flag("symmetric_quant"));
  Tensor is_quantizing = b.reshape(ne(a.tensor("fake_quant_on"), 0), {});
  auto updated = [&](const char* name, Tensor value, Tensor is_on) {
    Tensor old = a.tensor(name);
    if (old.numel().is_const(0)) return b.cast(value, old.dtype());
    return where(is_on, b.cast(b.reshape(value, old.sizes()), old.dtype()), old);
  };
  Tensor scale = updated("scale", chosen.scale, is_quantizing), zero_point = updated("zero_point", chosen.zero_point, is_quantizing);
  const FakeQuantized result =
      per_row ? fake_quantized(d, a, self, along(scale, x, axis), along(zero_point, x, axis))
              : fake_quantized(d, a, self, b.reshape(b.cast(scale, DType::F32), {}), b.reshape(b.cast(zero_point, DType::F32), {}));
  const FakeQuantized shown = if_enabled(d, a.tensor("fake_quant_on"), self, result);
  return {shown.output, shown.mask, updated("running_min", low, is_observing), updated("running_max", high, is_observing),
          scale,        zero_point};
}

// Its only result is the output; the updates follow it.
std::vector<Tensor> observe_without_mask(Decomposer& d, const Args& a) {
  std::vector<Tensor> results = observe(d, a);
  results.erase(results.begin() + 1);
  return results;
}

constexpr DecompositionRow kRows[] = {
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

std::span<const DecompositionRow> fake_quant_rows() { return kRows; }

}  // namespace toroid
