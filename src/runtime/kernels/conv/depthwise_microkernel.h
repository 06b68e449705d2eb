// The innermost loops of convolutions in which each channel has its own filter, or which mixes few channels, for images with their channels next
// to each other.
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
  const int64_t* weights_rows;  // for each filter row the offset of its first column's, within a vector's
  int64_t filter_rows;
  float* out;  // [position, channel], with a stride for the positions
  int64_t out_position;
  int64_t channels;            // of the result; at least `lanes`
  int64_t seen = 1, made = 1;  // channels of a group, of the image and of the result
  // At the image's edges: of the columns that the strip's positions see, those that there are.
  int64_t first_column = 0, last_column = 0;
  const ToroidPostOps* finish = nullptr;  // done with the sums before they are stored, of these channels, without residuals
};

// Calls f(vector, first channel) for vectors of `lanes` channels: of all, or of each so many, `together`, at least `lanes`. The last of them begins
// early where they do not fill it.
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

struct DepthwiseKernels {
  static constexpr int kMostColumns = 7;  // of a filter
  static constexpr int kMostStride = 2;
  static constexpr int kMostPositions = 7;  // images are often 7 wide, or 14, 28, 56, 112
  static constexpr int kMostSquare = 5;
  static constexpr int kMostGroupedColumns = 3, kMostGroupedPositions = 7;
  using Kernel = void (*)(const DepthwiseStrip& strip);

  int lanes;
  bool can_finish;  // DepthwiseStrip::finish
  // out[p, c] = sum over the filter elements (i, j) and the group's channels g of
  //   image[i, p * stride + j, c / made * seen + g] * weights[i, j, g, c], for so many positions p.
  // By filter columns - 1, stride - 1, positions - 1.
  Kernel own[kMostColumns][kMostStride][kMostPositions];
  Kernel own_at_edges[kMostColumns][kMostStride][kMostPositions];
  // With as many filter rows as columns: they are unrolled, so that each load is of the same row from vector to vector, whose next one is then fetched.
  Kernel own_square[kMostSquare][kMostStride][kMostPositions];
  Kernel own_square_at_edges[kMostSquare][kMostStride][kMostPositions];
  Kernel few[kMostGroupedColumns][kMostStride][kMostGroupedPositions];  // null where vectors cannot be permuted
  Kernel many[kMostGroupedColumns][kMostStride][kMostGroupedPositions];
};
// For this machine, with vectors that so many channels fill, if there are such.
const DepthwiseKernels& depthwise_kernels(int64_t channels);

}  // namespace toroid
