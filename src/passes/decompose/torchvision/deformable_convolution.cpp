// Deformable convolution (torchvision::deform_conv2d) and its gradients: each element of the filter reads the image where an offset
// says, between pixels, times a mask.
//
//   sample[n, c, i, j, y, x]  = mask * the image at (y*stride - padding + i*dilation + offset_y, likewise x), bilinear, 0 outside
//   result[n, o, y, x]        = sum over c, i, j of weight[o, c, i, j] * sample   (a matrix product a group) + bias
//
// Tensors of samples have 7 dims: [N, offset groups, channels of one, KH, KW, OH, OW]; of offsets the third is 1. Formulas as in
// torchvision's CPU kernels.
#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/required.h"

namespace toroid {
namespace {

// The pixels around a position on one axis.
struct Neighbour {
  Tensor index;      // I64, in bounds
  Tensor is_inside;  // Bool
  Tensor weight;
  double slope;  // of the weight, as the position moves by one pixel
};

struct Deformed {
  Tensor image;                          // wide
  Tensor mask;                           // wide [N, OG, 1, KH, KW, OH, OW]; undefined: 1
  std::vector<Neighbour> rows, columns;  // two each
  std::vector<Tensor> leading;           // positions along N and C
  sym::Expr groups, offset_groups, out_channels;
  Sizes sizes;  // of the samples
  sym::Expr pixels() const { return sizes[5] * sizes[6]; }
  sym::Expr terms(sym::Expr channels) const { return sym::floor_div(channels, groups) * sizes[3] * sizes[4]; }  // of a sum
};

std::vector<Neighbour> neighbours(Tensor position, sym::Expr size) {
  Builder& b = position.builder();
  Tensor low = floor(position), part = position - low;
  std::vector<Neighbour> result;
  for (int k = 0; k < 2; ++k) {
    Tensor at = low + static_cast<double>(k);
    Tensor is_inside = (at >= 0) & (at < number_like(at, Scalar(size)));  // false for NaN
    result.push_back({b.cast(where(is_inside, at, 0), DType::I64), is_inside, k == 0 ? 1.0 - part : part, k == 0 ? -1.0 : 1.0});
  }
  return result;
}

// Where the filter's elements read along `axis` (0: rows, 1: columns), before rounding to pixels.
Tensor positions_along(const Args& a, const Sizes& sizes, Tensor offsets, int64_t axis) {
  Builder& b = offsets.builder();
  constexpr std::string_view kNames[2][3] = {{"stride_h", "pad_h", "dilation_h"}, {"stride_w", "pad_w", "dilation_w"}};
  const auto& names = kNames[axis];
  auto integer = [&](std::string_view name) { return b.scalar(DType::I64, a.integer(name)); };
  const auto place = static_cast<size_t>(axis);
  Tensor base = positions(b, sizes[5 + place], 5 + axis, 7) * integer(names[0]) - integer(names[1]) +
                positions(b, sizes[3 + place], 3 + axis, 7) * integer(names[2]);
  Tensor offset = b.unsqueeze(b.select(offsets, 4, axis), 2);
  Tensor at = b.cast(base, compute_dtype(offset.dtype())) + wide(offset);
  return offset.dtype() == DType::F16 ? wide(converted(at, DType::F16)) : at;  // PyTorch's positions have the offsets' dtype
}

Deformed deformed(const Args& a) {
  Tensor image = a.tensor("input"), weight = a.tensor("weight"), offset = a.tensor("offset");
  Builder& b = image.builder();
  demand(a, image.rank() == 4 && weight.rank() == 4 && offset.rank() == 4, "image, weight and offsets have rank 4");
  Deformed r;
  r.groups = a.integer("groups");
  r.offset_groups = a.integer("offset_groups");
  for (sym::Expr count : {r.groups, r.offset_groups, a.integer("stride_h"), a.integer("stride_w")}) {
    demand(a, !count.is_const() || count.value() > 0, "groups and strides are positive");
  }
  const sym::Expr n = image.size(0), channels = image.size(1), of_group = sym::floor_div(channels, r.offset_groups);
  r.out_channels = weight.size(0);
  b.require_equal(r.offset_groups * of_group, channels, "the channels are a multiple of the offset groups");
  b.require_equal(weight.size(1) * r.groups, channels, "the weight has the channels of a group");
  r.sizes = {n, r.offset_groups, of_group, weight.size(2), weight.size(3), offset.size(2), offset.size(3)};
  const auto& s = r.sizes;
  Tensor offsets = b.reshape(offset, {n, r.offset_groups, s[3], s[4], 2, s[5], s[6]});
  r.image = wide(image);
  r.rows = neighbours(positions_along(a, s, offsets, 0), image.size(2));
  r.columns = neighbours(positions_along(a, s, offsets, 1), image.size(3));
  if (a.flag("use_mask")) r.mask = b.reshape(wide(a.tensor("mask")), {n, s[1], 1, s[3], s[4], s[5], s[6]});
  Tensor channel = b.reshape(b.arange(channels), {1, s[1], s[2], 1, 1, 1, 1});
  r.leading = {positions(b, n, 0, 7), channel};
  return r;
}

// The image at the neighbours, summed with weights that `weight_of` makes of a row's and a column's.
template <class F>
Tensor sampled(const Deformed& r, F weight_of) {
  Builder& b = r.image.builder();
  Tensor sum;
  for (const Neighbour& y : r.rows) {
    for (const Neighbour& x : r.columns) {
      Tensor pixel = where(y.is_inside & x.is_inside, b.gather(r.image, {r.leading[0], r.leading[1], y.index, x.index}), 0);
      Tensor term = pixel * weight_of(y, x);
      sum = sum.defined() ? sum + term : term;
    }
  }
  return b.expand(sum, r.sizes);
}
Tensor samples(const Deformed& r) {
  return sampled(r, [](const Neighbour& y, const Neighbour& x) { return y.weight * x.weight; });
}
Tensor masked(const Deformed& r, Tensor x) { return r.mask.defined() ? x * r.mask : x; }

// [N, groups, terms of a sum, pixels], in the dtype that is multiplied.
Tensor columns_of(const Deformed& r, Tensor samples, DType dtype) {
  Builder& b = samples.builder();
  return b.cast(b.reshape(samples, {r.sizes[0], r.groups, r.terms(r.sizes[1] * r.sizes[2]), r.pixels()}), dtype);
}
Tensor weight_matrices(const Deformed& r, Tensor weight) {
  const sym::Expr of_group = sym::floor_div(r.out_channels, r.groups);
  return weight.builder().reshape(weight, {1, r.groups, of_group, weight.size(1) * weight.size(2) * weight.size(3)});
}

std::vector<Tensor> deform_conv2d(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  const Deformed r = deformed(a);
  Tensor weight = a.tensor("weight"), bias = a.tensor("bias");
  Tensor columns = columns_of(r, masked(r, samples(r)), weight.dtype());
  Tensor product = b.matmul(weight_matrices(r, weight), columns);
  Tensor result = b.reshape(product, {r.sizes[0], r.out_channels, r.sizes[5], r.sizes[6]});
  return {result + b.reshape(bias, {1, r.out_channels, 1, 1})};
}

// A gradient per offset group and filter element as the argument has it: [N, OG * KH * KW, OH, OW].
Tensor per_element(const Deformed& r, Tensor x, DType dtype) {
  Builder& b = x.builder();
  return b.cast(b.reshape(x, {r.sizes[0], r.sizes[1] * r.sizes[3] * r.sizes[4], r.sizes[5], r.sizes[6]}), dtype);
}

std::vector<Tensor> deform_conv2d_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  const Deformed r = deformed(a);
  Tensor grad = a.tensor("grad"), image = a.tensor("input"), weight = a.tensor("weight"), mask = a.tensor("mask");
  const sym::Expr of_group = sym::floor_div(r.out_channels, r.groups);
  Tensor grad_matrices = b.reshape(grad, {r.sizes[0], r.groups, of_group, r.pixels()});
  Tensor unmasked = samples(r);
  Tensor grad_samples = wide(b.reshape(b.matmul(b.transpose(weight_matrices(r, weight), 2, 3), grad_matrices), r.sizes));
  Tensor grad_pixels = masked(r, grad_samples);

