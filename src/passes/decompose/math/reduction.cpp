// Sums, means, extrema, variances and norms over dims.
//
// F16 and BF16 accumulate in F32; sums of integers and Bool are I64. Variances come from MeanM2 reductions. What follows from a sum or from moments
// alone is computed in F64 and rounded once, at the end.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "formula/basics/totals.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/reduced_dims.h"

namespace toroid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- sums and products ---------------------------------------------------------------------------------------------

DType sum_dtype(const Args& a, Tensor x) {
  if (const auto dtype = a.dtype("dtype")) return *dtype;
  return is_floating(x.dtype()) ? x.dtype() : DType::I64;
}
DType mean_dtype(const Args& a, Tensor x) { return as_floating(a.dtype("dtype").value_or(x.dtype())); }

// f(x, dims) of x in the wide form of `dtype`, rounded to it.
template <class F>
std::vector<Tensor> reduction(const Args& a, DType dtype, F f) {
  Tensor x = require_real(a.tensor("self"));
  Builder& b = x.builder();
  const OverDims over = over_dims(a, x);
  return {over.shaped(b.cast(f(b.cast(x, compute_dtype(dtype)), over.dims), dtype))};
}

std::vector<Tensor> sum(Decomposer& d, const Args& a) {
  return reduction(a, sum_dtype(a, a.tensor("self")), [&](Tensor x, const Dims& dims) { return d.b.sum(x, dims); });
}

Tensor without_nan(Tensor x) { return is_floating(x.dtype()) ? where(isnan(x), 0, x) : x; }

std::vector<Tensor> nansum(Decomposer& d, const Args& a) {
  return reduction(a, sum_dtype(a, a.tensor("self")), [&](Tensor x, const Dims& dims) { return d.b.sum(without_nan(x), dims); });
}

std::vector<Tensor> prod(Decomposer& d, const Args& a) {
  return reduction(a, sum_dtype(a, a.tensor("self")), [&](Tensor x, const Dims& dims) { return d.b.reduce(ReduceOp::Prod, x, dims)[0]; });
}

std::vector<Tensor> mean(Decomposer& d, const Args& a) {
  return reduction(a, mean_dtype(a, a.tensor("self")), [&](Tensor x, const Dims& dims) { return d.b.mean(x, dims); });
}

std::vector<Tensor> nanmean(Decomposer& d, const Args& a) {
  return reduction(a, mean_dtype(a, a.tensor("self")), [&](Tensor x, const Dims& dims) {
    return d.b.sum(without_nan(x), dims) / d.b.sum(d.b.cast(!isnan(x), x.dtype()), dims);
  });
}

std::vector<Tensor> count_nonzero(Decomposer& d, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  const OverDims over = over_dims(a, x);
  return {over.shaped(d.b.sum(d.b.cast(d.b.cast(x, DType::Bool), DType::I64), over.dims))};
}

// Back to the sizes that were broadcast to x's.
std::vector<Tensor> sum_to_size(Decomposer& d, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  if (!a.has("size")) return {x};
  const Sizes sizes = a.integers("size");
  const int64_t added = static_cast<int64_t>(dims_before(x, sizes.size()));
  Dims dims;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    const bool shrinks = dim >= added && sizes[static_cast<size_t>(dim - added)].is_const(1) && !x.size(dim).is_const(1);
    if (dim < added || shrinks) dims.push_back(dim);
  }
  if (dims.empty() && !sizes.empty()) return {x};
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : DType::I64;
  return {d.b.reshape(d.b.cast(d.b.sum(d.b.cast(x, compute_dtype(dtype)), dims), dtype), sizes)};
}

// ---- extrema -------------------------------------------------------------------------------------------------------

template <ReduceOp op>
std::vector<Tensor> extremum(Decomposer& d, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  const OverDims over = over_dims(a, x);
  return {over.shaped(d.b.reduce(op, x, over.dims)[0])};
}

std::vector<Tensor> aminmax(Decomposer& d, const Args& a) { return {extremum<ReduceOp::Min>(d, a)[0], extremum<ReduceOp::Max>(d, a)[0]}; }

