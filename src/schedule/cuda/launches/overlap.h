// Kernels that start while the one before them ends: programmatic dependent launch, from Hopper on.
//
// Between two kernels that follow each other a GPU is idle for a microsecond and more. A kernel that lets the next one start says so once
// all its blocks are there; the next one's blocks come where there is room, and wait, in all threads, until the one before has ended. Small
// kernels leave room, and others at their ends. Products of few rows have their weights on the way while they wait.
//
//   A   lets the next start                     |-----A-----|
//   B   starts early, loads ahead, waits            |w-B-|----B-----|
//
// Which launches do so is a matter of pairs, program/overlaps.h.
#pragma once

#include "schedule/schedule.h"

namespace toroid::schedule {

// Of a launch, beside its neighbours.
struct Overlap {
  bool starts_early = false;     // before the kernel before it has ended; its threads wait for that before they read or write
  bool loads_ahead = false;      // but for what no kernel of the call writes: a product's right side, attention's rows of keys and values
  bool lets_next_start = false;  // the next one starts early
  bool operator==(const Overlap&) const = default;
};

// Is there such a kernel for the step, and has it some blocks in each call? Products in tiles of many rows have none.
bool can_overlap(const loop::LoopProgram& program, const Step& kernel);
// Of attention of few queries (the choice "flash-split"), by the sizes of its keys.
bool can_overlap(std::span<const sym::Expr> sizes_of_keys);
// Of a product of few rows: is its right side always there?
bool can_load_ahead(const loop::LoopProgram& program, const Step& kernel);
// Is the buffer the same for all kernels of a call? What runs once is done by then.
bool is_always_there(const loop::Buffer& buffer);

}  // namespace toroid::schedule
