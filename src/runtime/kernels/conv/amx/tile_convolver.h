// Convolutions without groups in tiles (isa/amx.h): of images and filters of bfloat16, sums in float32, or of uint8 by int8, exact sums of
// 32 bits that wrap.
//
//   positions of a band  x  panel of filters  =>  block of sums  =>  epilogue
//
// A band of the image is laid out as a tile's rows (image_tiles.h), so that it stays in the second-level cache while all filters pass by.
// Where windows are single elements the positions are a matrix's rows, which are read where they lie.
#pragma once

#include "runtime/kernels/conv/amx/image_tiles.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/registry/packed_operand.h"

namespace toroid {

class TileConvolver {
 public:
  // numbers: BFloat16, or Uint8 for the image and Int8 for the filters. At most two spatial dims, not transposed, the result and the
  // filters have elements.
  TileConvolver(AmxType numbers, const KernelCall& call, const ConvolutionShape& shape);
  TileConvolver(const TileConvolver&) = delete;
  TileConvolver& operator=(const TileConvolver&) = delete;

  void run(const KernelCall& call, const ProductOutput& out) const;
  // Rows of one output image on the calling thread, where the filters are constants; a ring (conv.h) of fewer rows than the image has is
  // for filters of one element without strides and padding.
  void run_rows(int64_t image, Range rows, const ImageRing& in, const ProductOutput& out) const;

 private:
  struct Band {
    const std::byte* data;  // of the image
    int64_t image;          // which one it is
    Range rows, panels;
  };
  Cut cut_of(const RuntimePool& pool) const;
  void pack_filters(const KernelCall& call, std::byte* to) const;
  void run_band(const Band& band, const std::byte* filters, const ProductOutput& out) const;

  AmxType numbers_;
  ConvolutionShape s_;
  ImageStrides strides_;  // in elements
  ImageTiles image_;
  int64_t panels_;
  Cut cut_;
  PackedOperand filters_;
};

}  // namespace toroid
