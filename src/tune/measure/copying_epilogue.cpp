#include "tune/measure/copying_epilogue.h"

#include <cstring>
#include <limits>

#include "base/error.h"
#include "runtime/kernels/isa/half_rows.h"

namespace toroid::tune {
namespace {

constexpr float kNone = std::numeric_limits<float>::infinity();  // no bound

}  // namespace

CopyingEpilogue::CopyingEpilogue(void* data, DType dtype, int64_t columns)
    : arguments_{data, this},
      dtype_(dtype),
      columns_(columns),
      sum_{nullptr, nullptr, nullptr, 0, static_cast<float*>(data), columns, -kNone, kNone, 0},
      abi_{run, arguments_, dtype == DType::F32 ? &sum_ : nullptr} {
  TOROID_CHECK(dtype == DType::F32 || is_reduced_float(dtype), "no kernel gives {} to an epilogue", to_string(dtype));
}

void CopyingEpilogue::run(void* argument, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first_column,
                          int64_t last_column) {
  void* const* arguments = static_cast<void* const*>(argument);
  const auto& self = *static_cast<const CopyingEpilogue*>(arguments[1]);
  for (int64_t row = first_row; row < last_row; ++row) {
    // Where an image's rows lie in a ring, only the address of what is written is one of its memory.
    const int64_t position = (row * self.columns_ + first_column) * size_bytes(self.dtype_);
    auto* to = reinterpret_cast<std::byte*>(reinterpret_cast<intptr_t>(arguments[kDataArgument]) + position);
    self.write_row(block + (row - first_row) * row_stride, last_column - first_column, to);
  }
}

void CopyingEpilogue::write_row(const float* from, int64_t count, std::byte* to) const {
  if (is_reduced_float(dtype_)) return round_row(dtype_, from, count, reinterpret_cast<uint16_t*>(to));
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

}  // namespace toroid::tune
