// The innermost loops of convolutions in which each channel has its own filter, or which mixes few channels, for images with their channels next
// to each other.
#pragma once

#include <cstdint>

namespace toroid {

// Some output positions of a row that follow each other. Offsets and strides are in elements.
struct DepthwiseStrip {
  const float* image;
  const int64_t* image_rows;     // for each filter row, what its first column meets at the first position: an offset from `image`
  int64_t image_column;          // from one column of the image to the next
  const float* weights;          // [filter column, channel of its group, channel] for each filter row:
  const int64_t* weights_rows;   // offsets from `weights`
  int64_t filter_rows;
  float* out;                    // [position, channel]
  int64_t channels;              // at least `lanes`
  int64_t width = 1;             // channels of a group
};

struct DepthwiseKernels {
  static constexpr int kMostColumns = 7;     // of a filter
  static constexpr int kMostStride = 2;
  static constexpr int kMostPositions = 6;
  static constexpr int kMostGroupedColumns = 3;

  int lanes;
  // out[p, c] = sum over the filter elements (i, j) of image[i, p * stride + j, c] * weights[i, j, c], for so many positions p.
  // By filter columns - 1, stride - 1, positions - 1.
  void (*convolve[kMostColumns][kMostStride][kMostPositions])(const DepthwiseStrip& strip);
  // The same where each channel of the result sees all `width` channels of its group, whose number divides `lanes`:
  // out[p, c] = sum over (i, j, g) of image[i, p * stride + j, c / width * width + g] * weights[i, j, g, c]. Null where vectors cannot be permuted.
  void (*convolve_groups[kMostGroupedColumns][kMostStride][kMostPositions])(const DepthwiseStrip& strip);
};
const DepthwiseKernels& depthwise_kernels();   // for this machine

}  // namespace toroid
