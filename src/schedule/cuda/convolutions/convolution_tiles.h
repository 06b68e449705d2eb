// Convolutions that a kernel of the program's own makes in tiles on a GPU: which ones, and in what tiles.
//
// Such a kernel is a product of what lies around each pixel and the filters (implicit GEMM; codegen/cuda/prelude/convolution.inc), of
// 16-bit floats on tensor cores. It reads both 16 bytes at a time, so channels lie next to each other in packs, as
// lower/convolutions/packed_convolution.h brings them.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "schedule/cuda/products/product_tiles.h"

namespace toroid::schedule {

// Of images [n, h, w, groups * c] and filters [groups * k, r, s, c]; the results are [n, p, q, groups * k]. One dim is h x w with h = 1.
struct ConvolutionShape {
  DType dtype;
  BufferId image, filters;
  sym::Expr image_offset = 0;
  sym::Expr n = 1, h = 1, w = 1, c = 8, k = 8, r = 1, s = 1, p = 1, q = 1, groups = 1;
  sym::Expr stride_h = 1, stride_w = 1, padding_h = 0, padding_w = 0, dilation_h = 1, dilation_w = 1;
  sym::Expr image_stride = 0, row_stride = 0, pixel_stride = 0;  // elements from one to the next

  // With groups: may it have tiles of filters (channels and filters of a group in eights); may it have those of group_tiles.h?
  bool is_in_eights = true, has_narrow_groups = false;

  sym::Expr rows() const { return n * p * q; }
  sym::Expr depth() const { return r * s * c; }
};
struct ConvolutionAttempt {
  std::optional<ConvolutionShape> shape;
  std::string_view reason = {};  // without a shape: why
};
// `inputs_are_aligned`: to 16 bytes; what the program itself allocates is.
ConvolutionAttempt as_convolution_of_tiles(const loop::LoopProgram& program, const loop::Call& call, const std::vector<BufferId>& outputs,
                                           bool inputs_are_aligned = true);

// The product's rows are pixels and its columns filters; or the other way round, where its epilogue wants neighbouring pixels of a filter.
bool has_pixels_across(const loop::LoopProgram& program, const CallStep& step);

// Can TMA bring its pixels? Of images without groups whose channels are a multiple of 64.
bool suits_tma(const ConvolutionShape& shape);

// By the sizes' hints; never in clusters. Tiles with ping-pong: TMA brings pixels, and a block has the threads of other products. Else the
// threads that multiply gather them, and pixels are rows. `epilogue_waits`: for tensors as large as the result, so that several blocks a
// multiprocessor are quicker than one that multiplies faster.
GpuTiles choose_tiles(const ConvolutionShape& shape, bool pixels_across, bool epilogue_waits);
// Those whose pixels threads gather, which tensor cores of any kind multiply.
GpuTiles choose_gathered_tiles(const ConvolutionShape& shape);
// Tiles that it may have, and how long they take by an estimate from the sizes' hints.
std::vector<TilesEstimate> estimated_tiles(const ConvolutionShape& shape, bool pixels_across);
// Of gathered tiles, blocks that a multiprocessor has at once: one multiplies while others wait for memory or are at their epilogues.
int blocks_at_once(DType dtype, const GpuTiles& tiles);
int threads_of_convolution(const GpuTiles& tiles);
int shared_bytes_of_convolution(const ConvolutionShape& shape, const GpuTiles& tiles);
sym::Expr blocks_of(const ConvolutionShape& shape, const GpuTiles& tiles, bool pixels_across);
// Images and filters for TMA.
std::array<TensorMap, 2> tensor_maps(const ConvolutionShape& shape, const GpuTiles& tiles, bool pixels_across);

}  // namespace toroid::schedule
