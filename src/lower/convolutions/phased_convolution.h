// Transposed convolutions as convolutions that are not, for targets that make those quickly: the gradients of images, first of all.
//
// With a stride of 1 the filters are flipped. With a stride of s, results whose places are equal modulo s, a phase, meet the same taps:
// each phase is a convolution with a stride of 1 of its own, with a part of the taps. All are made at once as one with phases * C filters,
// and the results' places are found by their phase (sub-pixel convolution):
//
//   y[n, c, s*i + a] = made[n, phase(a) * C + c, i]
//
// A phase that meets no tap is zero and not made. Of groups each has the phases of its own channels.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "lower/convolutions/convolution_loops.h"

namespace toroid {

struct PhasedConvolution {
  struct Dim {
    int64_t stride, padding, taps;  // of the transposed convolution
    int64_t phases;                 // that meet taps
    int64_t first_place;            // of the image that the first tap of a phase reads, relative to the result's
    int64_t skipped;                // results before the first
  };
  std::vector<Dim> dims;
  Convolution op;
  std::vector<sym::Expr> filter_sizes, output_sizes;  // [phases * C, K, …] and [N, phases * C, …]

  // Are its results those of the transposed convolution, at the same places?
  bool is_plain = false;
};
// Of floats up to 32 bits, along one or two dims, undilated, where filters and the convolution's arguments are known numbers and channels
// on both sides are multiples of eight; of groups those that packed_convolution.h takes.
std::optional<PhasedConvolution> phased_convolution(const Graph& graph, const Node& node);

// An element of its filters, in terms of those of the transposed convolution, [K, C, …].
loop::ExprId phased_filter(loop::ExprTable& exprs, const PhasedConvolution& it, sym::Expr channels, const std::vector<sym::Expr>& index,
                           const LoadAt& element);
// An element of the transposed convolution's results, in terms of its own.
loop::ExprId phased_result(loop::ExprTable& exprs, const PhasedConvolution& it, sym::Expr channels, const std::vector<sym::Expr>& index,
                           const LoadAt& element);

}  // namespace toroid
