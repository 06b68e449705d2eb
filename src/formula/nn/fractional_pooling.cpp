#include "formula/nn/fractional_pooling.h"

#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "formula/nn/pooling.h"

namespace toroid::formula {
namespace {

// Where the windows of a dim begin, I64 [.., count], or rank 0 where there is one window.
Tensor fractional_starts(Tensor u, sym::Expr input, sym::Expr kernel, sym::Expr count, DType dtype) {
  Builder& b = u.builder();
  auto rounded = [&](Tensor x) { return wide(b.cast(x, dtype)); };
  auto number = [&](sym::Expr value) { return rounded(b.scalar(compute_dtype(dtype), Scalar(value))); };
  auto whole = [&](Tensor x) { return b.cast(x, DType::I64); };
  Tensor o = b.arange(count), last = b.scalar(DType::I64, Scalar(input - kernel));
  if (count.is_const(1)) return last;
  Tensor alpha = rounded(number(input - kernel) / number(count - 1));
  Tensor start = whole(rounded(rounded(b.cast(o, compute_dtype(dtype)) + u) * alpha)) - whole(rounded(u * alpha));
  return where(b.binary(ScalarOp::Eq, o, Scalar(count - 1)), last, start);
}

}  // namespace

std::vector<Tensor> fractional_max_pool(Tensor x, Tensor samples, const Sizes& kernel, const Sizes& out) {
  Builder& b = x.builder();
  const size_t spatial = out.size();
  const bool batched = x.rank() == static_cast<int64_t>(spatial) + 2;
  if (!batched) x = b.unsqueeze(x, 0);
  const int64_t rank = x.rank() + static_cast<int64_t>(spatial);  // of [N, C, o…, k…]
  std::vector<Tensor> index = {positions(b, x.size(0), 0, rank), positions(b, x.size(1), 1, rank)};
  std::vector<WindowPositions> dims;
  for (size_t i = 0; i < spatial; ++i) {
    const sym::Expr input = x.sizes()[i + 2];
    Tensor u = b.unsqueeze(b.select(samples, -1, static_cast<int64_t>(spatial == 2 ? 1 - i : i)), -1);
    Tensor start = fractional_starts(wide(u), input, kernel[i], out[i], x.dtype());  // [N, C, o] or rank 0
    Sizes sizes(spatial + 2, 1);
    if (start.rank() > 0) {
      sizes = {x.size(0), x.size(1)};
      sizes.resize(spatial + 2, 1);
      sizes[i + 2] = out[i];
      start = b.expand(start, {x.size(0), x.size(1), out[i]});
    }
    start = b.reshape(start, sizes);
    dims.push_back({start, 1, kernel[i], input, false});
    sizes.resize(2 * spatial + 2, 1);
    index.push_back(b.reshape(start, sizes) + along(b.arange(kernel[i]), spatial - 1 - i));
  }
  std::vector<Tensor> results = max_and_position(b.gather(x, index), dims);
  if (!batched) {
    for (Tensor& result : results) result = b.squeeze(result, 0);
  }
  return results;
}

}  // namespace toroid::formula
