// An epilogue for trials: it writes the blocks that it gets, and nothing else, so that results can be compared and a kernel pays
// for giving its result away block by block.
#pragma once

#include "toroid/program_abi.h"

namespace toroid::tune {

class CopyingEpilogue {
 public:
  // Writes to `data`, rows of `columns` elements one after the other.
  CopyingEpilogue(float* data, int64_t columns);
  CopyingEpilogue(const CopyingEpilogue&) = delete;

  const ToroidEpilogue& abi() const { return abi_; }

 private:
  float* data_;
  int64_t columns_;
  ToroidEpilogue abi_;
};

}  // namespace toroid::tune
