// Each is one Gather with an index tensor per dim, broadcast together; a whole dim is its own positions:
//
//   x[:, i]  =>  gather(x, iota, i)
#include "formula/movement/indexing.h"

#include "formula/basics/index_tensors.h"

namespace toroid::formula {
namespace {

Tensor flat(Tensor x) { return x.builder().reshape(x, {x.numel()}); }

}  // namespace

Tensor index(Tensor x, const std::vector<Tensor>& indices) { return x.builder().gather(x, advanced_index(x, indices).per_dim); }

Tensor masked_index(Tensor x, Tensor mask, const std::vector<Tensor>& indices, const Scalar& fill) {
  Builder& b = x.builder();
  if (x.numel().is_const(0)) return b.expand(b.scalar(x.dtype(), fill), b.broadcast(advanced_index(x, indices).sizes, mask.sizes()));
  Tensor picked = index(x, indices_in_bounds(x, indices));
  return b.where(mask, picked, b.scalar(x.dtype(), fill));
}

Tensor index_select(Tensor x, int64_t dim, Tensor index) {
  Builder& b = x.builder();
  if (x.rank() == 0) return x;
  if (index.rank() == 0) index = b.unsqueeze(index, 0);
  return b.gather(x, index_one_dim(x, dim, index).per_dim);
}

Tensor gather(Tensor x, int64_t dim, Tensor index) {
  Builder& b = x.builder();
  const Sizes sizes = index.sizes();
  if (index.numel().is_const(0)) return b.full(sizes, x.dtype(), 0.0);  // of any rank
  if (x.rank() == 0) x = b.unsqueeze(x, 0);
  if (index.rank() == 0) index = b.unsqueeze(index, 0);
  return b.reshape(b.gather(x, index_along(index, b.wrap_dim(dim, x.rank()))), sizes);
}

Tensor take_along_dim(Tensor x, int64_t dim, Tensor index) {
  Builder& b = x.builder();
  const size_t at = static_cast<size_t>(b.wrap_dim(dim, x.rank()));
  Sizes x_sizes = x.sizes(), index_sizes = index.sizes();
  x_sizes[at] = index_sizes[at] = 1;
  Sizes sizes = b.broadcast(x_sizes, index_sizes);
  sizes[at] = index.sizes()[at];
  index = b.expand(index, sizes);
  sizes[at] = x.sizes()[at];
  return b.gather(b.expand(x, sizes), index_along(wrap_index(index, x.sizes()[at]), static_cast<int64_t>(at)));
}

Tensor take(Tensor x, Tensor index) {
  Tensor elements = flat(x);
  return x.builder().gather(elements, {wrap_index(index, x.numel())});
}

Tensor is_in(Tensor elements, Tensor candidates) {
  Builder& b = elements.builder();
  Tensor equal = b.binary(ScalarOp::Eq, b.unsqueeze(elements, -1), flat(candidates));
  return b.reduce(ReduceOp::Any, equal, {-1})[0];
}

}  // namespace toroid::formula
