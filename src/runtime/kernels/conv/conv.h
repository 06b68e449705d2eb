// Convolutions: their plans, and what the algorithms share.
//
// Integers of a call: transposed, groups, then stride, padding, dilation and output padding for each spatial dim.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/span.h"
#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/registry/library.h"
#include "runtime/kernels/registry/plan.h"

namespace toroid {

struct GemmProblem;
struct Problem;

// Sizes of a convolution with its spatial dims filled up to three in front.
struct ConvolutionShape {
  int64_t batch, groups, in_channels, out_channels;  // channels per group
  int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  bool transposed;

  int64_t in_elements() const { return in[0] * in[1] * in[2]; }
  int64_t out_elements() const { return out[0] * out[1] * out[2]; }
  int64_t kernel_elements() const { return kernel[0] * kernel[1] * kernel[2]; }
  bool is_empty() const { return batch * out_elements() * out_channels == 0; }  // the result
  bool has_filter() const { return in_channels * kernel_elements() > 0; }       // else all sums are 0
  bool is_depthwise() const { return in_channels == 1 && groups > 1; }
};
ConvolutionShape convolution_shape(const KernelCall& call);
ConvolutionShape convolution_shape(const Problem& problem);
// The same from sizes of image, filters and result, and the integers of the call.
ConvolutionShape convolution_shape(Span<const int64_t> x, Span<const int64_t> w, Span<const int64_t> y, Span<const int64_t> integers);

// The strides of the dims of an image, two spatial ones, in elements.
struct ImageStrides {
  int64_t batch, channel, row, column;
};
ImageStrides image_strides(Span<const int64_t> strides);
inline ImageStrides image_strides(const ToroidOperand& x) { return image_strides({x.strides, static_cast<size_t>(x.rank)}); }

// If the positions, one after the other and each a row of channels, are the rows of one matrix that is multiplied with the filters: the
// stride of these rows.
std::optional<int64_t> matrix_row_stride(const ConvolutionShape& shape, const ImageStrides& image);

// A product with the image's columns, made block by block, or, transposed, one whose columns are added where they belong. Any strides of
// the inputs, the output contiguous. The second in float64 and integers, which wrap in their own dtype; it throws Error{Unsupported} for
// others.
std::unique_ptr<const KernelPlan> plan_columns_f32(const KernelCall& call);
std::unique_ptr<const KernelPlan> plan_columns(const KernelCall& call);

// In float32, not transposed. Each plane with its filter: one input channel a group, everything contiguous.
std::unique_ptr<const KernelPlan> plan_planes(const KernelCall& call);
// These, and plan_winograd (winograd.h), want the output's channels next to each other, at most two spatial dims and no bias; any other
// strides. The first is a product of image rows, where they lie, with packed weights; the second is for groups of few channels that lie
// next to each other (takes_channel_vectors), which it takes as vectors.
std::unique_ptr<const KernelPlan> plan_image_rows(const KernelCall& call);
// Where there is a matrix_row_stride: one product by the filters where they lie.
std::unique_ptr<const KernelPlan> plan_matrix_product(const KernelCall& call);
GemmProblem matrix_product_of(const ConvolutionShape& shape, int64_t filter_stride, int64_t channel_stride);
std::unique_ptr<const KernelPlan> plan_channel_vectors(const KernelCall& call);
// One of these that takes the operands.
std::unique_ptr<const KernelPlan> plan_convolution_f32(const KernelCall& call);

// Images and filters of BF16 or F16, both alike, the result F32 or as they are, its channels next to each other; at most two spatial dims,
// no bias, not transposed, any other strides. Sums are F32, and so is what an epilogue gets.
std::unique_ptr<const KernelPlan> plan_half_tiles(const KernelCall& call);            // of BF16, without groups, where has_amx()
std::unique_ptr<const KernelPlan> plan_half_channel_vectors(const KernelCall& call);  // as above: rows are widened as they are needed
// One of these that takes the operands, or the next (half_choices.cpp).
std::unique_ptr<const KernelPlan> plan_half_convolution(const KernelCall& call);
// As F32, image and filters whole; also transposed, with a bias or of planes, then contiguous.
std::unique_ptr<const KernelPlan> plan_widened(const KernelCall& call);

// Rows of an image: all, each in its own place, or the last `kept` of them, each in the place of the one so many before it. Of an image of
// bfloat16 the elements are such, whatever the pointer's type says, and have offsets alone.
struct ImageRing {
  const float* data;
  int64_t row;  // stride, in elements
  int64_t kept;
  int64_t offset(int64_t y) const { return y % kept * row; }
  const float* at(int64_t y) const { return data + offset(y); }
};

// A convolution whose output's rows can be made some at a time, in any order and on any threads, from rows that lie elsewhere than the call
// says. It is good for all calls that have the same operands but for where data lie that are no constants.
class RowConvolution : public KernelPlan {
 public:
  // Rows of one output image. A position's row in `out` is the one that it has among those of all images. Takes one thread.
  virtual void run_rows(int64_t image, Range rows, const ImageRing& in, const ProductOutput& out) const = 0;
};
struct RowUse {
  bool from_ring = false;  // will the images' rows lie in rings?
  int64_t times = 0;       // that a thread will make rows; 0: it is run as a whole
};
// Where a call's result goes, `channels` next to each other.
ProductOutput output_of(const KernelCall& call, int64_t channels);

// By vectors of channels where these take the operands, else by image rows; neither the result nor the filter is empty. Rows can be made
// where the weights are constants.
std::unique_ptr<RowConvolution> row_convolution(const KernelCall& call, const ConvolutionShape& shape, const RowUse& use);
std::unique_ptr<RowConvolution> channel_vectors(const KernelCall& call, const ConvolutionShape& shape);
// The same in BF16, where has_amx(): by vectors of channels, else by tiles. Rings may hold images of filters of one element without strides
// and of vectors of channels. What rows are given to has an epilogue.
std::unique_ptr<RowConvolution> bf16_row_convolution(const KernelCall& call, const ConvolutionShape& shape, const RowUse& use);
// Are a call's groups such, and its image's channels next to each other?
bool takes_channel_vectors(const KernelCall& call, const ConvolutionShape& shape);

// The plan of a call without results, or with filters without elements, whose result is 0; null where there is something to compute.
// Channels of the result lie next to each other.
std::unique_ptr<const KernelPlan> plan_without_sums(const ConvolutionShape& shape);

// Whether image rows are multiplied in parts (bf16x3/gemm.h), by an estimate.
bool convolves_as_bf16x3(const ConvolutionShape& shape, int64_t channel_stride, bool keeps_weights, int64_t threads);

// Have the groups one input and one output channel, as many of both as divide a vector, or output channels that fill a few? (The image's
// channels must lie next to each other too.)
bool takes_channel_vectors(int64_t groups, int64_t in_channels, int64_t out_channels);
inline bool takes_channel_vectors(const ConvolutionShape& s) {
  return !s.transposed && takes_channel_vectors(s.groups, s.in_channels, s.out_channels);
}

}  // namespace toroid
