// DLPack tensors as this project's own.
#pragma once

#include <optional>

#include "runtime/program/executable.h"
#include "base/checked.h"
#include "toroid/toroid.h"

namespace toroid::api {

inline constexpr DLDevice kProcessor = {static_cast<decltype(DLDevice::device_type)>(kDLCPU), 0};

DLDataType dlpack_dtype(DType dtype);
std::optional<DType> dtype_of(DLDataType dtype);

// Throws Refusal for null and misaligned pointers, a tensor that is no such, and one that is in the memory of another device.
// `what` and `position` name it. needs_data: where its elements are read or written.
InputView view_of(const DLTensor* tensor, const char* what, int32_t position, DLDevice device, bool needs_data);

}  // namespace toroid::api
