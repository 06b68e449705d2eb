#include "formula/movement/im2col.h"

#include "formula/basics/windows.h"

namespace toroid::formula {
namespace {

struct Blocks {
  std::vector<Window> windows;
  sym::Expr kernel_elements() const { return windows[0].kernel * windows[1].kernel; }
  sym::Expr count() const { return windows[0].count * windows[1].count; }
};

Blocks blocks_of(const BlockGeometry& geometry, sym::Expr height, sym::Expr width) {
  const Sizes in = {height, width};
  Blocks blocks;
  for (size_t i = 0; i < 2; ++i) {
    blocks.windows.push_back(make_window(in[i], geometry.kernel[i], geometry.stride[i], geometry.padding[i], geometry.dilation[i], false));
  }
  return blocks;
}

}  // namespace

Tensor im2col(Tensor x, const BlockGeometry& geometry) {
  Builder& b = x.builder();
  const bool batched = x.rank() == 4;
  if (!batched) x = b.unsqueeze(x, 0);
  const Blocks blocks = blocks_of(geometry, x.size(2), x.size(3));
  Tensor windows = windows_of(x, blocks.windows, 0.0);  // [N, C, oh, ow, kh, kw]
  Tensor columns = b.reshape(b.permute(windows, {0, 1, 4, 5, 2, 3}), {x.size(0), x.size(1) * blocks.kernel_elements(), blocks.count()});
  return batched ? columns : b.squeeze(columns, 0);
}

Tensor col2im(Tensor x, const Sizes& out, const BlockGeometry& geometry) {
  Builder& b = x.builder();
  const bool batched = x.rank() == 3;
  if (!batched) x = b.unsqueeze(x, 0);
  const Blocks blocks = blocks_of(geometry, out[0], out[1]);
  const Window &rows = blocks.windows[0], &columns = blocks.windows[1];
  const sym::Expr channels = sym::floor_div(x.size(1), blocks.kernel_elements());
  const Sizes shape = {x.size(0), channels, rows.kernel, columns.kernel, rows.count, columns.count};
  Tensor source = b.reshape(x, shape);
  // Padding takes part as a margin that is cut off at the end.
  auto at = [&](const Window& window, int64_t kernel_dim, int64_t count_dim) {
    auto along = [&](int64_t dim, sym::Expr factor) {
      Sizes sizes(6, 1);
      sizes[static_cast<size_t>(dim)] = shape[static_cast<size_t>(dim)];
      return b.binary(ScalarOp::Mul, b.iota(sizes, dim), Scalar(factor));
    };
    return along(kernel_dim, window.dilation) + along(count_dim, window.stride);
  };
  Sizes first(6, 1), second(6, 1);
  first[0] = shape[0];
  second[1] = shape[1];
  Tensor margin = b.full({x.size(0), channels, out[0] + rows.padding * 2, out[1] + columns.padding * 2}, x.dtype(), 0.0);
  Tensor sum = b.scatter(margin, source, {b.iota(first, 0), b.iota(second, 1), at(rows, 2, 4), at(columns, 3, 5)}, ScatterMode::Add);
  Tensor image = b.slice(b.slice(sum, 2, rows.padding, out[0]), 3, columns.padding, out[1]);
  return batched ? image : b.squeeze(image, 0);
}

}  // namespace toroid::formula
