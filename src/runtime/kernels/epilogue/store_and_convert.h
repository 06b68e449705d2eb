// The epilogue of a product that has none: its sums go to memory, rounded to the result's dtype.
#pragma once

#include <cstring>

#include "runtime/kernels/isa/half_rows.h"
#include "tensor/dtype.h"
#include "toroid/program_abi.h"

namespace toroid {

struct StoredSums {
  void* out;
  DType dtype;  // F32, BF16 or F16; I32 where the sums are integers
  int64_t row;  // stride, in elements

  ToroidEpilogue epilogue() {
    return {[](void* argument, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first_column,
               int64_t last_column) {
              const StoredSums& to = *static_cast<StoredSums*>(argument);
              const int64_t width = size_bytes(to.dtype), count = last_column - first_column;
              for (int64_t i = first_row; i < last_row; ++i, block += row_stride) {
                std::byte* at = static_cast<std::byte*>(to.out) + (i * to.row + first_column) * width;
                if (is_reduced_float(to.dtype)) {
                  round_row(to.dtype, block, count, reinterpret_cast<uint16_t*>(at));
                } else {
                  std::memcpy(at, block, static_cast<size_t>(count * width));
                }
              }
            },
            this, nullptr};
  }
};

}  // namespace toroid
