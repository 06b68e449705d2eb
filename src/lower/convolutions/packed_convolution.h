// Which convolutions a GPU's kernel makes in tiles, and of what: images and filters whose channels lie next to each other in packs of 16
// bytes.
//
// That is what one access brings. Where an image has other numbers of channels, both operands are copies with zeros behind them. An image
// of up to four channels of 16 bits that is read with a stride of 2 along its rows, as the first layer of many models does, is cheaper than
// that as one of pairs of pixels: two times four channels, read with a stride of 1.
#pragma once

#include "graph/graph.h"
#include "lower/convolutions/convolution_loops.h"

namespace toroid {

// A kernel in tiles counts them in 32 bits, and those of a tile beyond the last.
inline constexpr int64_t kMostPixels = (int64_t{1} << 31) - 256;

// The value, or zero where the condition, a number, does not hold.
loop::ExprId zero_unless(loop::ExprTable& exprs, sym::Expr holds, loop::ExprId value);

// Of float32 or narrower floats, along one or two dims, with filters of known sizes whose number is a multiple of 8, and no more pixels than
// 32 bits count. With groups those of 16-bit floats, where each group has packs of channels and at least 16 channels and filters, or few.
bool is_packed_convolution(const Graph& graph, const Node& node);

// The same by its dtype and its filters [O, C, taps…], which are known numbers.
bool has_packed_filters(const Convolution& op, DType dtype, const std::vector<sym::Expr>& filters);

// Groups of few channels, of which a block takes several (codegen/cuda/prelude/group_convolution.inc): of 16-bit floats, with four channels
// or whole packs, up to 64, and up to 64 filters in fours. By `filters` [O, C, taps…], with O in eights. The window of sixteen pixels must
// fit a block's shared memory.
bool has_narrow_groups(const Convolution& op, DType dtype, const std::vector<sym::Expr>& filters);
// Of which the window and the sums of a block's pixels take so many bytes at most.
inline constexpr int64_t kMostGroupBytes = int64_t{80} << 10;

// Channels of a pack.
int channels_of_pack(DType dtype);

// What is computed in its place.
struct PackedConvolution {
  Convolution op;
  std::vector<sym::Expr> image_sizes, filter_sizes;  // [N, C, …] and [O, C, …], C in packs
  bool has_pairs = false;
};
PackedConvolution packed_convolution(const Convolution& op, DType dtype, const std::vector<sym::Expr>& image_sizes,
                                     const std::vector<sym::Expr>& filter_sizes, const std::vector<sym::Expr>& output_sizes);

// Their elements, in terms of the operands as they are: `sizes` theirs, `element` one of them.
loop::ExprId packed_image(loop::ExprTable& exprs, const PackedConvolution& it, const Convolution& op, const std::vector<sym::Expr>& sizes,
                          const std::vector<sym::Expr>& index, const LoadAt& element);
loop::ExprId packed_filter(loop::ExprTable& exprs, const PackedConvolution& it, const std::vector<sym::Expr>& sizes,
                           const std::vector<sym::Expr>& index, const LoadAt& element);

}  // namespace toroid
