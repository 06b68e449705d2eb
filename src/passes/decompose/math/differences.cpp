// Differences of neighbours along a dim, and the integrals and derivatives of samples made of them.
#include <algorithm>

#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/reduced_dims.h"

namespace toroid {
namespace {

// ---- neighbours ----------------------------------------------------------------------------------------------------

// All elements along a dim but the first `skip`, or but the last.
Tensor without_first(Tensor x, int64_t dim, int64_t skip = 1) { return x.builder().slice(x, dim, skip, x.size(dim) - skip); }
Tensor without_last(Tensor x, int64_t dim, int64_t skip = 1) { return x.builder().slice(x, dim, 0, x.size(dim) - skip); }

// Bool differs where its neighbours do.
Tensor step_between(Tensor x, int64_t dim) {
  Tensor next = without_first(x, dim), last = without_last(x, dim);
  return x.dtype() == DType::Bool ? ne(next, last) : next - last;
}

std::vector<Tensor> diff(Decomposer& d, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), x.rank());
  if (a.constant_in("n", 0, kMaxSteps) == 0) return {x};
  std::vector<Tensor> parts;
  if (a.has("prepend")) parts.push_back(a.tensor("prepend"));
  parts.push_back(x);
  if (a.has("append")) parts.push_back(a.tensor("append"));
  if (parts.size() > 1) x = d.call1("aten::cat", {parts, dim});
  for (int64_t n = a.constant("n"); n > 0; --n) {
    if (x.size(dim).is_const(0)) break;
    x = step_between(x, dim);
  }
  return {x};
}

// ---- integrals -----------------------------------------------------------------------------------------------------

// Twice the areas between neighbours under y, whose places are x (rank 1: the same for every row), in `dtype`. Distances and sums of
// neighbours have the dtypes of their tensors: small integers wrap around.
Tensor double_areas(Tensor y, Tensor x, int64_t dim, DType dtype) {
  Builder& b = y.builder();
  Sizes sizes(y.sizes().size(), 1);
  if (x.rank() == 1) {
    sizes[static_cast<size_t>(dim)] = x.size(0);
    x = b.reshape(x, sizes);
  } else if (x.rank() < y.rank()) {
    std::copy(x.sizes().rbegin(), x.sizes().rend(), sizes.rbegin());
    x = b.reshape(x, sizes);
  }
  const Tensor distances = b.cast(wide(without_first(x, dim)) - wide(without_last(x, dim)), x.dtype());
  const Tensor heights = b.cast(wide(without_first(y, dim)) + wide(without_last(y, dim)), y.dtype());
  return b.cast(distances, dtype) * b.cast(heights, dtype);
}

// The areas times 1 / `unit`, in a dtype to sum them in.
struct Areas {
  Tensor areas;
  double unit;
  int64_t dim;
  DType dtype;  // of the integral
};
Areas areas_of(const Args& a) {
  Tensor y = require_real(a.tensor("y"));
  Builder& b = y.builder();
  const int64_t dim = b.wrap_dim(a.constant("dim"), y.rank());
  DType dtype = y.dtype();
  Tensor areas;
  double unit = 0.5;
  if (has_parameter(a, "x")) {
    Tensor x = require_real(a.tensor("x"));
    dtype = result_dtype(std::vector<Tensor>{y, x});
    areas = double_areas(y, x, dim, compute_dtype(dtype));
  } else {
    y = b.cast(y, compute_dtype(dtype));
    areas = without_first(y, dim) + without_last(y, dim);
    unit = a.number("dx") / 2;
  }
  if (!is_floating(dtype)) areas = b.cast(areas, DType::I64);
  return {areas, unit, dim, as_floating(dtype)};
}

std::vector<Tensor> trapezoid(Decomposer& d, const Args& a) {
  Tensor y = require_real(a.tensor("y"));
  const OverDims over = over_dims(y, {a.constant("dim")}, false);
  if (count_along(y, over.dims).is_const(0)) return {d.b.full(over.sizes, y.dtype(), 0.0)};
  if (has_parameter(a, "x")) {
    const Areas found = areas_of(a);
    return {d.b.cast(d.b.sum(found.areas, {found.dim}) * found.unit, found.dtype)};
  }
  // All but half of the ends, which decides what infinities and integers that wrap around give.
  const DType dtype = as_floating(y.dtype()), wide = compute_dtype(dtype);
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), y.rank());
  y = d.b.cast(y, compute_dtype(y.dtype()));
  const sym::Expr count = y.size(dim);
  if (!sym::known_lt(0, count)) {  // of nothing the integral is 0
    Sizes none(y.sizes().size(), 0), missing = none;
    missing[static_cast<size_t>(dim)] = sym::max(1 - count, 0);
    y = d.b.pad(y, none, missing, 0.0);
  }
  Tensor ends = d.b.cast(d.b.select(y, dim, 0) + d.b.select(y, dim, y.size(dim) - 1), wide);
  Tensor all = d.b.sum(is_floating(y.dtype()) ? y : d.b.cast(y, DType::I64), {dim});
  return {d.b.cast((d.b.cast(all, wide) - ends * 0.5) * a.number("dx"), dtype)};
}

