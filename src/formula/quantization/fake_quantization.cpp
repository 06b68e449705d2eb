#include "formula/quantization/fake_quantization.h"

#include <cmath>
#include <limits>

#include "formula/basics/channels.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"

namespace toroid::formula {

FakeQuantized fake_quantize(Tensor self, Tensor scale, Tensor zero_point, const FakeRange& range) {
  Builder& b = self.builder();
  Tensor x = wide(self);
  scale = b.cast(scale, x.dtype());
  zero_point = b.cast(zero_point, x.dtype());
  Tensor q = round(x * (1.0 / scale)) + zero_point;
  Tensor output = (minimum(maximum(q, range.low), range.high) - zero_point) * scale;
  return {b.cast(output, self.dtype()), (q >= range.low) & (q <= range.high)};
}

FakeQuantized if_enabled(Tensor enabled, Tensor x, const FakeQuantized& result) {
  Tensor is_on = x.builder().reshape(ne(enabled, 0), {});
  return {where(is_on, result.output, x), result.mask | !is_on};
}

Tensor whole_zero_point(Tensor zero_point, const FakeRange& range) { return minimum(maximum(round(zero_point), range.low), range.high); }

// ---- gradients ------------------------------------------------------------------------------------------------------

Tensor fake_quantize_backward(Tensor grad, Tensor mask) { return where(grad.builder().cast(mask, DType::Bool), grad, 0); }

LearnableGradients learnable_fake_quantize_backward(Tensor grad_out, Tensor self, Tensor scale, Tensor zero_point, const FakeRange& range,
                                                    double factor, const Dims& dims) {
  Builder& b = self.builder();
  Tensor x = wide(self), grad = wide(grad_out);
  scale = b.cast(scale, x.dtype());
  zero_point = b.cast(zero_point, x.dtype());
  Tensor inverse = 1.0 / scale;
  Tensor q = round(zero_point + x * inverse);
  Tensor is_inside = (q >= range.low) & (q <= range.high);
  Tensor end = where(q < range.low, range.low - zero_point, range.high - zero_point);
  Tensor error = ((q - zero_point) * scale - x) * inverse;
  Tensor for_scale = grad * where(is_inside, error, end) * factor;
  Tensor for_zero_point = where(is_inside, 0, -(grad * scale) * factor);
  auto total = [&](Tensor t) { return dims.empty() ? t : b.sum(t, dims); };
  return {b.cast(where(is_inside, grad, 0), self.dtype()), total(for_scale), total(for_zero_point)};
}

// ---- observers ------------------------------------------------------------------------------------------------------

QuantizationParameters parameters_for(Tensor low, Tensor high, const FakeRange& range, bool symmetric) {
  constexpr float kSmallestScale = 6.1e-5f;
  const auto [quant_min, quant_max] = range;
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

Observation observe(Tensor self, const ObserverState& state, Tensor observing, Tensor quantizing, const ObserverOptions& options) {
  Builder& b = self.builder();
  Tensor x = b.cast(self, DType::F32);
  const int64_t axis = options.axis ? b.wrap_dim(*options.axis, x.rank()) : 0;
  const Dims dims = options.axis ? all_but(x.rank(), axis) : b.wrap_dims({}, x.rank());
  Tensor is_observing = b.reshape(ne(observing, 0), {});
  const sym::Expr count = options.axis ? x.size(axis) : sym::Expr(1);
  auto moved = [&](Tensor running, ReduceOp op) {
    Tensor old = b.reshape(b.cast(running, DType::F32), {running.numel()});
    if (running.numel().is_const(0)) old = b.full({count}, DType::F32, std::numeric_limits<double>::infinity());
    Tensor batch = b.reshape(dims.empty() ? x : b.reduce(op, x, dims)[0], {count});
    Tensor next = where(isinf(old), batch, old + (batch - old) * options.averaging);
    return where(is_observing, next, old);
  };
  Tensor low = moved(state.running_min, ReduceOp::Min), high = moved(state.running_max, ReduceOp::Max);
  const QuantizationParameters chosen = parameters_for(low, high, options.range, options.symmetric);
  Tensor is_quantizing = b.reshape(ne(quantizing, 0), {});
  auto updated = [&](Tensor old, Tensor value, Tensor is_on) {
    if (old.numel().is_const(0)) return b.cast(value, old.dtype());
    return where(is_on, b.cast(b.reshape(value, old.sizes()), old.dtype()), old);
  };
  Tensor scale = updated(state.scale, chosen.scale, is_quantizing),
         zero_point = updated(state.zero_point, chosen.zero_point, is_quantizing);
  auto placed = [&](Tensor t) {
    t = b.cast(t, DType::F32);
    return options.axis ? along_dim_of(x, axis, t) : b.reshape(t, {});
  };
  const FakeQuantized result = fake_quantize(self, placed(scale), placed(zero_point), options.range);
  const FakeQuantized shown = if_enabled(quantizing, self, result);
  return {shown, {updated(state.running_min, low, is_observing), updated(state.running_max, high, is_observing), scale, zero_point}};
}

}  // namespace toroid::formula
