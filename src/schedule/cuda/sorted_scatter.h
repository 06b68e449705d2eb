// Scatters of many elements in the order of their destinations.
//
// Destinations are written down and sorted, stably; then a thread takes the elements of one destination, in their order. Results are those
// of one element after the other, in every call, and the work grows with the elements alone.
//
//   scatter out[i[k] * 128 + c]   =>   kernel keys[k] = i[k] * 128;  call sorted, order = sort(keys);  scatter … ordered by sorted, order
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

// Of a position: what the serial axes tell, the parallel ones being 0, and what the parallel ones add to it; nullopt where it is no such
// sum.
struct Destination {
  sym::Expr key, within;
};
std::optional<Destination> destination_of(const loop::LoopProgram& program, const ScatterKernel& kernel);

// What comes before the scatter: a kernel, not planned yet, and a sort. None where the scatter stays as it is.
struct SortedScatter {
  Kernel keys;
  CallStep sort;
};
std::optional<SortedScatter> sort_destinations(loop::LoopProgram& program, ScatterKernel& kernel);

}  // namespace toroid::schedule
