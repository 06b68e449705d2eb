#include "formula/math/reduction.h"

#include <limits>

#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "formula/basics/totals.h"

namespace toroid::formula {
namespace {

Tensor without_nan(Tensor x) { return is_floating(x.dtype()) ? where(isnan(x), 0, x) : x; }

}  // namespace

// ---- sums -----------------------------------------------------------------------------------------------------------

Tensor nansum(Tensor x, const Dims& dims) { return x.builder().sum(without_nan(x), dims); }

Tensor nanmean(Tensor x, const Dims& dims) {
  Builder& b = x.builder();
  return b.sum(without_nan(x), dims) / b.sum(b.cast(!isnan(x), x.dtype()), dims);
}

Tensor count_nonzero(Tensor x, const Dims& dims) {
  Builder& b = x.builder();
  return b.sum(b.cast(b.cast(x, DType::Bool), DType::I64), dims);
}

Tensor sum_to_size(Tensor x, const Sizes& sizes) {
  Builder& b = x.builder();
  const int64_t added = static_cast<int64_t>(dims_before(x, sizes.size()));
  Dims dims;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    const bool shrinks = dim >= added && sizes[static_cast<size_t>(dim - added)].is_const(1) && !x.size(dim).is_const(1);
    if (dim < added || shrinks) dims.push_back(dim);
  }
  if (dims.empty() && !sizes.empty()) return x;
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : DType::I64;
  return b.reshape(b.cast(b.sum(b.cast(x, compute_dtype(dtype)), dims), dtype), sizes);
}

Tensor arg_extremum(ReduceOp op, Tensor x, const OverDims& over) {
  Builder& b = x.builder();
  const bool is_flat = over.dims.size() != 1;
  Tensor flat = is_flat ? b.reshape(x, {x.numel()}) : x;
  return over.shaped(b.reduce(op, flat, is_flat ? Dims{0} : over.dims)[0]);
}

// ---- variance and norms ---------------------------------------------------------------------------------------------

Spread spread(Tensor x, const Dims& dims, const Scalar& correction) {
  const std::vector<Tensor> welford = reduce_in_f64(ReduceOp::MeanM2, x, dims);
  const sym::Expr count = count_along(x, dims);
  const auto* whole = std::get_if<sym::Expr>(&correction);
  Tensor divisor = whole != nullptr ? number_like(welford[1], sym::max(count - *whole, 0))
                                    : maximum(number_like(welford[1], count) - number_like(welford[1], correction), 0);
  return {welford[1] / divisor, welford[0]};
}

Tensor vector_norm(Tensor x, double p, const Dims& dims) {
  Builder& b = x.builder();
  if (p == 0) return b.sum(b.cast(ne(x, 0), x.dtype()), dims);
  if (p == 1) return b.sum(abs(x), dims);
  if (p == 2) return b.cast(sqrt(total(square(x), dims)), x.dtype());
  if (p == kInfinity) return b.amax(abs(x), dims);
  if (p == -kInfinity) return b.amin(abs(x), dims);
  return pow(b.sum(pow(abs(x), p), dims), 1 / p);
}

Tensor norm_except_dim(Tensor x, double p, int64_t kept) {
  // Of rank 0 there is no dim to keep.
  const Dims dims = x.rank() == 0 ? Dims{} : all_but(x.rank(), x.builder().wrap_dim(kept, x.rank()));
  const OverDims over = over_dims(x, dims, true);
  return over.shaped(vector_norm(x, p, over.dims));
}

Tensor renorm(Tensor x, double p, int64_t dim, double limit) {
  Tensor norm = norm_except_dim(x, p, dim);
  return x * where(norm > limit, limit / (norm + 1e-7), 1);
}

}  // namespace toroid::formula
