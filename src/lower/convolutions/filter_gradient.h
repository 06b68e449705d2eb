// The gradient of a convolution's filters, as a GPU's kernel makes it in tiles: a product over pixels.
//
//   gradient[k, tap, c] = sum over pixels p of results[p, k] * image[where the tap reads for p, c]
//
// formula/backward/convolution_backward.h writes it as a convolution in which batch and channels change places, so that one whose channels
// lie next to each other is read along what it sums over. The kernel reads both operands as they lie, 16 bytes of channels at a time.
#pragma once

#include <optional>
#include <string_view>

#include "graph/graph.h"

namespace toroid {

// Of the call: operands are the image [N, C, …] and the gradient of the results [N, K, …]; its attributes are stride, padding and dilation;
// it gives sums of parts of the pixels, [parts, K, taps…, C] in F32.
inline constexpr std::string_view kFilterGradient = "convolution.filter_gradient";

struct FilterGradient {
  ValueId image, results;
  std::vector<sym::Expr> stride, padding, dilation;  // of the convolution whose filters' gradient it is
  int64_t groups = 1, slabs = 1;
};
// Of 16-bit floats, along one or two dims, with filters of known sizes whose number is a multiple of 8. Groups are taken several at once, a
// slab: each filter of a slab meets all channels of it, of which those of its own group count. With groups each has at least four channels
// and filters, and slabs fill tiles of filters.
std::optional<FilterGradient> filter_gradient_of(const Graph& graph, const Node& node);

Library filter_gradient_call(const FilterGradient& gradient);

// Tiles of [K, taps * C] sums, C the channels of a slab, and parts of the pixels that are summed apart, so that all multiprocessors have
// work: by the sizes' hints. The parts' sums are added in their order, so the result is the same in each call.
struct FilterGradientTiles {
  int rows, columns;
  int64_t parts;
};
FilterGradientTiles filter_gradient_tiles(sym::Expr filters, sym::Expr slabs, sym::Expr elements_of_filter, sym::Expr pixels);

}  // namespace toroid