  Tensor grad_image = b.full(image.sizes(), r.image.dtype(), 0.0);
  for (const Neighbour& y : r.rows) {
    for (const Neighbour& x : r.columns) {
      Tensor share = where(y.is_inside & x.is_inside, grad_pixels * y.weight * x.weight, 0);
      grad_image = b.scatter(grad_image, share, {r.leading[0], r.leading[1], y.index, x.index}, ScatterMode::Add);
    }
  }

  Tensor columns = columns_of(r, masked(r, unmasked), weight.dtype());
  Tensor grad_weight = b.sum(wide(b.matmul(grad_matrices, b.transpose(columns, 2, 3))), {0});

  Tensor by_row = sampled(r, [](const Neighbour& y, const Neighbour& x) { return x.weight * y.slope; });
  Tensor by_column = sampled(r, [](const Neighbour& y, const Neighbour& x) { return y.weight * x.slope; });
  std::vector<Tensor> slopes;
  for (Tensor slope : {by_row, by_column}) slopes.push_back(b.sum(grad_pixels * slope, {2}));
  Tensor grad_offset = b.reshape(b.stack(slopes, 4), a.tensor("offset").sizes());  // [N, OG, KH, KW, 2, OH, OW]

  Tensor grad_mask = b.full(mask.sizes(), mask.dtype(), 0.0);
  if (r.mask.defined()) grad_mask = per_element(r, b.sum(grad_samples * unmasked, {2}), mask.dtype());
  Tensor grad_bias = wide_sum(grad, {0, 2, 3});
  return {b.cast(grad_image, image.dtype()), b.cast(b.reshape(grad_weight, weight.sizes()), weight.dtype()),
          b.cast(grad_offset, a.tensor("offset").dtype()), grad_mask, grad_bias};
}

constexpr DecompositionRow kDeformableConvolutionRows[] = {
    {"torchvision::deform_conv2d", deform_conv2d},
    {"torchvision::_deform_conv2d_backward", deform_conv2d_backward},
};

}  // namespace

std::span<const DecompositionRow> deformable_convolution_rows() { return kDeformableConvolutionRows; }

}  // namespace toroid
