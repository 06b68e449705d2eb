// Which input elements an upsampling reads at each output position, and with which weights: shared by the operators and
// their gradients. Positions are computed in the arithmetic that PyTorch uses (F32, or F64 for F64 inputs), because
// rounding decides which element is nearest.
#pragma once

#include <optional>
#include <vector>

#include "graph/builder.h"

namespace toroid::formula {

// One spatial dim: its sizes and the factor out/in that the caller asked for, which decides the positions more exactly than the sizes do.
struct Extent {
  sym::Expr in, out;
  std::optional<double> factor;  // absent, or not positive: out/in
};

// The extent of a dim that goes from `in` to `out` elements. Throws Error{InvalidModel} where one is known to be negative.
Extent resampled(sym::Expr in, sym::Expr out, std::optional<double> factor);

// floor(in * factor), or nothing where a symbolic size is scaled by a fraction. Throws Error{InvalidModel} for factors that give no size.
std::optional<sym::Expr> scaled_size(sym::Expr in, double factor);

// The dtype in which positions and weights are computed.
DType position_dtype(Tensor x);

// Input elements per output element, as a rank 0 tensor.
Tensor scale_of(Builder& b, const Extent& e, bool align_corners, DType dtype);

// An input element that each output position reads.
struct Tap {
  Tensor index;   // I64 [out]
  Tensor weight;  // [out]; undefined: 1
};

// linear: s = max((o + 0.5)*scale - 0.5, 0), taps floor(s) and floor(s) + 1, weights 1 - t and t for t = s - floor(s)
std::vector<Tap> linear_taps(Builder& b, const Extent& e, bool align_corners, DType dtype);
// Keys' cubic kernel over floor(s) - 1 … floor(s) + 2; what lies outside is the border.
std::vector<Tap> cubic_taps(Builder& b, const Extent& e, bool align_corners, DType dtype);
// floor((o + shift)*scale)
Tap nearest_tap(Builder& b, const Extent& e, double shift, DType dtype);

// The nearest input position as an expression over the output axis, where exact integer arithmetic agrees with PyTorch's.
std::optional<sym::Expr> exact_nearest(const Extent& e, double shift, sym::Expr axis);

// A filter widened by the scale when shrinking; its weights within the input are normalised to a sum of 1.
struct Filter {
  double radius;
  Tensor (*at)(Tensor distance);  // of distances below `radius`
};
Filter triangle_filter();
Filter keys_cubic_filter();
Filter lanczos_filter();  // of three lobes

// The filter around each output position: it covers [first, end), weighted by filter(|index + 0.5 - center| / stretch).
struct FilterWindow {
  double radius, stretch;     // radius in input elements
  int64_t taps;               // at most
  Tensor center, first, end;  // [out, 1]; the last two I64
};
// Throws Error{Unsupported} when a size is symbolic.
FilterWindow filter_window(Builder& b, const Extent& e, bool align_corners, const Filter& filter, DType dtype);
// The weights at `index` (I64, broadcasts against [out, 1]), not normalised; 0 outside the window.
Tensor filter_weight(const FilterWindow& window, const Filter& filter, Tensor index);

}  // namespace toroid::formula
