// How many compilers run at once: no more than there are cores, and no more than the machine has memory for, whichever part of the process
// starts them (feature A7).
#pragma once

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

}  // namespace toroid
