// Upsampling: nearest, linear, cubic and antialiased, in one to three dims.
//
// Output position o along a dim reads a few input positions (taps), each with a weight; several dims multiply.
// Positions are computed inside the kernel from o.
#include "passes/decompose/nn/resampling.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"

namespace toroid {

Extent resampled(sym::Expr in, sym::Expr out, std::optional<double> factor) {
  for (sym::Expr size : {in, out}) {
    if (size.range().max >= 0) continue;
    throw Error(ErrorKind::InvalidModel, fmt::format("resampling a dim of {} elements to {}", sym::to_string(in), sym::to_string(out)));
  }
  return {in, out, factor};
}

// ---- positions and weights ------------------------------------------------------------------------------------------

std::vector<std::optional<double>> scale_arguments(const Args& a, size_t spatial) {
  const std::string_view names[] = {"scales_d", "scales_h", "scales_w"};
  std::vector<std::optional<double>> factors(spatial);
  for (size_t i = 0; i < spatial; ++i) {
    const std::string_view name = spatial == 1 ? "scales" : names[3 - spatial + i];
    if (a.has(name)) factors[i] = a.number(name);
  }
  return factors;
}

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

// ---- operators ------------------------------------------------------------------------------------------------------

namespace {

struct Resampling {
  Tensor x;
  std::vector<Extent> extents;  // of the last dims
};

std::vector<double> number_list(const Args& a, std::string_view name) {
  const Argument& argument = a.raw(name);
  if (const auto* numbers = std::get_if<std::vector<double>>(&argument)) return *numbers;
  std::vector<double> list;
  for (int64_t value : a.dims(name)) list.push_back(static_cast<double>(value));
  return list;
}

sym::Expr scaled_size(Decomposer& d, sym::Expr in, double factor, size_t dim) {
  if (in.is_const() && factor >= 0) {
    const std::optional<int64_t> size = sym::scale(in.value(), factor);
    if (size) return *size;
  }
  if (!(factor >= 0 && factor < 0x1p31))
    throw Error(ErrorKind::InvalidModel, fmt::format("{} elements cannot be scaled by {}", sym::to_string(in), factor));
  if (factor == std::floor(factor)) return in * static_cast<int64_t>(factor);
  if (!d.recorded.empty() && dim < d.recorded[0].sizes.size()) return d.recorded[0].sizes[dim];
  throw Error(ErrorKind::Unsupported, fmt::format("upsampling a symbolic size by {}", factor));
}

// The overloads "vec" take scale_factors as a list, the others one argument a dim.
Resampling resampling(Decomposer& d, const Args& a) {
  const bool is_list = a.schema().parameters[0].name == "input";
  Resampling r{a.tensor(is_list ? "input" : "self"), {}};
  const size_t leading = 2, spatial = dims_before(r.x, leading);
  std::vector<std::optional<double>> factors(spatial);
  if (is_list) {
    if (a.has("scale_factors")) {
      const std::vector<double> list = number_list(a, "scale_factors");
      for (size_t i = 0; i < spatial && i < list.size(); ++i) factors[i] = list[i];
    }
  } else {
    factors = scale_arguments(a, spatial);
  }
  const Sizes out = a.has("output_size") ? a.integers("output_size") : Sizes{};
  for (size_t i = 0; i < spatial; ++i) {
    const sym::Expr in = r.x.sizes()[leading + i];
    if (out.empty() && !factors[i]) throw Error(ErrorKind::InvalidModel, "upsampling needs sizes or scale factors");
    r.extents.push_back(resampled(in, out.empty() ? scaled_size(d, in, *factors[i], leading + i) : out[i], factors[i]));
  }
  return r;
}

// The sum over all combinations of taps, one a dim, of the element times the weights. `index` holds the dims chosen so
// far.
Tensor weighted_sum(Tensor x, const std::vector<std::vector<Tap>>& taps, std::vector<Tensor> index) {
  Builder& b = x.builder();
  const size_t done = index.size() - 2;
  if (done == taps.size()) return wide(b.gather(x, index));
  Sizes along(x.sizes().size(), 1);
  Tensor sum;
  for (const Tap& tap : taps[done]) {
    along[index.size()] = tap.index.size(0);
    std::vector<Tensor> chosen = index;
    chosen.push_back(b.reshape(tap.index, along));
    Tensor term = weighted_sum(x, taps, std::move(chosen)) * b.reshape(tap.weight, along);
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

using Taps = std::vector<Tap> (*)(Builder& b, const Extent& e, bool align_corners, DType dtype);

std::vector<Tensor> interpolate(Decomposer& d, const Args& a, Taps taps_of) {
  const Resampling r = resampling(d, a);
  std::vector<std::vector<Tap>> taps;
  for (const Extent& e : r.extents) taps.push_back(taps_of(d.b, e, a.flag("align_corners"), position_dtype(r.x)));
  const int64_t rank = r.x.rank();
  const std::vector<Tensor> leading = {positions(d.b, r.x.size(0), 0, rank), positions(d.b, r.x.size(1), 1, rank)};
  return {d.b.cast(weighted_sum(r.x, taps, leading), r.x.dtype())};
}

std::vector<Tensor> upsample_linear(Decomposer& d, const Args& a) { return interpolate(d, a, linear_taps); }
std::vector<Tensor> upsample_cubic(Decomposer& d, const Args& a) { return interpolate(d, a, cubic_taps); }

// ---- nearest --------------------------------------------------------------------------------------------------------

// Output o is the input at floor((o + shift)*scale).
std::vector<Tensor> nearest(Decomposer& d, const Args& a, double shift) {
  Builder& b = d.b;
  const Resampling r = resampling(d, a);
  Sizes axes = {b.axis(r.x.size(0)), b.axis(r.x.size(1))}, index = axes;
  for (const Extent& e : r.extents) {
    const std::optional<sym::Expr> exact = exact_nearest(e, shift, axes.emplace_back(b.axis(e.out)));
    if (exact) index.push_back(*exact);
  }
  if (index.size() == axes.size()) return {b.remap(r.x, axes, index)};
  const int64_t rank = r.x.rank();
  std::vector<Tensor> tensors = {positions(b, r.x.size(0), 0, rank), positions(b, r.x.size(1), 1, rank)};
  for (const Extent& e : r.extents) {
    Sizes along(r.x.sizes().size(), 1);
    along[tensors.size()] = e.out;
    tensors.push_back(b.reshape(nearest_tap(b, e, shift, position_dtype(r.x)).index, along));
  }
  return {b.gather(r.x, tensors)};
}

std::vector<Tensor> upsample_nearest(Decomposer& d, const Args& a) { return nearest(d, a, 0); }
std::vector<Tensor> upsample_nearest_exact(Decomposer& d, const Args& a) { return nearest(d, a, 0.5); }

// ---- antialiased ----------------------------------------------------------------------------------------------------

// Resamples dim `dim` alone: [.., in, ..] -> [.., out, ..].
Tensor filter_dim(Tensor x, int64_t dim, const Extent& e, bool align_corners, const Filter& filter) {
  Builder& b = x.builder();
  const FilterWindow window = filter_window(b, e, align_corners, filter, x.dtype());
  Tensor index = window.first + b.arange(window.taps);  // [out, taps]
  Tensor weight = filter_weight(window, filter, index);
  weight = weight / b.keep(b.sum(weight, {1}), {1});
  index = b.binary(ScalarOp::Min, index, Scalar(e.in - 1));

  const AdvancedIndex selected = index_one_dim(x, dim, index);
  Sizes weight_sizes = {e.out, window.taps};
  weight_sizes.resize(weight_sizes.size() + static_cast<size_t>(x.rank() - 1 - dim), 1);
  return b.sum(b.gather(x, selected.per_dim) * b.reshape(weight, weight_sizes), {dim + 1});
}

std::vector<Tensor> antialiased(Decomposer& d, const Args& a, const Filter& filter) {
  const Resampling r = resampling(d, a);
  Tensor y = wide(r.x);
  for (size_t i = r.extents.size(); i-- > 0;) {
    y = filter_dim(y, static_cast<int64_t>(i) + 2, r.extents[i], a.flag("align_corners"), filter);
  }
  return {d.b.cast(y, r.x.dtype())};
}

std::vector<Tensor> upsample_linear_aa(Decomposer& d, const Args& a) { return antialiased(d, a, triangle_filter()); }
std::vector<Tensor> upsample_cubic_aa(Decomposer& d, const Args& a) { return antialiased(d, a, keys_cubic_filter()); }
std::vector<Tensor> upsample_lanczos_aa(Decomposer& d, const Args& a) { return antialiased(d, a, lanczos_filter()); }

constexpr DecompositionRow kRows[] = {
    {"aten::upsample_nearest1d.*", upsample_nearest},
    {"aten::upsample_nearest2d.*", upsample_nearest},
    {"aten::upsample_nearest3d.*", upsample_nearest},
    {"aten::_upsample_nearest_exact1d.*", upsample_nearest_exact},
    {"aten::_upsample_nearest_exact2d.*", upsample_nearest_exact},
    {"aten::_upsample_nearest_exact3d.*", upsample_nearest_exact},
    {"aten::upsample_linear1d.*", upsample_linear},
    {"aten::upsample_bilinear2d.*", upsample_linear},
    {"aten::upsample_trilinear3d.*", upsample_linear},
    {"aten::upsample_bicubic2d.*", upsample_cubic},
    {"aten::_upsample_bilinear2d_aa.*", upsample_linear_aa},
    {"aten::_upsample_bicubic2d_aa.*", upsample_cubic_aa},
    {"aten::_upsample_lanczos2d_aa.*", upsample_lanczos_aa},
};

}  // namespace

std::span<const DecompositionRow> resampling_rows() { return kRows; }

}  // namespace toroid