std::vector<Tensor> cumulative_trapezoid(Decomposer& d, const Args& a) {
  const Tensor y = a.tensor("y");
  if (y.rank() > 0 && y.size(a.constant("dim")).is_const(0)) return {d.b.full(y.sizes(), as_floating(y.dtype()), 0.0)};
  const Areas found = areas_of(a);
  // Of integers the sums wrap around where samples have places, and are of floats where they have a distance.
  if (has_parameter(a, "x")) return {d.b.cast(d.b.scan(ScanOp::Sum, found.areas, found.dim)[0] * found.unit, found.dtype)};
  const Tensor areas = d.b.cast(found.areas, compute_dtype(found.dtype)) * found.unit;
  return {d.b.cast(d.b.scan(ScanOp::Sum, areas, found.dim)[0], found.dtype)};
}

// ---- derivatives ---------------------------------------------------------------------------------------------------

// A list of numbers, integers or not.
std::vector<double> numbers(const Args& a, std::string_view name) {
  const Argument& argument = a.raw(name);
  if (const auto* reals = std::get_if<std::vector<double>>(&argument)) return *reals;
  const Dims integers = a.dims(name);
  return {integers.begin(), integers.end()};
}

// Where the samples along one dim lie: evenly, or at given places.
struct Spacing {
  double step = 1;
  Tensor places = {};
};

Tensor element(Tensor x, int64_t dim, sym::Expr i) { return x.builder().slice(x, dim, i, 1); }

// Second order inside, first or second order at the two ends. Differences of integers are integers, and wrap as such.
Tensor derivative(Tensor samples, int64_t dim, const Spacing& spacing, bool second_order_ends) {
  Builder& b = samples.builder();
  const DType dtype = compute_dtype(as_floating(samples.dtype()));
  const bool is_whole = !is_floating(samples.dtype());
  Tensor y = b.cast(samples, dtype), exact = is_whole ? samples : y;
  const sym::Expr last = y.size(dim) - 1;
  if (spacing.places.defined()) {
    Sizes sizes(y.sizes().size(), 1);
    sizes[static_cast<size_t>(dim)] = y.size(dim);
    Tensor h = step_between(b.reshape(b.cast(spacing.places, y.dtype()), sizes), dim);
    Tensor before = without_last(h, dim), after = without_first(h, dim);
    Tensor slope = b.cast(step_between(exact, dim), dtype) / h;
    // The slopes on both sides, the nearer one counting more.
    Tensor inside = (without_last(slope, dim) * after + without_first(slope, dim) * before) / (before + after);
    Tensor low = element(slope, dim, 0), high = element(slope, dim, last - 1);
    if (second_order_ends) {
      Tensor h0 = element(h, dim, 0), h1 = element(h, dim, 1);
      Tensor g0 = element(h, dim, last - 2), g1 = element(h, dim, last - 1);
      low = low - (element(slope, dim, 1) - low) * h0 / (h0 + h1);
      high = high + (high - element(slope, dim, last - 2)) * g1 / (g0 + g1);
    }
    return b.cat({low, inside, high}, dim);
  }
  const double h = spacing.step;
  auto difference = [&](Tensor p, Tensor q) { return b.cast(p - q, dtype); };
  Tensor inside = difference(without_first(exact, dim, 2), without_last(exact, dim, 2)) / (2 * h);
  auto at = [&](sym::Expr i) { return element(y, dim, i); };
  auto exact_at = [&](sym::Expr i) { return element(exact, dim, i); };
  Tensor low = difference(exact_at(1), exact_at(0)) / h, high = difference(exact_at(last), exact_at(last - 1)) / h;
  if (second_order_ends) {
    auto twice = [&](sym::Expr i) { return b.cast(exact_at(i) + exact_at(i), dtype); };
    low = (twice(1) - at(0) * 1.5 - at(2) * 0.5) / h;
    high = (at(last) * 1.5 - twice(last - 1) + at(last - 2) * 0.5) / h;
  }
  return b.cat({low, inside, high}, dim);
}

std::vector<Tensor> gradient(Decomposer& d, const Args& a) {
  Tensor self = require_real(a.tensor("self"));
  Dims dims = has_parameter(a, "dim") && a.has("dim") ? a.dims("dim") : Dims{};
  if (dims.empty()) dims = d.b.wrap_dims({}, self.rank());
  std::vector<Spacing> spacing(dims.size());
  if (has_parameter(a, "spacing") && a.has("spacing")) {
    if (std::holds_alternative<InputList>(a.raw("spacing"))) {
      const Tensors places = a.tensors("spacing");
      for (size_t i = 0; i < dims.size(); ++i) spacing[i].places = places[i];
    } else if (is_number_argument(a, "spacing")) {
      for (Spacing& each : spacing) each.step = a.number("spacing");
    } else {
      const List<double> steps = numbers(a, "spacing");
      for (size_t i = 0; i < dims.size(); ++i) spacing[i].step = steps[i];
    }
  }
  std::vector<Tensor> results;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = d.b.wrap_dim(dims[i], self.rank());
    results.push_back(d.b.cast(derivative(self, dim, spacing[i], a.constant("edge_order") == 2), as_floating(self.dtype())));
  }
  return results;
}

constexpr DecompositionRow kDifferenceRows[] = {
    {"aten::diff", diff},           {"aten::trapezoid.*", trapezoid},
    {"aten::trapz.*", trapezoid},   {"aten::cumulative_trapezoid.*", cumulative_trapezoid},
    {"aten::gradient.*", gradient},
};

}  // namespace

std::span<const DecompositionRow> difference_rows() { return kDifferenceRows; }

}  // namespace toroid
