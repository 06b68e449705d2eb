#include "formula/nn/resampling_taps.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"

namespace toroid::formula {

Extent resampled(sym::Expr in, sym::Expr out, std::optional<double> factor) {
  for (sym::Expr size : {in, out}) {
    if (size.range().max >= 0) continue;
    throw Error(ErrorKind::InvalidModel, fmt::format("resampling a dim of {} elements to {}", sym::to_string(in), sym::to_string(out)));
  }
  return {in, out, factor};
}

std::optional<sym::Expr> scaled_size(sym::Expr in, double factor) {
  if (in.is_const() && factor >= 0) {
    const std::optional<int64_t> size = sym::scale(in.value(), factor);
    if (size) return *size;
  }
  if (!(factor >= 0 && factor < 0x1p31))
    throw Error(ErrorKind::InvalidModel, fmt::format("{} elements cannot be scaled by {}", sym::to_string(in), factor));
  if (factor == std::floor(factor)) return in * static_cast<int64_t>(factor);
  return std::nullopt;
}

// ---- positions and weights ------------------------------------------------------------------------------------------

DType position_dtype(Tensor x) { return x.dtype() == DType::F64 ? DType::F64 : DType::F32; }

Tensor scale_of(Builder& b, const Extent& e, bool align_corners, DType dtype) {
  auto number = [&](sym::Expr value) { return b.scalar(dtype, Scalar(value)); };
  if (align_corners) {
    if (e.out.is_const(1)) return number(0);
    return number(e.in - 1) / number(e.out - 1);
  }
  if (e.factor && *e.factor > 0) return b.scalar(dtype, 1.0 / *e.factor);
  return number(e.in) / number(e.out);
}

namespace {

Tensor output_positions(Builder& b, const Extent& e, DType dtype) { return b.arange(e.out, 0, 1, dtype); }

Tensor clamped_index(Tensor position, sym::Expr size) {
  Builder& b = position.builder();
  Tensor index = b.cast(position, DType::I64);
  return b.binary(ScalarOp::Min, b.binary(ScalarOp::Max, index, Scalar(sym::Expr(0))), Scalar(size - 1));
}

}  // namespace

std::vector<Tap> linear_taps(Builder& b, const Extent& e, bool align_corners, DType dtype) {
  Tensor scale = scale_of(b, e, align_corners, dtype);
  Tensor o = output_positions(b, e, dtype);
  Tensor s = align_corners ? o * scale : maximum((o + 0.5) * scale - 0.5, 0);
  Tensor low = floor(s), t = s - low;
  return {{clamped_index(low, e.in), 1.0 - t}, {clamped_index(low + 1.0, e.in), t}};
}

namespace {

// Keys' cubic kernel of parameter a, for |x| up to 1 and from 1 to 2.
Tensor cubic_near(Tensor x, double a) { return ((a + 2) * x - (a + 3)) * x * x + 1.0; }
Tensor cubic_far(Tensor x, double a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

}  // namespace

std::vector<Tap> cubic_taps(Builder& b, const Extent& e, bool align_corners, DType dtype) {
  constexpr double kSharpness = -0.75;
  Tensor scale = scale_of(b, e, align_corners, dtype);
  Tensor o = output_positions(b, e, dtype);
  Tensor s = align_corners ? o * scale : (o + 0.5) * scale - 0.5;
  Tensor low = floor(s), t = s - low;
  return {{clamped_index(low - 1.0, e.in), cubic_far(t + 1.0, kSharpness)},
          {clamped_index(low, e.in), cubic_near(t, kSharpness)},
          {clamped_index(low + 1.0, e.in), cubic_near(1.0 - t, kSharpness)},
          {clamped_index(low + 2.0, e.in), cubic_far(2.0 - t, kSharpness)}};
}

Tap nearest_tap(Builder& b, const Extent& e, double shift, DType dtype) {
  Tensor scale = scale_of(b, e, false, dtype);
  return {clamped_index(floor((output_positions(b, e, dtype) + shift) * scale), e.in), {}};
}

constexpr int64_t kMostExact = 1 << 24;

std::optional<sym::Expr> exact_nearest(const Extent& e, double shift, sym::Expr axis) {
  if (shift != 0) return std::nullopt;
  if (e.in.is_const() && e.out.is_const()) {
    const int64_t in = e.in.value(), out = e.out.value();
    // Positions of more elements than a float counts are not exact, and products below might overflow.
    if (in < 1 || in > kMostExact || out > kMostExact) return std::nullopt;
    const float scale = e.factor && *e.factor > 0 ? static_cast<float>(1.0 / *e.factor) : static_cast<float>(in) / static_cast<float>(out);
    for (int64_t o = 0; o < out; ++o) {
      const auto nearest = std::min(static_cast<int64_t>(std::floor(static_cast<float>(o) * scale)), in - 1);
      if (nearest != o * in / out) return std::nullopt;
    }
    const int64_t common = std::gcd(in, out);
    return sym::floor_div(axis * (in / common), out / common);
  }
  if (!sym::known_divisible(e.out, e.in)) return std::nullopt;
  const sym::Expr repeats = sym::floor_div(e.out, e.in);
  return repeats.is_const() ? std::optional(sym::floor_div(axis, repeats)) : std::nullopt;
}

namespace {

Tensor triangle(Tensor distance) { return maximum(1.0 - distance, 0); }
Tensor keys_cubic(Tensor distance) {
  constexpr double kSharpness = -0.5;
  Tensor far = where(distance < 2.0, cubic_far(distance, kSharpness), 0);
  return where(distance < 1.0, cubic_near(distance, kSharpness), far);
}

// sinc(x) sinc(x/3), for sinc(x) = sin(pi x)/(pi x)
Tensor lanczos(Tensor distance) {
  constexpr double kLobes = 3;
  Tensor angle = distance * std::numbers::pi;
  Tensor inside = sin(angle) * sin(angle / kLobes) * kLobes / square(angle);
  return where(eq(distance, 0), 1, where(distance < kLobes, inside, 0));
}

}  // namespace

Filter triangle_filter() { return {1, triangle}; }
Filter keys_cubic_filter() { return {2, keys_cubic}; }
Filter lanczos_filter() { return {3, lanczos}; }

FilterWindow filter_window(Builder& b, const Extent& e, bool align_corners, const Filter& filter, DType dtype) {
  if (!e.in.is_const() || !e.out.is_const()) {
    throw Error(ErrorKind::Unsupported, "antialiased upsampling of a symbolic size");
  }
  const double in = static_cast<double>(e.in.value()), out = static_cast<double>(e.out.value());
  const double scale = align_corners ? (out > 1 ? (in - 1) / (out - 1) : 0) : e.factor && *e.factor > 0 ? 1.0 / *e.factor : in / out;
  FilterWindow window;
  window.stretch = std::max(scale, 1.0);
  window.radius = filter.radius * window.stretch;
  // A radius that is longer than the input reaches all of it from anywhere.
  window.taps = static_cast<int64_t>(std::min(in, std::ceil(window.radius))) * 2 + 1;
  window.center = b.unsqueeze((output_positions(b, e, dtype) + 0.5) * scale, 1);
  auto whole = [&](Tensor position) { return b.cast(position, DType::I64); };  // truncates
  window.first = b.binary(ScalarOp::Max, whole(window.center - window.radius + 0.5), Scalar(sym::Expr(0)));
  window.end = b.binary(ScalarOp::Min, whole(window.center + window.radius + 0.5), Scalar(e.in));
  return window;
}

Tensor filter_weight(const FilterWindow& window, const Filter& filter, Tensor index) {
  Builder& b = index.builder();
  Tensor distance = abs(b.cast(index, window.center.dtype()) - window.center + 0.5) * (1.0 / window.stretch);
  Tensor inside = (index >= Term(window.first)) & (index < Term(window.end));
  return where(inside, filter.at(distance), 0);
}

}  // namespace toroid::formula
