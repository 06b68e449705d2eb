// Bands of images of bfloat16 or bytes as the left side of a product in tiles (gemm_amx.h).
#pragma once

#include <vector>

#include "base/span.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/gemm/half/gemm_amx.h"

namespace toroid {

// A band's positions: the result's, `columns` of them in each of its rows, which begin `row` positions apart.
struct BandPositions {
  TileRows tiles;
  int64_t columns, row;
};

// How the image of a convolution without groups is laid out. With many channels each element of the padded image is copied once, in places
// of 64 bytes of channels, those apart that strided filters see apart; a tile's rows are then 16 places that follow each other, for any
// filter element, and positions between a row's last and the next row's first are computed too. With few channels a tile's rows are places
// of copied rows of the image that overlap, each with the elements of a row of the filter and others behind them, which meet zeros: of a
// band of bfloat16 with numbers that are not finite, whose products with zeros would be NaN, the elements of each position are copied.
// Where that would take many more products, of filters with dilated columns or too many of few elements, they always are, those of all rows
// of the filter without gaps.
class ImageTiles {
 public:
  ImageTiles(AmxType numbers, const ConvolutionShape& s, const ImageStrides& strides);

  // Of the weights, whose filter elements have their channels so far from each other, and their rows.
  int64_t depth() const { return s_.kernel[1] * depth_of_row(); }
  int64_t depth_of_element() const { return layout_ == Layout::Places ? whole_steps(s_.in_channels) : s_.in_channels; }
  int64_t depth_of_row() const {
    const int64_t depth = s_.kernel[2] * depth_of_element();
    return layout_ == Layout::Rows ? whole_steps(depth) : depth;
  }
  int64_t steps() const { return divide_up(depth() * element_bytes_, kTileRowBytes); }
  int64_t most_rows() const;  // of the result, so that a band stays in the cache

  // What these rows of the result see of the image at `data`; this thread's, until it asks again.
  BandPositions band(const std::byte* data, Range rows) const;

 private:
  struct Phase {
    int64_t row, column;  // of the padded image, that the stride leads to first
  };
  struct Element {
    int64_t phase, row, column;  // where the first position's filter element is
  };

  // Copied rows of the image, of which tiles' rows overlap.
  struct OverlappingRows {
    const std::byte* data;
    int64_t row_bytes, place_bytes;  // from a row, and from a place, to the next
    Span<const int64_t> of_filters;  // where the first position's row of the filter is, for each
  };
  BandPositions without_neighbours(const OverlappingRows& from, int64_t rows) const;

  enum class Layout { Places, Gathered, Rows };
  Layout layout_for() const;
  int64_t whole_steps(int64_t elements) const {
    return divide_up(elements * element_bytes_, kTileRowBytes) * kTileRowBytes / element_bytes_;
  }

  int64_t band_columns() const { return s_.out[2] + most_column_; }
  BandPositions places(const std::byte* data, Range rows) const;
  BandPositions gathered(const std::byte* data, Range rows) const;
  BandPositions overlapping(const std::byte* data, Range rows) const;
  void copy_padded(const std::byte* data, int64_t row, int64_t columns, std::byte* to) const;
  std::vector<Run> runs_of_position(int64_t columns) const;
  void copy_row(const std::byte* row, const Phase& phase, int64_t step_places, std::byte* out) const;

  const ConvolutionShape& s_;
  AmxType numbers_;
  int64_t element_bytes_;
  ImageStrides strides_;  // in bytes
  int64_t pixel_bytes_;   // of its channels
  Layout layout_;
  int64_t steps_of_element_;
  std::vector<Phase> phases_;
  std::vector<Element> elements_;
  int64_t most_row_ = 0, most_column_ = 0;
};

}  // namespace toroid
