#include "formula/basics/over_dims.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid {

OverDims over_dims(Tensor x, Dims dims, bool keepdim) {
  OverDims over{x.builder().wrap_dims(std::move(dims), x.rank()), keepdim, {}};
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    const bool vanishes = std::binary_search(over.dims.begin(), over.dims.end(), dim);
    if (!vanishes) over.sizes.push_back(x.size(dim));
    if (vanishes && keepdim) over.sizes.push_back(1);
  }
  return over;
}

Dims all_but(int64_t rank, int64_t kept) {
  Dims dims;
  for (int64_t d = 0; d < rank; ++d) {
    if (d != kept) dims.push_back(d);
  }
  return dims;
}

Dims trailing(Tensor x, size_t count) {
  Dims dims;
  for (size_t i = 0; i < count; ++i) dims.push_back(x.rank() - static_cast<int64_t>(count - i));
  return dims;
}

Dims last_dims(size_t count) {
  Dims dims;
  for (size_t i = 0; i < count; ++i) dims.push_back(static_cast<int64_t>(i) - static_cast<int64_t>(count));
  return dims;
}

size_t dims_before(Tensor x, size_t count) {
  if (x.sizes().size() >= count) return x.sizes().size() - count;
  throw Error(ErrorKind::InvalidModel, fmt::format("{} has too few dims: {} are needed", x.builder().describe(x), count));
}

sym::Expr count_along(Tensor x, const Dims& dims) {
  sym::Expr count = 1;
  for (int64_t dim : dims) count = count * x.size(dim);
  return count;
}

AlongDim along_dim(Tensor x, int64_t dim) {
  Builder& b = x.builder();
  dim = b.wrap_dim(dim, x.rank());
  return {x.rank() == 0 ? b.unsqueeze(x, 0) : x, dim, x.rank() == 0};
}

std::vector<Tensor> AlongDim::results(std::vector<Tensor> tensors) const {
  for (Tensor& result : tensors) {
    if (was_scalar && result.rank() > 0) result = result.builder().squeeze(result, 0);
  }
  return tensors;
}

Tensor reduce_keeping(ReduceOp op, Tensor x, const Dims& dims) {
  return over_dims(x, dims, true).shaped(x.builder().reduce(op, x, dims)[0]);
}

}  // namespace toroid
