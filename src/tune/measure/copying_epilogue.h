// An epilogue for trials: it writes the blocks that it gets, and nothing else, so that results can be compared and a kernel pays
// for giving its result away block by block. Of float32 it is a clamped sum too, as most epilogues are: a kernel that has its sums in registers
// writes them itself, as it will in programs.
#pragma once

#include <cstddef>

#include "tensor/dtype.h"
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
  static void run(void* argument, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first_column,
                  int64_t last_column);
  void write_row(const float* from, int64_t count, std::byte* to) const;

  void* arguments_[kNumArguments];  // the data, and this
  DType dtype_;
  int64_t columns_;
  ToroidPostOps sum_;  // of F32
  ToroidEpilogue abi_;
};

}  // namespace toroid::tune
