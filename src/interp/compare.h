// Is a result what PyTorch recorded? The tolerances are those of docs/design.md, section 11:
//
//   integers and bools   exact
//   float64              1e-7 relative, 1e-7 absolute
//   float32              1e-4 relative, 1e-5 absolute
//   float16, bfloat16    2e-2 relative, 2e-2 absolute
//
// NaN equals NaN, infinities equal themselves. Where sums or products made the value, the relative part is taken of the
// larger of the value and its row's scale, the largest finite magnitude along the last dim: the order of summation may
// differ, and terms far larger than their sum leave rounding errors of their own size.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"
#include "tensor/host_tensor.h"

namespace toroid {

struct Tolerance {
  double relative = 0;
  double absolute = 0;
};
Tolerance tolerance_of(DType dtype);

struct CompareOptions {
  bool sums_or_products = false;
};

// Nothing when equal within the tolerance; else the first difference:
// "element [1, 2] is 3.5, expected 3.4 (off by 0.1, allowed 0.00035); 5 of 24 elements differ".
std::optional<std::string> difference(const HostTensor& actual, const HostTensor& expected, const CompareOptions& options);

// How two tensors of one dtype and shape differ, element by element. An element differs where it is further from the expected one than is
// allowed: absolute + relative * scale, the scale being the expected magnitude, or with `row_scales` the largest finite one of its row of
// the last dim, if that is more. Integers and bools may not differ at all with tolerance_of() them.
struct Differences {
  int64_t elements = 0;
  int64_t differing = 0;
  double most_absolute = 0;      // of all elements that are finite in both
  double most_relative = 0;      // likewise, |a - e| / |e|, where e is not 0
  std::optional<int64_t> worst;  // of those that differ, the one that is furthest beyond what is allowed, in row-major order
  double allowed = 0;            // for that one
};
// Throws Error{InvalidInput} where dtypes or shapes differ.
Differences compare_elements(const HostTensor& actual, const HostTensor& expected, const Tolerance& tolerance, bool row_scales);
// " [1, 2]", "" of a scalar; "3.5": for messages.
std::string position_text(int64_t index, std::span<const int64_t> sizes);
std::string element_text(const HostTensor& tensor, int64_t index);

// Per output of the core-level graph: does a sum or product of several elements (a reduction, a scan, a matrix product,
// …) lie between it and the inputs?
std::vector<bool> made_of_sums_or_products(const Graph& graph);

}  // namespace toroid
