#include "tune/copying_epilogue.h"

#include <cstring>

#include "runtime/rows16.h"
#include "support/error.h"

namespace toroid::tune {
CopyingEpilogue::CopyingEpilogue(void* data, DType dtype, int64_t columns) : data_(static_cast<std::byte*>(data)), dtype_(dtype), columns_(columns) {
  TOROID_CHECK(dtype == DType::F32 || is_reduced_float(dtype), "no kernel gives {} to an epilogue", to_string(dtype));
  abi_.argument = this;
  abi_.run = [](void* argument, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first_column,
                int64_t last_column) {
    const auto& to = *static_cast<const CopyingEpilogue*>(argument);
    for (int64_t row = first_row; row < last_row; ++row) {
      to.write_row(block + (row - first_row) * row_stride, last_column - first_column, row * to.columns_ + first_column);
    }
  };
}

void CopyingEpilogue::write_row(const float* from, int64_t count, int64_t position) const {
  std::byte* to = data_ + position * size_bytes(dtype_);
  if (is_reduced_float(dtype_)) return round_row(dtype_, from, count, reinterpret_cast<uint16_t*>(to));
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

}  // namespace toroid::tune
