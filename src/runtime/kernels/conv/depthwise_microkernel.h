// The innermost loops of convolutions in which each channel has its own filter, or which mixes few channels, for images with their channels
// next to each other.
#pragma once

#include <cstdint>

#include "toroid/program_abi.h"

namespace toroid {

// Some output positions of a row that follow each other. Offsets and strides are in elements.
struct DepthwiseStrip {
  const float* image;
  const int64_t* image_rows;  // for each filter row, what its first column meets at the first position: an offset from `image`
  int64_t image_column;       // from one column of the image to the next
  const float* weights;       // [vector of channels, filter element, channel of its group, lane]; the vectors are those of for_each_vector
  int64_t vector_weights;     // from one vector's to the next
  const int64_t* weights_rows;   // for each filter row the offset of its first column's, within a vector's
  int64_t filter_rows, columns;  // of the filter
  int64_t stride;                // image columns from one position's to the next one's
  int64_t positions;
  float* out;  // [position, channel], with a stride for the positions
  int64_t out_position;
  int64_t channels;                       // of the result; at least `lanes`
  int64_t seen = 1, made = 1;             // channels of a group, of the image and of the result
  uint64_t columns_there = ~uint64_t{0};  // bit i: is column i, of those that the strip's positions see, in the image?
  const ToroidPostOps* finish = nullptr;  // done with the sums before they are stored, of these channels, without residuals
};

// Calls f(vector, first channel) for vectors of `lanes` channels: of all, or of each so many, `together`, at least `lanes`. The last of
// them begins early where they do not fill it.
template <class F>
inline __attribute__((always_inline)) void for_each_vector(int64_t channels, int64_t together, int64_t lanes, F f) {
  int64_t vector = 0;
  for (int64_t first = 0; first < channels; first += together) {
    for (int64_t channel = 0; channel < together; channel += lanes) {
      f(vector++, first + (channel < together - lanes ? channel : together - lanes));
    }
  }
}

// Which channels of the image a channel of the result sees.
enum class ChannelGroups {
  Own,   // its own: groups of one
  Few,   // those of its group, as many in the image as in the result; their number divides `lanes`
  Many,  // those of its group, of which the result has at least `lanes`
};

// What a kernel is made for.
struct DepthwiseShape {
  ChannelGroups groups;
  int64_t columns, stride, positions;  // as DepthwiseStrip has them
  bool is_square = false;              // as many filter rows as columns
  bool at_edges = false;               // columns_there counts: not all of them are; of groups of one alone
  bool misses_inner_columns = false;   // more than columns - 1 of the first or of the last ones are not there
};

// out[p, c] = sum over the filter elements (i, j) and the group's channels g of
//   image[i, p * stride + j, c / made * seen + g] * weights[i, j, g, c], for the strip's positions p.
using DepthwiseKernel = void (*)(const DepthwiseStrip& strip);

struct DepthwiseKernels {
  static constexpr int kMostColumns = 7, kMostGroupedColumns = 3;  // of a filter: of groups of one, and of others
  static constexpr int kMostStride = 2;
  static constexpr int kMostPositions = 7;  // images are often 7 wide, or 14, 28, 56, 112

  int lanes;
  bool can_finish;   // DepthwiseStrip::finish
  bool can_permute;  // else ChannelGroups::Few is nothing for these
  DepthwiseKernel (*kernel)(const DepthwiseShape& shape);
};
// For this machine, with vectors that so many channels fill, if there are such.
const DepthwiseKernels& depthwise_kernels(int64_t channels);

// For images of bfloat16, which DepthwiseStrip::image then points to, of ChannelGroups::Own; null where this machine has none. The weights
// are float32, of a vector's channels in the order of bf16_depthwise_lane(channel of the vector).
const DepthwiseKernels* bf16_depthwise_kernels();
int64_t bf16_depthwise_lane(int64_t channel);

}  // namespace toroid
