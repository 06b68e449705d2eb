// What is computed beside swaps with another process, on two streams in the graph of a call: lanes.
//
// Halves of a batch that communicate (passes/shard/micro_batches.h):
//
//   lane 1   |--1--|=swap=|----3----|=swap=|--5--| …
//   lane 2       |--2--|=swap=|     |----4----|=swap=| …
//
// A kernel waits for those of its lane. What one lane leaves of the device, while its sums are on their way, at the ends of its kernels and
// between them, has the blocks of the other one. Steps of a lane are on a branch (Step::branch), its collective operations too, which are
// marked as beside others (Step::is_beside). The kernels before one of them are a stretch.
//
// Stretches keep an order, the same in both processes: each starts when the last two kernels of the one before it begin (Step::is_marked is
// the step before these, Step::awaits counts such steps and operations). Else the processes would come to their swaps in different orders,
// or both lanes to theirs at the same time, and nobody computes.
//
// Rows of the other process, and own ones (passes/shard/swap_rows.h): a region begins with a swap, and ends with what needs both lanes.
//
//   lane 1   |----own rows----|                           |--own rows--|
//   lane 2   |=swap=|         |----the other's----|--the other's--|=swap=|
//
// A kernel of lane 1 behind some of lane 2 starts when the last of these begins, so that they are not late to their swap.
//
// Memory: a temporary lives until no step of the other lane can be beside the last one that accesses it. Started one by one, steps keep
// their order on one stream.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/module.h"

namespace toroid::program {

inline constexpr uint32_t kLanes = 2;

// Does it swap with another process? By copy engines, as a rule: kernels of other operations would wait for multiprocessors that another
// lane's kernels have.
bool swaps(const schedule::Step& step);

// Has the main function steps on lanes? Then nothing else of it is beside others.
bool has_lanes(const Module& module);

// What is wrong with the lanes of the main function; none: nothing.
std::optional<std::string> fault_of_lanes(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module);

// Of the main function, where two chains of steps swap several times and do not wait for each other. False where there are none.
bool add_lanes(const std::vector<schedule::ScheduledGraph>& graphs, Module& module);

}  // namespace toroid::program
