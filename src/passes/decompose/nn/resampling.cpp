// ATen's upsamplings: nearest, linear, cubic and antialiased, in one to three dims.
#include "passes/decompose/nn/resampling.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/over_dims.h"
#include "formula/nn/resampling.h"

namespace toroid {

std::vector<std::optional<double>> scale_arguments(const Args& a, size_t spatial) {
  const std::string_view names[] = {"scales_d", "scales_h", "scales_w"};
  std::vector<std::optional<double>> factors(spatial);
  for (size_t i = 0; i < spatial; ++i) {
    const std::string_view name = spatial == 1 ? "scales" : names[3 - spatial + i];
    if (a.has(name)) factors[i] = a.number(name);
  }
  return factors;
}

namespace {

struct Resampling {
  Tensor x;
  std::vector<formula::Extent> extents;  // of the last dims
};

std::vector<double> number_list(const Args& a, std::string_view name) {
  const Argument& argument = a.raw(name);
  if (const auto* numbers = std::get_if<std::vector<double>>(&argument)) return *numbers;
  std::vector<double> list;
  for (int64_t value : a.dims(name)) list.push_back(static_cast<double>(value));
  return list;
}

sym::Expr scaled_size(Decomposer& d, sym::Expr in, double factor, size_t dim) {
  if (const std::optional<sym::Expr> size = formula::scaled_size(in, factor)) return *size;
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
    const sym::Expr size = out.empty() ? scaled_size(d, in, *factors[i], leading + i) : out[i];
    r.extents.push_back(formula::resampled(in, size, factors[i]));
  }
  return r;
}

// Where there are no dims to resample the argument may be None.
bool align_corners(const Args& a, const Resampling& r) { return !r.extents.empty() && a.flag("align_corners"); }

std::vector<Tensor> nearest(Decomposer& d, const Args& a, double shift) {
  const Resampling r = resampling(d, a);
  return {formula::upsample_nearest(r.x, r.extents, shift)};
}

std::vector<Tensor> upsample_nearest(Decomposer& d, const Args& a) { return nearest(d, a, 0); }
std::vector<Tensor> upsample_nearest_exact(Decomposer& d, const Args& a) { return nearest(d, a, 0.5); }

std::vector<Tensor> upsample_linear(Decomposer& d, const Args& a) {
  const Resampling r = resampling(d, a);
  return {formula::upsample_linear(r.x, r.extents, align_corners(a, r), d.resamples_by_dims)};
}
std::vector<Tensor> upsample_cubic(Decomposer& d, const Args& a) {
  const Resampling r = resampling(d, a);
  return {formula::upsample_cubic(r.x, r.extents, align_corners(a, r), d.resamples_by_dims)};
}

std::vector<Tensor> antialiased(Decomposer& d, const Args& a, const formula::Filter& filter) {
  const Resampling r = resampling(d, a);
  return {formula::resample_antialiased(r.x, r.extents, align_corners(a, r), filter)};
}

std::vector<Tensor> upsample_linear_aa(Decomposer& d, const Args& a) { return antialiased(d, a, formula::triangle_filter()); }
std::vector<Tensor> upsample_cubic_aa(Decomposer& d, const Args& a) { return antialiased(d, a, formula::keys_cubic_filter()); }
std::vector<Tensor> upsample_lanczos_aa(Decomposer& d, const Args& a) { return antialiased(d, a, formula::lanczos_filter()); }

constexpr DecompositionRow kResamplingRows[] = {
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

std::span<const DecompositionRow> resampling_rows() { return kResamplingRows; }

}  // namespace toroid
