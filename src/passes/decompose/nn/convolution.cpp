// Convolutions in all their spellings become one Convolution operation with a list entry per spatial dim and a batch
// dim; im2col and its transpose are views and sums over windows.
#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/precision.h"
#include "formula/basics/windows.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/nn/convolution.h"

namespace toroid {
namespace {

// The number of spatial dims: weights are [out, in, spatial…].
size_t spatial_rank(Tensor weight) {
  if (weight.rank() < 3) {
    throw Error(ErrorKind::InvalidModel, fmt::format("convolution weight of rank {}", weight.rank()));
  }
  return static_cast<size_t>(weight.rank() - 2);
}

// A list of one entry stands for every spatial dim.
Sizes per_dim(Sizes sizes, size_t spatial) {
  if (sizes.size() == 1) sizes.resize(spatial, sizes[0]);
  if (sizes.size() != spatial) {
    throw Error(ErrorKind::InvalidModel, fmt::format("a list of {} entries for {} spatial dims", sizes.size(), spatial));
  }
  return sizes;
}

// Runs `f` on x with a batch dim, and takes the batch dim away again where the caller had none.
template <class F>
Tensor with_batch(Tensor x, size_t spatial, F f) {
  Builder& b = x.builder();
  if (x.rank() != static_cast<int64_t>(spatial) + 1) return f(x);
  return b.squeeze(f(b.unsqueeze(x, 0)), 0);
}

struct Geometry {
  Sizes stride, padding, dilation, output_padding;
  bool transposed = false;
  sym::Expr groups = 1;
};

// Every group of channels writes the same number of them. That the weights fit the input the builder checks.
void require_groups(Tensor weight, const Geometry& g) {
  if (!g.groups.is_const() || !weight.size(0).is_const()) return;
  if (g.groups.value() > 0 && weight.size(0).value() % g.groups.value() == 0) return;
  throw Error(ErrorKind::InvalidModel,
              fmt::format("a convolution of {} groups with weights {}", sym::to_string(g.groups), to_string(weight.type())));
}

Tensor convolve(Tensor x, Tensor weight, Tensor bias, Geometry g) {
  const size_t spatial = spatial_rank(weight);
  require_groups(weight, g);
  require_geometry(g.stride, g.dilation, g.padding);
  if (g.output_padding.empty()) g.output_padding.assign(spatial, 0);
  return with_batch(x, spatial, [&](Tensor batched) {
    Tensor y = batched.builder().convolution(batched, weight, bias, per_dim(g.stride, spatial), per_dim(g.padding, spatial),
                                             per_dim(g.dilation, spatial), g.transposed, per_dim(g.output_padding, spatial), g.groups);
    // Without channels to read PyTorch has none to write either.
    return batched.size(1).is_const(0) ? y.builder().slice(y, 1, 0, 0) : y;
  });
}

std::vector<Tensor> conv(Decomposer&, const Args& a) {
  Geometry g{.stride = a.integers("stride"),
             .padding = a.integers("padding"),
             .dilation = a.integers("dilation"),
             .output_padding = {},
             .transposed = false,
             .groups = a.integer("groups")};
  return {convolve(a.tensor("input"), a.tensor("weight"), a.optional_tensor("bias"), g)};
}

// padding="same" adds dilation*(kernel-1) elements in all; of an odd number the right side takes the extra one.
std::vector<Tensor> conv_named_padding(Decomposer&, const Args& a) {
  Tensor x = a.tensor("input"), weight = a.tensor("weight"), bias = a.optional_tensor("bias");
  const size_t spatial = spatial_rank(weight);
  Geometry g{.stride = a.integers("stride"),
             .padding = Sizes(spatial, 0),
             .dilation = per_dim(a.integers("dilation"), spatial),
             .output_padding = {},
             .transposed = false,
             .groups = a.integer("groups")};
  const std::string mode = a.text("padding");
  if (mode != "same" && mode != "valid") {
    throw Error(ErrorKind::InvalidModel, fmt::format("convolution padding '{}'", mode));
  }
  if (mode == "valid") return {convolve(x, weight, bias, g)};
  return {with_batch(x, spatial, [&](Tensor batched) {
    Sizes low(spatial + 2, 0), high(spatial + 2, 0);
    for (size_t i = 0; i < spatial; ++i) {
      const sym::Expr total = g.dilation[i] * (weight.sizes()[i + 2] - 1);
      g.padding[i] = sym::floor_div(total, 2);
      high[i + 2] = total - g.padding[i] * 2;
    }
    return convolve(batched.builder().pad(batched, low, high, 0.0), weight, bias, g);
  })};
}

std::vector<Tensor> conv_transpose(Decomposer&, const Args& a) {
  Geometry g{.stride = a.integers("stride"),
             .padding = a.integers("padding"),
             .dilation = a.integers("dilation"),
             .output_padding = a.integers("output_padding"),
             .transposed = true,
             .groups = a.integer("groups")};
  return {convolve(a.tensor("input"), a.tensor("weight"), a.optional_tensor("bias"), g)};
}

std::vector<Tensor> convolution(Decomposer&, const Args& a) {
  Geometry g{.stride = a.integers("stride"),
             .padding = a.integers("padding"),
             .dilation = a.integers("dilation"),
             .output_padding = a.integers("output_padding"),
             .transposed = a.flag("transposed"),
             .groups = a.integer("groups")};
  return {convolve(a.tensor("input"), a.tensor("weight"), a.optional_tensor("bias"), g)};
}

// ---- windows as columns ---------------------------------------------------------------------------------------------

struct Blocks {
  std::vector<Window> windows;
  sym::Expr kernel_elements() const { return windows[0].kernel * windows[1].kernel; }
  sym::Expr count() const { return windows[0].count * windows[1].count; }
};

Blocks blocks_of(const Args& a, sym::Expr height, sym::Expr width) {
  const Sizes in = {height, width};
  const Sizes kernel = a.integers("kernel_size"), dilation = a.integers("dilation"), padding = a.integers("padding"),
              stride = a.integers("stride");
  Blocks blocks;
  for (size_t i = 0; i < 2; ++i) {
    blocks.windows.push_back(make_window(in[i], kernel[i], stride[i], padding[i], dilation[i], false));
  }
  return blocks;
}

// [N, C, H, W] -> [N, C*kh*kw, oh*ow]
std::vector<Tensor> im2col(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const bool batched = x.rank() == 4;
  if (!batched) x = d.b.unsqueeze(x, 0);
  const Blocks blocks = blocks_of(a, x.size(2), x.size(3));
  Tensor windows = windows_of(x, blocks.windows, 0.0);  // [N, C, oh, ow, kh, kw]
  Tensor columns = d.b.reshape(d.b.permute(windows, {0, 1, 4, 5, 2, 3}), {x.size(0), x.size(1) * blocks.kernel_elements(), blocks.count()});
  return {batched ? columns : d.b.squeeze(columns, 0)};
}

// [N, C*kh*kw, oh*ow] -> [N, C, H, W]: what overlaps is summed.
std::vector<Tensor> col2im(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self");
  const Sizes out = a.integers("output_size");
  const bool batched = x.rank() == 3;
  if (!batched) x = b.unsqueeze(x, 0);
  const Blocks blocks = blocks_of(a, out[0], out[1]);
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
  return {batched ? image : b.squeeze(image, 0)};
}

constexpr DecompositionRow kRows[] = {
    {"aten::conv1d", conv},
    {"aten::conv2d", conv},
    {"aten::conv3d", conv},
    {"aten::conv1d.padding", conv_named_padding},
    {"aten::conv2d.padding", conv_named_padding},
    {"aten::conv3d.padding", conv_named_padding},
    {"aten::conv_transpose1d", conv_transpose},
    {"aten::conv_transpose2d.input", conv_transpose},
    {"aten::conv_transpose3d.input", conv_transpose},
    {"aten::convolution", convolution},
    {"aten::_convolution", convolution},
    {"aten::_convolution.deprecated", convolution},
    {"aten::_convolution_mode", conv_named_padding},
    {"aten::convolution_overrideable", convolution},
    {"aten::im2col", im2col},
    {"aten::col2im", col2im},
};

}  // namespace

std::span<const DecompositionRow> convolution_rows() { return kRows; }

}  // namespace toroid
