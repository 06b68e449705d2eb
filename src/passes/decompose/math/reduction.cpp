// ATen's sums, means, extrema, variances and norms over dims.
//
// F16 and BF16 accumulate in F32; sums of integers and Bool are I64.
#include "formula/math/reduction.h"

#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/reduced_dims.h"

namespace toroid {
namespace {

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

std::vector<Tensor> nansum(Decomposer&, const Args& a) { return reduction(a, sum_dtype(a, a.tensor("self")), formula::nansum); }

std::vector<Tensor> prod(Decomposer& d, const Args& a) {
  return reduction(a, sum_dtype(a, a.tensor("self")), [&](Tensor x, const Dims& dims) { return d.b.reduce(ReduceOp::Prod, x, dims)[0]; });
}

std::vector<Tensor> mean(Decomposer& d, const Args& a) {
  return reduction(a, mean_dtype(a, a.tensor("self")), [&](Tensor x, const Dims& dims) { return d.b.mean(x, dims); });
}

std::vector<Tensor> nanmean(Decomposer&, const Args& a) { return reduction(a, mean_dtype(a, a.tensor("self")), formula::nanmean); }

std::vector<Tensor> count_nonzero(Decomposer&, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  const OverDims over = over_dims(a, x);
  return {over.shaped(formula::count_nonzero(x, over.dims))};
}

std::vector<Tensor> sum_to_size(Decomposer&, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  return {a.has("size") ? formula::sum_to_size(x, a.integers("size")) : x};
}

// ---- extrema -------------------------------------------------------------------------------------------------------

template <ReduceOp op>
std::vector<Tensor> extremum(Decomposer& d, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  const OverDims over = over_dims(a, x);
  return {over.shaped(d.b.reduce(op, x, over.dims)[0])};
}

std::vector<Tensor> aminmax(Decomposer& d, const Args& a) { return {extremum<ReduceOp::Min>(d, a)[0], extremum<ReduceOp::Max>(d, a)[0]}; }

template <ReduceOp op>
std::vector<Tensor> arg_extremum(Decomposer&, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  return {formula::arg_extremum(op, x, over_dims(a, x))};
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

// How far the divisor stays below the number of elements.
Scalar correction_of(const Args& a) {
  if (has_parameter(a, "correction")) return a.has("correction") ? a.scalar("correction") : Scalar(sym::Expr(1));
  return sym::Expr(a.flag("unbiased") ? 1 : 0);
}

// The results in order: the variance or its root, then perhaps the mean.
std::vector<Tensor> spread(const Args& a, bool as_root, bool with_mean) {
  Tensor x = require_real(a.tensor("self"));
  Builder& b = x.builder();
  const OverDims over = over_dims(a, x);
  const formula::Spread found = formula::spread(b.cast(x, compute_dtype(as_floating(x.dtype()))), over.dims, correction_of(a));
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

double order_of(const Args& a, std::string_view name) { return has_parameter(a, name) && a.has(name) ? a.number(name) : 2; }

DType norm_dtype(const Args& a) {
  const std::optional<DType> given = has_parameter(a, "dtype") ? a.dtype("dtype") : std::nullopt;
  return as_floating(given.value_or(a.tensor("self").dtype()));
}

std::vector<Tensor> linalg_vector_norm(Decomposer&, const Args& a) {
  return reduction(a, norm_dtype(a), [&](Tensor x, const Dims& dims) { return formula::vector_norm(x, order_of(a, "ord"), dims); });
}
std::vector<Tensor> norm(Decomposer&, const Args& a) {
  return reduction(a, norm_dtype(a), [&](Tensor x, const Dims& dims) { return formula::vector_norm(x, order_of(a, "p"), dims); });
}

std::vector<Tensor> dist(Decomposer& d, const Args& a) {
  const double p = a.number("p");
  return combine(
      d, a, as_floating(promoted_dtype(a, {"self", "other"})), [&](Tensor x, Tensor y) { return formula::vector_norm(x - y, p, {}); },
      "self", "other");
}

std::vector<Tensor> norm_except_dim(Decomposer&, const Args& a) {
  Tensor v = require_real(a.tensor("v"));
  const int64_t dim = a.constant("dim");
  return {compute_wide(v, [&](Tensor x) {
    return dim == -1 ? formula::vector_norm(x, a.number("pow"), {}) : formula::norm_except_dim(x, a.number("pow"), dim);
  })};
}

std::vector<Tensor> renorm(Decomposer&, const Args& a) {
  return {compute_wide(require_real(a.tensor("self")),
                       [&](Tensor x) { return formula::renorm(x, a.number("p"), a.constant("dim"), a.number("maxnorm")); })};
}

constexpr DecompositionRow kReductionRows[] = {
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

std::span<const DecompositionRow> reduction_rows() { return kReductionRows; }

}  // namespace toroid
