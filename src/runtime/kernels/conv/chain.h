// Convolutions each of which reads what the one before made, done band by band of image rows.
//
// For each band of rows of the last one a thread makes the rows of every other that the band sees and that it has not made yet, from the
// first convolution to the last: what passes from one to the next lies in a ring of rows that stays in the second-level cache. Rows that
// two threads see are made by both.
#pragma once

#include "base/span.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/registry/plan.h"

namespace toroid {

// Of a chain (call_of_chain): every image but the first has its channels next to each other and nothing between its rows and images; its
// memory holds none of it afterwards. `rows`: the last stage's rows of a band; 0: as many as the cache has room for. In bands no stage may
// be transposed or have a bias, all results have their channels next to each other, and all weights are constants. `make`: for the images'
// dtype, F32 or, with bf16_row_convolution, BF16.
using MakeRowConvolution = std::unique_ptr<RowConvolution> (*)(const KernelCall& call, const ConvolutionShape& shape, const RowUse& use);
std::unique_ptr<const KernelPlan> plan_in_bands(const KernelCall& chain, int64_t rows = 0, MakeRowConvolution make = row_convolution);
std::unique_ptr<const KernelPlan> plan_in_turn(const KernelCall& chain);

// The implementation of a chain (registry.h) that is one convolution after the other.
inline constexpr std::string_view kApart = "apart";

// Of the stages, whose data is not looked at, on so many threads.
struct ChainEstimate {
  double in_turn_s, in_bands_s;
};
ChainEstimate estimate_chain(Span<const KernelCall> stages, int64_t threads);

}  // namespace toroid
