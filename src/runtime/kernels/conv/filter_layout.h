// Where the elements of a convolution's filters lie; what packed filters are named by (prepared_constants.h) besides the way they are
// packed.
#pragma once

#include "base/fields.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/registry/operands.h"

namespace toroid {

// Of one or two spatial dims. Strides in elements.
struct FilterLayout {
  DType dtype;
  int64_t groups, out_channels, in_channels;  // channels per group
  int64_t kernel[2];
  int64_t out_stride, in_stride, row_stride, column_stride;

  TOROID_COMPARED_FIELDS(FilterLayout, dtype, groups, out_channels, in_channels, kernel, out_stride, in_stride, row_stride, column_stride)
  // `element`: row by row of the kernel.
  int64_t offset(int64_t out_channel, int64_t in_channel, int64_t element) const {
    return out_channel * out_stride + in_channel * in_stride + element / kernel[1] * row_stride + element % kernel[1] * column_stride;
  }
};

inline FilterLayout filter_layout(const ToroidOperand& w, const ConvolutionShape& s) {
  const int64_t row_stride = w.rank == 3 ? 0 : w.strides[2];
  return {dtype_of(w),  s.groups,     s.out_channels, s.in_channels,        {s.kernel[1], s.kernel[2]},
          w.strides[0], w.strides[1], row_stride,     w.strides[w.rank - 1]};
}

}  // namespace toroid
