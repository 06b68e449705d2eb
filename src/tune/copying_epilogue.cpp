#include "tune/copying_epilogue.h"

#include <cstring>

namespace toroid::tune {
CopyingEpilogue::CopyingEpilogue(float* data, int64_t columns) : data_(data), columns_(columns) {
  abi_.argument = this;
  abi_.run = [](void* argument, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first_column,
                int64_t last_column) {
    const auto& to = *static_cast<const CopyingEpilogue*>(argument);
    for (int64_t row = first_row; row < last_row; ++row) {
      std::memcpy(to.data_ + row * to.columns_ + first_column, block + (row - first_row) * row_stride,
                  static_cast<size_t>(last_column - first_column) * sizeof(float));
    }
  };
}

}  // namespace toroid::tune
