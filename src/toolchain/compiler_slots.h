// How many compilers run at once: no more than there are cores, and no more than the machine has memory for, whichever part of the process
// starts them (feature A7).
#pragma once

#include <cstdint>

namespace toroid {

// Held while a compiler runs.
class CompilerSlot {
 public:
  // Waits for its turn. One compiler may always run.
  CompilerSlot();
  ~CompilerSlot();
  CompilerSlot(const CompilerSlot&) = delete;
  CompilerSlot& operator=(const CompilerSlot&) = delete;
};

// What new processes may use without swapping: Linux's own estimate, less where a control group (v2) allows less. UINT64_MAX where neither
// is told.
uint64_t available_memory_bytes();

// Of the machine or, if it is less, of the control group; UINT64_MAX where it is not told.
uint64_t total_memory_bytes();

}  // namespace toroid
