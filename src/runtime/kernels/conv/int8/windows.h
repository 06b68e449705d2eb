// Where the bytes of a convolution's windows lie, as rows of a product (gemm/int8/microkernel.h), and its filters as the product's right
// side.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fields.h"
#include "runtime/kernels/conv/filter_layout.h"
#include "runtime/kernels/gemm/int8/microkernel.h"

namespace toroid {

// How filters are packed, besides where they lie (prepared_constants.h).
struct PackedByteFilters {
  enum class For { Fours, Depthwise } loops;
  FilterLayout filters;
  int64_t taps, words;  // of windows
  TOROID_COMPARED_FIELDS(PackedByteFilters, loops, filters, taps, words)
};

class ByteWindows {
 public:
  // `channels`: of a slab.
  ByteWindows(const ConvolutionShape& s, const ImageStrides& strides, int64_t channels);

  int64_t taps() const { return taps_; }
  int64_t words() const { return words_; }  // of a tap; what is missing is not there, and meets zeros
  int64_t depth() const { return taps_ * words_ * kWordBytes; }
  int64_t positions() const { return s_.batch * s_.out_elements(); }

  PackedByteFilters layout(PackedByteFilters::For loops, const ToroidOperand& weight) const {
    return {loops, filter_layout(weight, s_), taps_, words_};
  }

  // Bytes of memory that pointers to so many positions may need.
  int64_t bytes_to_copy(int64_t positions) const { return runs_ == Runs::Elements ? 0 : positions * depth(); }
  // Pointers to `count` windows from this one on, of the first slab, [strip][tap][ByteRows::kStrip]. `copied`: as said above.
  void point(const uint8_t* image, int64_t first, int64_t count, const uint32_t** to, uint8_t* copied) const;

  // The filters of one slab, [depth][filters], `filters` of them from the slab's first one on.
  std::vector<int8_t> filters(const ToroidOperand& weight, int64_t slab, int64_t filters) const;

 private:
  static constexpr int64_t kWordBytes = 4;
  enum class Runs {
    Elements,  // the channels of one element of the filters
    Rows,      // those of a row of them, which follow each other
    Windows,   // all, copied
  };
  // From the window's first element on.
  struct Element {
    int64_t row, column, offset;  // offset: in bytes
  };
  struct Place {
    const uint8_t* data;
    int64_t row, column;  // of the window's first element, which may lie outside
  };
  Place place(const uint8_t* image, int64_t position) const;
  bool is_inside(const Place& at, const Element& element) const;
  void point_to_taps(const Place& at, const uint8_t* end, const uint32_t** tap, uint8_t* copied) const;
  void copy_window(const Place& at, uint8_t* to) const;

  ConvolutionShape s_;
  ImageStrides strides_;
  int64_t channels_;  // of a slab
  Runs runs_;
  int64_t taps_, run_, words_;     // run_: bytes of a tap
  int64_t image_bytes_;            // up to the last one of the last image
  std::vector<Element> elements_;  // of a window
  std::vector<uint8_t> zeros_;
};

}  // namespace toroid
