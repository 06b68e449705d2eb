// Quantiles, covariances and correlations.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"

namespace toroid {
namespace {

// ---- quantiles ------------------------------------------------------------------------------------------------------

// Where in a sorted row of n elements quantile q lies is q*(n - 1), in general between two of them; `interpolation`
// says what is taken there. A row with a NaN gives NaN; with `ignore_nan` its NaNs, which sort last, do not count.
//
// The dims of q come first in the result, the rows after them.
Tensor quantile_of(Decomposer& d, const Args& a, bool ignore_nan) {
  Builder& b = d.b;
  Tensor self = require_real(a.tensor("self"));
  const DType dtype = self.dtype();
  if (dtype != DType::F32 && dtype != DType::F64) {
    throw Error(ErrorKind::InvalidModel, fmt::format("quantile of {}, not f32 or f64", to_string(dtype)));
  }
  const std::string interpolation = a.text("interpolation");
  const bool keepdim = a.flag("keepdim"), flat = !a.has("dim");
  Tensor q = operand(d, a, "q", dtype);
  if (q.rank() > 1) throw Error(ErrorKind::InvalidModel, "quantiles must be a number or a vector of them");

  // Rows are the last dim.
  Tensor x = flat || self.rank() == 0 ? b.reshape(self, {self.numel()}) : self;
  const int64_t dim = flat ? 0 : b.wrap_dim(a.constant("dim"), std::max<int64_t>(self.rank(), 1));
  x = b.transpose(x, dim, -1);
  const sym::Expr count = x.size(-1);
  Tensor sorted = b.sort(x, -1, false, true).first;
  Tensor is_nan = isnan(sorted);
  Tensor last;  // the position of a row's last element that counts
  if (ignore_nan) {
    Tensor nans = over_dims(sorted, {-1}, true).shaped(b.sum(b.cast(is_nan, DType::I64), {-1}));
    last = b.cast(b.scalar(DType::I64, count - 1) - nans, dtype);
  } else {
    last = number_like(sorted, count - 1);
  }
  Tensor by_row = b.reshape(q, {q.numel()});
  Tensor rank = maximum(by_row * last, 0);  // [rows…, quantiles]
  if (!ignore_nan) {
    Tensor any_nan = over_dims(is_nan, {-1}, true).shaped(b.reduce(ReduceOp::Any, is_nan, {-1})[0]);
    rank = where(any_nan, number_like(rank, count - 1), rank);  // where the NaN is
  }
  if (interpolation == "lower") rank = floor(rank);
  if (interpolation == "higher") rank = apply(ScalarOp::Ceil, rank);
  if (interpolation == "nearest") rank = round(rank);
  Sizes sizes = sorted.sizes();
  sizes.back() = by_row.size(0);
  rank = b.expand(rank, sizes);
  auto element = [&](Tensor position) { return b.gather(sorted, index_along(b.cast(position, DType::I64), sorted.rank() - 1)); };
  Tensor low = floor(rank), found = element(low);
  if (interpolation == "linear" || interpolation == "midpoint") {
    Tensor above = element(apply(ScalarOp::Ceil, rank));
    Tensor weight = interpolation == "linear" ? rank - low : number_like(rank, 0.5);
    found = where(abs(weight) < 0.5, found + weight * (above - found), above - (above - found) * (1.0 - weight));
  } else if (interpolation != "lower" && interpolation != "higher" && interpolation != "nearest") {
    throw Error(ErrorKind::InvalidModel, fmt::format("quantile interpolation '{}'", interpolation));
  }

  // Quantiles come first, and the dim goes back to its place.
  Dims order = {found.rank() - 1};
  for (int64_t i = 0; i + 1 < found.rank(); ++i) order.push_back(i);
  found = b.unsqueeze(b.permute(found, order), -1);
  if (flat && keepdim) {
    Sizes sizes_of_one(static_cast<size_t>(self.rank()) + 1, 1);
    sizes_of_one[0] = by_row.size(0);
    found = b.reshape(found, sizes_of_one);
  } else {
    found = b.transpose(found, dim + 1, -1);
    if (!keepdim || self.rank() == 0) found = b.squeeze(found, dim + 1);
  }
  return q.rank() == 0 ? b.squeeze(found, 0) : found;
}

std::vector<Tensor> quantile(Decomposer& d, const Args& a) { return {quantile_of(d, a, false)}; }
std::vector<Tensor> nanquantile(Decomposer& d, const Args& a) { return {quantile_of(d, a, true)}; }

// ---- covariances ----------------------------------------------------------------------------------------------------

// Rows are variables, columns observations, which count as often as `fweights` and as much as `aweights` say:
//   cov = (X - mean) diag(w) (X - mean)^T / (sum w - correction * sum(w * aweights) / sum w)
std::vector<Tensor> covariance(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor self = require_real(a.tensor("self"));
  const DType dtype = as_floating(self.dtype()), wide = compute_dtype(dtype);
  const double correction = static_cast<double>(a.constant("correction"));
  const bool is_vector = self.rank() < 2;
  Tensor x = b.cast(is_vector ? b.reshape(self, {1, self.numel()}) : self, wide);
  const sym::Expr count = x.size(1);
  Tensor weights;
  if (a.has("fweights")) weights = b.reshape(b.cast(a.tensor("fweights"), wide), {count});
  if (a.has("aweights")) {
    Tensor by_importance = b.reshape(b.cast(a.tensor("aweights"), wide), {count});
    weights = weights.defined() ? weights * by_importance : by_importance;
  }
  Tensor total = weights.defined() ? b.sum(weights, {0}) : number_like(x, count);
  Tensor mean = b.sum(weights.defined() ? x * weights : x, {1}) / total;
  Tensor norm;
  if (weights.defined() && a.has("aweights") && correction != 0) {
    Tensor by_importance = b.reshape(b.cast(a.tensor("aweights"), wide), {count});
    norm = total - b.sum(weights * by_importance, {0}) / total * correction;
  } else {
    norm = total - correction;
  }
  Tensor centred = x - b.unsqueeze(mean, 1);
  Tensor weighted = weights.defined() ? centred * weights : centred;
  Tensor product = b.matmul(centred, b.transpose(weighted, 0, 1));
  Tensor result = b.cast(product / maximum(norm, 0), dtype);
  return {is_vector ? b.reshape(result, {}) : result};
}

std::vector<Tensor> correlation(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor cov = d.call1("aten::cov", {a.tensor("self")});
  if (cov.rank() == 0) return {cov / cov};
  const sym::Expr count = cov.size(0);
  Tensor position = b.iota({count}, 0);
  Tensor deviation = sqrt(b.gather(cov, {position, position}));
  Tensor ratio = cov / b.unsqueeze(deviation, 1) / deviation;
  return {minimum(maximum(ratio, -1), 1)};
}

constexpr DecompositionRow kStatisticsRows[] = {
    {"aten::quantile.*", quantile},
    {"aten::nanquantile.*", nanquantile},
    {"aten::cov", covariance},
    {"aten::corrcoef", correlation},
};

}  // namespace

std::span<const DecompositionRow> statistics_rows() { return kStatisticsRows; }

}  // namespace toroid
