// DLPack tensors as this project's own.
#pragma once

#include <optional>

#include "base/checked.h"
#include "base/span.h"
#include "runtime/program/executable.h"
#include "toroid/toroid.h"

namespace toroid::api {

inline constexpr DLDevice kProcessor = {static_cast<decltype(DLDevice::device_type)>(kDLCPU), 0};

DLDataType dlpack_dtype(DType dtype);
std::optional<DType> dtype_of(DLDataType dtype);

// Bytes from a tensor's first element to its lowest one, 0 or less, and to the end of its highest one; of one that has elements. Strides
// may be null, for row-major order.
struct Reach {
  Checked before, behind;
};
Reach reach_of(Span<const int64_t> sizes, const int64_t* strides, int64_t width);

// Throws Refusal for null and misaligned pointers, a tensor that is no such, and one that is in the memory of another device.
// `what` and `position` name it. needs_data: where its elements are read or written.
InputView view_of(const DLTensor* tensor, const char* what, int32_t position, DLDevice device, bool needs_data);

}  // namespace toroid::api
