// Scatters of many elements in the order of their destinations.
//
// Destinations are written down and sorted, stably; then threads take chunks of the elements in this order, and combine those of one
// destination. What a chunk has of a destination that others have elements of too, a second kernel puts together, chunk after chunk. So the
// work grows with the elements alone, a destination that most elements have is the work of many threads, and results are the same in every
// call. Of elements that are not combined the last one counts, which one thread takes.
//
//   scatter out[i[k] * 128 + c]   =>   kernel keys[k] = i[k] * 128;  call sorted, order = sort(keys);  scatter … ordered by sorted, order,
//                                      parts
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

// Of a position: what the serial axes tell, the parallel ones being 0, and what the parallel ones add to it; nullopt where it is no such
// sum.
struct Destination {
  sym::Expr key, within;
};
std::optional<Destination> destination_of(const loop::LoopProgram& program, const ScatterKernel& kernel);

// How many parts the chunks of a scatter have: two for each chunk and combination of the parallel axes.
sym::Expr parts_of_chunks(const loop::LoopProgram& program, const ScatterKernel& kernel);

// What comes before the scatter: a kernel, not planned yet, and a sort. None where the scatter stays as it is.
struct SortedScatter {
  Kernel keys;
  CallStep sort;
};
// `vector`: neighbours that one access of the kernel may move, at most.
std::optional<SortedScatter> sort_destinations(loop::LoopProgram& program, ScatterKernel& kernel, int vector);
// Where a step among these does nothing but fill the base with a number, the scatter fills its result itself, and does not read the base.
void fill_result(const loop::LoopProgram& program, ScatterKernel& kernel, std::span<const Step> writers);
// Where all that a kernel does is to round the result of a scatter: the scatter stores its sums so. False where it is something else.
bool round_result(const loop::LoopProgram& program, ScatterKernel& scatter, const Step& next);
// Leaves out those steps whose results nobody reads any more.
void leave_out_unread_fills(const loop::LoopProgram& program, Schedule& schedule);

}  // namespace toroid::schedule
