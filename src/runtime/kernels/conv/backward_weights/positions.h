// Positions of a convolution's results, that backward weights sums over, as one line, in which a tap is a shift.
//
// The images of a block lie side by side: a line has a row of each, then comes the next row. Between two rows are as many positions as taps
// reach beyond a row; there dy is 0. Where images are padded, the zeros behind one are those before the next.
//
//   dy   a b c 0 | d e f 0 | …         rows of three positions, of two images
//   x    0 A B C | 0 D E F | 0 …       the first tap meets it from here, the second one position further on
//
// With a stride, x is several planes: one for each remainder of rows and columns, in which the elements that a tap sees follow each other.
#pragma once

#include <cstdint>
#include <vector>

#include "base/span.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/gemm/partition.h"

namespace toroid {

struct BackwardWeightsShape {
  int64_t batch, groups, channels, filters;  // the latter two of a group
  int64_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
  // Few channels: each is so many, one for each column of the filter, whose element at a position is what that column sees there.
  int64_t folded = 1;
  int64_t columns = 0, column_stride = 1, column_padding = 0, column_dilation = 1;  // of the image and the filter as they are

  int64_t taps() const { return kernel[0] * kernel[1]; }
};
// The same with the filter's columns as channels where these are few.
BackwardWeightsShape with_folded_columns(const BackwardWeightsShape& shape);

// What follows from the shape.
struct TapShifts {
  explicit TapShifts(const BackwardWeightsShape& shape);

  struct Plane {
    int64_t row, column;  // remainders by the stride
  };
  struct Tap {
    size_t plane;
    int64_t row, column;  // shifts, in rows and columns of the plane
  };
  std::vector<Plane> planes;
  std::vector<Tap> taps;
  int64_t reach[2];  // the largest shifts
  int64_t width;     // positions from an image's row to that of the next
};

// Some rows of results of some images.
struct PositionBlock {
  Range images, rows;

  int64_t line(const TapShifts& shifts) const { return images.size() * shifts.width; }
  int64_t positions(const TapShifts& shifts) const { return rows.size() * line(shifts); }
  int64_t shift_of(const TapShifts& shifts, const TapShifts::Tap& tap) const { return tap.row * line(shifts) + tap.column; }
  // Of the line of x that so many positions and all taps see.
  int64_t length_of_plane(const TapShifts& shifts, int64_t positions) const {
    return positions + shifts.reach[0] * line(shifts) + shifts.reach[1];
  }
  // The rows of x that there are for these.
  Range rows_of_image(const BackwardWeightsShape& shape) const;
};

// How the positions are cut into blocks, all alike but for one row or image.
struct PositionCut {
  int64_t image_parts, row_parts;

  int64_t blocks() const { return image_parts * row_parts; }
  PositionBlock block(const BackwardWeightsShape& shape, int64_t i) const {
    return {part_of(shape.batch, i / row_parts, image_parts), part_of(shape.out[0], i % row_parts, row_parts)};
  }
  // The largest.
  PositionBlock largest(const BackwardWeightsShape& shape) const {
    return {{0, divide_up(shape.batch, image_parts)}, {0, divide_up(shape.out[0], row_parts)}};
  }
};
// Blocks of at most so many positions, or one row of one image, and at least so many blocks where there are as many rows.
PositionCut cut_positions(const BackwardWeightsShape& shape, const TapShifts& shifts, int64_t most_positions, int64_t least_blocks);

// Rows of dy, one for each filter from `first` on, each a line of `length` positions.
void gather_filters(const BackwardWeightsShape& shape, const TapShifts& shifts, const PositionBlock& block, const float* dy,
                    const ImageStrides& strides, int64_t first, int64_t count, int64_t length, float* to, int64_t row);

// Sixteen channels of x, next to each other, by position of a plane.
class ChannelLines {
 public:
  static constexpr int64_t kChannels = 16;

  // Lines are `length` long, and nothing is read behind them.
  ChannelLines(const BackwardWeightsShape& shape, const TapShifts& shifts, const PositionBlock& block, const float* x,
               const ImageStrides& strides, int64_t length);

  // Makes these the channels at hand: up to kChannels, the others are 0. Until the thread's next ones.
  void take(int64_t first, int64_t count);
  // From data() on, where a plane's positions are; below 0: they are 0.
  const float* data() const { return data_; }
  Span<const int64_t> where(size_t plane) const { return {(is_copied_ ? of_copy_ : in_place_)[plane]}; }

 private:
  std::vector<int64_t> places(const TapShifts::Plane& plane, const ImageStrides& strides, int64_t first_row) const;
  // A row of a channel of folded columns, as many elements as positions.
  void copy_folded(int64_t channel, const float* row, float* to) const;

  const BackwardWeightsShape& shape_;
  const TapShifts& shifts_;
  const PositionBlock block_;
  const float* const x_;  // of the block's first image
  const ImageStrides strides_;
  const int64_t length_;
  const Range rows_;                                      // of the image
  std::vector<std::vector<int64_t>> in_place_, of_copy_;  // by plane, when they are needed first
  const float* data_ = nullptr;
  bool is_copied_ = false;
};

}  // namespace toroid
