// Histograms: counts or weights of the elements that fall between edges. A bin has its lower edge; the last one has
// both.
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/reduced_dims.h"
#include "passes/decompose/math/searching.h"

namespace toroid {
namespace {

struct Interval {
  Tensor low, high;
};

// Elements in each of `bins` equal intervals; without bounds between the smallest and the largest element.
std::vector<Tensor> histc(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor self = require_real(a.tensor("self"));
  const int64_t bins = a.constant("bins");
  const double min = a.number("min"), max = a.number("max");
  if (self.numel().is_const(0)) return {b.full({bins}, self.dtype(), 0.0)};
  const DType wide = compute_dtype(as_floating(self.dtype()));
  Tensor x = b.reshape(b.cast(self, wide), {self.numel()});
  Interval within{b.scalar(wide, min), b.scalar(wide, max)};
  if (min == max) within = {b.amin(x, {0}), b.amax(x, {0})};
  Tensor is_point = eq(within.low, within.high);
  Tensor low = where(is_point, within.low - 1.0, within.low);
  Tensor high = where(is_point, within.high + 1.0, within.high);
  Tensor is_inside = (x >= low) & (x <= high);
  Tensor place = where(is_inside, (x - low) * static_cast<double>(bins) / (high - low), 0);
  Tensor bin = minimum(b.cast(place, DType::I64), static_cast<int>(bins - 1));
  Tensor counts = b.scatter(b.full({bins}, wide, 0.0), b.cast(is_inside, wide), {bin}, ScatterMode::Add);
  return {b.cast(counts, self.dtype())};
}

// ---- over points with several coordinates --------------------------------------------------------------------------

// `count` equal bins, each edge computed from the nearer end. An interval that is a point is widened by half on both
// sides.
Tensor even_edges(Builder& b, Interval within, int64_t count) {
  if (count < 1 || count >= std::numeric_limits<int32_t>::max())
    throw Error(ErrorKind::InvalidModel, fmt::format("a histogram of {} bins", count));
  const DType dtype = within.low.dtype();
  Tensor is_point = eq(within.low, within.high);
  Tensor low = where(is_point, within.low - 0.5, within.low), high = where(is_point, within.high + 0.5, within.high);
  Tensor step = (high - low) / static_cast<double>(count);
  Tensor from_low = b.arange(count + 1), from_high = b.arange(count + 1, count, -1);
  return where(from_low < static_cast<int>((count + 1) / 2), low + step * b.cast(from_low, dtype), high - step * b.cast(from_high, dtype));
}

// How many of `edges` [n] are at most x, less one: the number of x's bin. With `even` edges it is guessed from the ends, and the
// guess, which rounding may put one bin off, compared with its edges; else it is searched for.
Tensor bin_of(Tensor x, Tensor edges, bool even) {
  Builder& b = x.builder();
  const sym::Expr count = edges.size(0) - 1;
  auto clamped = [&](Tensor bin) { return minimum(maximum(bin, 0), b.scalar(DType::I64, count - 1)); };
  const Tensor one = b.scalar(DType::I64, sym::Expr(1));
  if (!even) return clamped(insertion_points(edges, x, true) - one);
  const Tensor low = b.select(edges, 0, 0), high = b.select(edges, 0, count);
  const Tensor is_inside = (x >= low) & (x <= high);
  const Tensor guess = clamped(b.cast(where(is_inside, (x - low) * number_like(x, count) / (high - low), 0), DType::I64));
  const Tensor own = b.gather(edges, {guess}), next = b.gather(edges, {guess + one});
  return clamped(where(x < own, guess - one, where(x >= next, guess + one, guess)));
}

// points [n, d] and d lists of edges; each point counts as much as `weight` [n] says.
Tensor histogram_of(Builder& b, Tensor points, const std::vector<Tensor>& edges, bool even, Tensor weight, bool density) {
  Sizes sizes;
  std::vector<Tensor> bins;
  Tensor counts_for = weight;
  for (size_t i = 0; i < edges.size(); ++i) {
    const sym::Expr count = edges[i].size(0) - 1;
    sizes.push_back(count);
    Tensor x = b.select(points, 1, static_cast<int64_t>(i));
    Tensor first = b.select(edges[i], 0, 0), last = b.select(edges[i], 0, count);
    bins.push_back(bin_of(x, edges[i], even));
    counts_for = where((x >= first) & (x <= last), counts_for, 0);
  }
  Tensor histogram = b.scatter(b.full(sizes, weight.dtype(), 0.0), counts_for, bins, ScatterMode::Add);
  if (!density) return histogram;
  histogram = histogram / b.sum(histogram, {});
  for (size_t i = 0; i < edges.size(); ++i) {
    Sizes shape(sizes.size(), 1);
    shape[i] = sizes[i];
    Tensor width = b.slice(edges[i], 0, 1, sizes[i]) - b.slice(edges[i], 0, 0, sizes[i]);
    histogram = histogram / b.reshape(width, shape);
  }
  return histogram;
}

std::vector<double> range_of(const Args& a) {
  if (!has_parameter(a, "range") || !a.has("range")) return {};
  const Argument& argument = a.raw("range");
  if (const auto* reals = std::get_if<std::vector<double>>(&argument)) return *reals;
  const Dims integers = a.dims("range");
  return {integers.begin(), integers.end()};
}

// Edges are given, or counts of equal bins within the range (two bounds a coordinate) or between the extreme points.
std::vector<Tensor> histogram_with(Decomposer& d, const Args& a, Tensor points, const std::vector<Tensor>& given, const Dims& counts) {
  Builder& b = d.b;
  const std::vector<double> range = range_of(a);
  std::vector<Tensor> edges = given;
  for (size_t i = 0; i < counts.size(); ++i) {
    Tensor x = b.select(points, 1, static_cast<int64_t>(i));
    Interval within{number_like(x, 0.0), number_like(x, 1.0)};
    if (range.size() >= 2 * i + 2) {
      within = {number_like(x, range[2 * i]), number_like(x, range[2 * i + 1])};
    } else if (!x.numel().is_const(0)) {
      within = {b.amin(x, {0}), b.amax(x, {0})};
    }
    edges.push_back(even_edges(b, within, counts[i]));
  }
  if (sym::known_ne(static_cast<int64_t>(edges.size()), points.size(1))) {
    throw Error(ErrorKind::InvalidModel,
                fmt::format("a histogram with bins for {} coordinates of points with {}", edges.size(), sym::to_string(points.size(1))));
  }
  Tensor weight = b.full({points.size(0)}, points.dtype(), 1.0);
  if (a.has("weight")) weight = b.reshape(b.cast(a.tensor("weight"), points.dtype()), {points.size(0)});
  std::vector<Tensor> results = {histogram_of(b, points, edges, given.empty(), weight, a.flag("density"))};
  results.insert(results.end(), edges.begin(), edges.end());
  return results;
}

std::vector<Tensor> histogram(Decomposer& d, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  Tensor points = d.b.reshape(x, {x.numel(), 1});
  if (a.schema().name.ends_with(".bins_tensor")) return histogram_with(d, a, points, {a.tensor("bins")}, {});
  return histogram_with(d, a, points, {}, {a.constant("bins")});
}

std::vector<Tensor> histogramdd(Decomposer& d, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  const sym::Expr dims = x.size(-1);
  Sizes leading = x.sizes().without_last(1);
  Tensor points = d.b.reshape(x, {sym::product(leading), dims});
  if (a.schema().name.ends_with(".TensorList_bins")) return histogram_with(d, a, points, a.tensors("bins"), {});
  Dims counts = a.dims("bins");
  if (a.schema().name.ends_with(".int_bins") && dims.is_const()) {
    d.b.spend(dims, "dims");
    counts.resize(static_cast<size_t>(dims.value()), counts.front());
  }
  return histogram_with(d, a, points, {}, counts);
}

constexpr DecompositionRow kHistogramRows[] = {
    {"aten::histc", histc},
    {"aten::histogram.*", histogram},
    {"aten::histogramdd.*", histogramdd},
};

}  // namespace

std::span<const DecompositionRow> histogram_rows() { return kHistogramRows; }

}  // namespace toroid
