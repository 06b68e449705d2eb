#include "interp/grouped_product.h"

#include <cstring>

#include "interp/movement.h"
#include "interp/products.h"
#include "library/grouped_sizes.h"

namespace toroid {
namespace {

HostTensor tensor_of(const LibraryInput& input) {
  std::vector<int64_t> sizes(input.sizes.begin(), input.sizes.end());
  const size_t bytes = static_cast<size_t>(numel(sizes) * size_bytes(input.dtype));
  return HostTensor(input.dtype, std::move(sizes), {input.data, bytes}, nullptr);
}

// A window of `rows` x `columns` from (row, column) on, of the matrix at `offset`.
HostTensor window(const HostTensor& x, int64_t offset, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  const int64_t stride = x.sizes().back();
  const int64_t strides[] = {stride, 1};
  return copy_strided(x, offset + row * stride + column, strides, {rows, columns});
}

}  // namespace

void grouped_product(const LibraryCall& call) {
  const HostTensor x = tensor_of(call.inputs[0]), y = tensor_of(call.inputs[1]);
  const LibraryOutput& out = call.outputs[0];
  const GroupedSizes s = grouped_sizes(x.sizes(), y.sizes(), call.inputs[2].sizes[0]);
  const auto* ends = reinterpret_cast<const int64_t*>(call.inputs[2].data);
  const std::vector<int64_t> bounds = group_bounds({ends, static_cast<size_t>(s.groups)}, s.divided());
  const int64_t width = size_bytes(out.dtype);
  std::memset(out.data, 0, static_cast<size_t>(numel(std::vector<int64_t>(out.sizes.begin(), out.sizes.end())) * width));
  for (int64_t g = 0; g < s.groups; ++g) {
    const int64_t first = bounds[static_cast<size_t>(g)], count = bounds[static_cast<size_t>(g) + 1] - first;
    if (count == 0) continue;
    HostTensor product;
    int64_t row = 0, column = 0, matrix = 0;
    switch (s.by) {
      case GroupedBy::Rows:
        product = matmul(window(x, 0, first, 0, count, s.k), window(y, g * s.k * s.n, 0, 0, s.k, s.n));
        row = first;
        break;
      case GroupedBy::Columns:
        product = matmul(window(x, g * s.m * s.k, 0, 0, s.m, s.k), window(y, 0, 0, first, s.k, count));
        column = first;
        break;
      case GroupedBy::Depth:
        product = matmul(window(x, 0, 0, first, s.m, count), window(y, 0, first, 0, count, s.n));
        matrix = g * s.m * s.n;
        break;
    }
    const int64_t rows = product.sizes()[0], columns = product.sizes()[1];
    for (int64_t i = 0; i < rows && columns > 0; ++i) {
      std::memcpy(out.data + (matrix + (row + i) * s.n + column) * width, product.bytes().data() + i * columns * width,
                  static_cast<size_t>(columns * width));
    }
  }
}

}  // namespace toroid