// Without a dim the index is one into the flattened tensor.
template <ReduceOp op>
std::vector<Tensor> arg_extremum(Decomposer& d, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  const OverDims over = over_dims(a, x);
  const bool is_flat = over.dims.size() != 1;
  Tensor flat = is_flat ? d.b.reshape(x, {x.numel()}) : x;
  return {over.shaped(d.b.reduce(op, flat, is_flat ? Dims{0} : over.dims)[0])};
}

std::vector<Tensor> max_with_index(Decomposer& d, const Args& a) {
  return {extremum<ReduceOp::Max>(d, a)[0], arg_extremum<ReduceOp::ArgMax>(d, a)[0]};
}
std::vector<Tensor> min_with_index(Decomposer& d, const Args& a) {
  return {extremum<ReduceOp::Min>(d, a)[0], arg_extremum<ReduceOp::ArgMin>(d, a)[0]};
}

// U8 stands for Bool in PyTorch's oldest operators.
template <ReduceOp op>
std::vector<Tensor> truth(Decomposer& d, const Args& a) {
  Tensor result = extremum<op>(d, a)[0];
  return {a.tensor("self").dtype() == DType::U8 ? d.b.cast(result, DType::U8) : result};
}

// ---- variance ------------------------------------------------------------------------------------------------------

struct Moments {
  Tensor variance, mean;  // F64
};

// How far the divisor stays below the number of elements.
Scalar correction_of(const Args& a) {
  if (has_parameter(a, "correction")) return a.has("correction") ? a.scalar("correction") : Scalar(sym::Expr(1));
  return sym::Expr(a.flag("unbiased") ? 1 : 0);
}

Moments moments(Builder& b, Tensor x, const Dims& dims, const Scalar& correction) {
  const std::vector<Tensor> welford = reduce_in_f64(ReduceOp::MeanM2, x, dims);
  const sym::Expr count = count_along(x, dims);
  const auto* whole = std::get_if<sym::Expr>(&correction);
  Tensor divisor = whole != nullptr ? number_like(welford[1], sym::max(count - *whole, 0))
                                    : maximum(number_like(welford[1], count) - number_like(welford[1], correction), 0);
  return {welford[1] / divisor, welford[0]};
}

// The results in order: the variance or its root, then perhaps the mean.
std::vector<Tensor> spread(const Args& a, bool as_root, bool with_mean) {
  Tensor x = require_real(a.tensor("self"));
  Builder& b = x.builder();
  const OverDims over = over_dims(a, x);
  const Moments found = moments(b, b.cast(x, compute_dtype(as_floating(x.dtype()))), over.dims, correction_of(a));
  const DType dtype = as_floating(x.dtype());
  std::vector<Tensor> results = {over.shaped(b.cast(as_root ? sqrt(found.variance) : found.variance, dtype))};
  if (with_mean) results.push_back(over.shaped(b.cast(found.mean, dtype)));
  return results;
}
std::vector<Tensor> var(Decomposer&, const Args& a) { return spread(a, false, false); }
std::vector<Tensor> std_dev(Decomposer&, const Args& a) { return spread(a, true, false); }
std::vector<Tensor> var_mean(Decomposer&, const Args& a) { return spread(a, false, true); }
std::vector<Tensor> std_mean(Decomposer&, const Args& a) { return spread(a, true, true); }

// ---- norms ---------------------------------------------------------------------------------------------------------

// (sum |x|^p)^(1/p), with the limits of p at 0 and infinity; x is wide.
Tensor vector_norm(Tensor x, double p, const Dims& dims) {
  Builder& b = x.builder();
  if (p == 0) return b.sum(b.cast(ne(x, 0), x.dtype()), dims);
  if (p == 1) return b.sum(abs(x), dims);
  if (p == 2) return b.cast(sqrt(total(square(x), dims)), x.dtype());
  if (p == kInfinity) return b.amax(abs(x), dims);
  if (p == -kInfinity) return b.amin(abs(x), dims);
  return pow(b.sum(pow(abs(x), p), dims), 1 / p);
}

double order_of(const Args& a, std::string_view name) { return has_parameter(a, name) && a.has(name) ? a.number(name) : 2; }

DType norm_dtype(const Args& a) {
  const std::optional<DType> given = has_parameter(a, "dtype") ? a.dtype("dtype") : std::nullopt;
  return as_floating(given.value_or(a.tensor("self").dtype()));
}

