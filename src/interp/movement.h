// Operations that move elements and never compute with them: views, padding, joining, gathering, scattering.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tensor/host_tensor.h"
#include "tensor/scalar_op.h"

namespace toroid {

// out[i] = in[offset + i0*strides[0] + i1*strides[1] + …], in elements: Expand, Permute and Slice are this.
HostTensor copy_strided(const HostTensor& in, int64_t offset, std::span<const int64_t> strides, std::vector<int64_t> sizes);

HostTensor expand(const HostTensor& in, std::vector<int64_t> sizes);
HostTensor permute(const HostTensor& in, std::span<const int> dims);
HostTensor slice(const HostTensor& in, std::span<const int64_t> starts, std::span<const int64_t> steps, std::vector<int64_t> sizes);
// `position[d]` gives the index into dim d of `in`, from the axes' values.
using IndexFunction = std::function<int64_t(std::span<const int64_t> axes)>;
HostTensor remap(const HostTensor& in, std::span<const IndexFunction> position, std::vector<int64_t> sizes);
// `value` has rank 0.
HostTensor pad(const HostTensor& in, std::span<const int64_t> low, const HostTensor& value, std::vector<int64_t> sizes);
HostTensor cat(std::span<const HostTensor> parts, int dim, std::vector<int64_t> sizes);
// Throw Error{InvalidInput} for an index out of bounds.
HostTensor gather(const HostTensor& in, std::span<const HostTensor> indices);
HostTensor scatter(const HostTensor& base, const HostTensor& source, std::span<const HostTensor> indices, ScatterMode mode);

// Calls f with each index of the shape, in row-major order; once with an empty index for rank 0.
template <class F>
void for_each_index(std::span<const int64_t> sizes, F f) {
  if (numel(sizes) == 0) return;
  std::vector<int64_t> index(sizes.size(), 0);
  for (;;) {
    f(std::span<const int64_t>(index));
    size_t d = sizes.size();
    while (d > 0 && ++index[d - 1] == sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace toroid
