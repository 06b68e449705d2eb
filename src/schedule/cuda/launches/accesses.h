// What steps read and write, and which of them keep their order (internal to schedule/cuda/).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

// A state and its new value count as one buffer, since they may be in the same memory.
struct Accesses {
  std::unordered_set<uint32_t> reads, writes;
  bool orders_all = false;  // sizes become known there: nothing moves over it

  void add(const Accesses& other);
};

// Must their order stay?
bool depend(const Accesses& a, const Accesses& b);

// Gives the accesses of a program's steps; buffers that it gets later are no states.
class AccessTable {
 public:
  explicit AccessTable(const loop::LoopProgram& program);
  Accesses of(const Step& step) const;
  // May the step go from one side of these to the other?
  bool may_move_over(const Step& step, std::span<const Step> others) const;

 private:
  uint32_t memory_of(BufferId id) const;

  std::vector<uint32_t> memory_;  // of each buffer, the first that it may share its memory with
};

}  // namespace toroid::schedule
