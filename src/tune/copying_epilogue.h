// An epilogue for trials: it writes the blocks that it gets, and nothing else, so that results can be compared and a kernel pays
// for giving its result away block by block.
#pragma once

#include <cstddef>

#include "graph/dtype.h"
#include "toroid/program_abi.h"

namespace toroid::tune {

class CopyingEpilogue {
 public:
  // Writes to `data`, rows of `columns` elements one after the other: F32, or rounded to BF16 or F16.
  CopyingEpilogue(void* data, DType dtype, int64_t columns);
  CopyingEpilogue(const CopyingEpilogue&) = delete;

  const ToroidEpilogue& abi() const { return abi_; }
  // Of its argument, an array of pointers: where the data goes, which may be passed anew (ConvolutionStage).
  static constexpr int32_t kNumArguments = 2, kDataArgument = 0;

 private:
  void write_row(const float* from, int64_t count, std::byte* to) const;

  void* arguments_[kNumArguments];   // the data, and this
  DType dtype_;
  int64_t columns_;
  ToroidEpilogue abi_ = {};
};

}  // namespace toroid::tune