std::vector<Tensor> linalg_vector_norm(Decomposer&, const Args& a) {
  return reduction(a, norm_dtype(a), [&](Tensor x, const Dims& dims) { return vector_norm(x, order_of(a, "ord"), dims); });
}
std::vector<Tensor> norm(Decomposer&, const Args& a) {
  return reduction(a, norm_dtype(a), [&](Tensor x, const Dims& dims) { return vector_norm(x, order_of(a, "p"), dims); });
}

std::vector<Tensor> dist(Decomposer& d, const Args& a) {
  const double p = a.number("p");
  return combine(
      d, a, as_floating(promoted_dtype(a, {"self", "other"})), [&](Tensor x, Tensor y) { return vector_norm(x - y, p, {}); }, "self",
      "other");
}

// The dims of x but one.
Dims all_but(Tensor x, int64_t kept) {
  Dims dims;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    if (dim != x.builder().wrap_dim(kept, x.rank())) dims.push_back(dim);
  }
  return dims;
}

std::vector<Tensor> norm_except_dim(Decomposer&, const Args& a) {
  Tensor v = require_real(a.tensor("v"));
  const int64_t dim = a.constant("dim");
  return {compute_wide(v, [&](Tensor x) {
    if (dim == -1) return vector_norm(x, a.number("pow"), {});
    const OverDims over = over_dims(x, all_but(x, dim), true);
    return over.shaped(vector_norm(x, a.number("pow"), over.dims));
  })};
}

// Scales each slice along a dim down to the largest norm allowed.
std::vector<Tensor> renorm(Decomposer&, const Args& a) {
  const double limit = a.number("maxnorm");
  return {compute_wide(require_real(a.tensor("self")), [&](Tensor x) {
    const OverDims over = over_dims(x, all_but(x, a.constant("dim")), true);
    Tensor norm = over.shaped(vector_norm(x, a.number("p"), over.dims));
    return x * where(norm > limit, limit / (norm + 1e-7), 1);
  })};
}

constexpr DecompositionRow kRows[] = {
    {"aten::sum", sum},
    {"aten::sum.dim_IntList", sum},
    {"aten::nansum", nansum},
    {"aten::prod", prod},
    {"aten::prod.dim_int", prod},
    {"aten::mean", mean},
    {"aten::mean.dim", mean},
    {"aten::nanmean", nanmean},
    {"aten::count_nonzero.*", count_nonzero},
    {"aten::sum_to_size", sum_to_size},
    {"aten::_grad_sum_to_size", sum_to_size},

    {"aten::amax", extremum<ReduceOp::Max>},
    {"aten::amin", extremum<ReduceOp::Min>},
    {"aten::max", extremum<ReduceOp::Max>},
    {"aten::min", extremum<ReduceOp::Min>},
    {"aten::max.dim", max_with_index},
    {"aten::min.dim", min_with_index},
    {"aten::aminmax", aminmax},
    {"aten::_aminmax.*", aminmax},
    {"aten::argmax", arg_extremum<ReduceOp::ArgMax>},
    {"aten::argmin", arg_extremum<ReduceOp::ArgMin>},
    {"aten::all", truth<ReduceOp::All>},
    {"aten::all.dim", truth<ReduceOp::All>},
    {"aten::all.dims", truth<ReduceOp::All>},
    {"aten::any", truth<ReduceOp::Any>},
    {"aten::any.dim", truth<ReduceOp::Any>},
    {"aten::any.dims", truth<ReduceOp::Any>},
    {"aten::_is_all_true", truth<ReduceOp::All>},
    {"aten::_is_any_true", truth<ReduceOp::Any>},

    {"aten::var.*", var},
    {"aten::std.*", std_dev},
    {"aten::var_mean.*", var_mean},
    {"aten::std_mean.*", std_mean},

    {"aten::linalg_vector_norm", linalg_vector_norm},
    {"aten::norm.Scalar", norm},
    {"aten::norm.ScalarOpt_dim", norm},
    {"aten::norm.ScalarOpt_dim_dtype", norm},
    {"aten::norm.ScalarOpt_dtype", norm},
    {"aten::frobenius_norm.dim", norm},
    {"aten::norm_except_dim", norm_except_dim},
    {"aten::dist", dist},
    {"aten::renorm", renorm},
};

}  // namespace

std::span<const DecompositionRow> reduction_rows() { return kRows; }

}  // namespace toroid
