#include "api/tensors.h"

#include <algorithm>
#include <iterator>

#include "api/structs.h"
#include "base/checked.h"

namespace toroid::api {
namespace {

struct Row {
  DType dtype;
  uint8_t code, bits;
};
// Codes of 8-bit floats are those of DLPack 1.1.
constexpr Row kDTypes[] = {
    {DType::Bool, kDLBool, 8},    {DType::U8, kDLUInt, 8},      {DType::I8, kDLInt, 8},         {DType::I16, kDLInt, 16},
    {DType::I32, kDLInt, 32},     {DType::I64, kDLInt, 64},     {DType::F16, kDLFloat, 16},     {DType::BF16, kDLBfloat, 16},
    {DType::F32, kDLFloat, 32},   {DType::F64, kDLFloat, 64},   {DType::U16, kDLUInt, 16},      {DType::U32, kDLUInt, 32},
    {DType::F8E4M3FN, 10, 8},     {DType::F8E5M2, 12, 8},       {DType::F8E4M3FNUZ, 11, 8},     {DType::F8E5M2FNUZ, 13, 8},
    {DType::C32, kDLComplex, 32}, {DType::C64, kDLComplex, 64}, {DType::C128, kDLComplex, 128}, {DType::U64, kDLUInt, 64},
};
constexpr int32_t kMostDims = 64;

// No machine's address space has more bytes.
constexpr int64_t kMostReach = int64_t{1} << 57;

// Whether all elements can have addresses.
bool lies_in_memory(const DLTensor& tensor, int64_t width) {
  const auto [before, behind] = reach_of({tensor.shape, static_cast<size_t>(tensor.ndim)}, tensor.strides, width);
  uintptr_t first = 0, last = 0;
  return before.fits() && behind.fits() && *before.value() > -kMostReach && *behind.value() < kMostReach &&
         !__builtin_add_overflow(reinterpret_cast<uintptr_t>(tensor.data), tensor.byte_offset, &first) &&
         first >= uintptr_t{0} - static_cast<uintptr_t>(*before.value()) &&
         !__builtin_add_overflow(first, static_cast<uintptr_t>(*behind.value()), &last);
}

}  // namespace

Reach reach_of(Span<const int64_t> sizes, const int64_t* strides, int64_t width) {
  Reach reach = {0, width};
  int64_t contiguous = width;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    const int64_t stride = strides != nullptr ? strides[d] : 0;
    (stride < 0 ? reach.before : reach.behind) +=
        (Checked(sizes[d]) - 1) * (strides != nullptr ? Checked(stride) * width : Checked(contiguous));
    contiguous *= sizes[d];
  }
  return reach;
}

DLDataType dlpack_dtype(DType dtype) {
  const Row& row = *std::find_if(std::begin(kDTypes), std::end(kDTypes), [&](const Row& each) { return each.dtype == dtype; });
  return {row.code, row.bits, 1};
}

std::optional<DType> dtype_of(DLDataType dtype) {
  for (const Row& row : kDTypes) {
    if (row.code == dtype.code && row.bits == dtype.bits && dtype.lanes == 1) return row.dtype;
  }
  return std::nullopt;
}

InputView view_of(const DLTensor* tensor, const char* what, int32_t position, DLDevice device, bool needs_data) {
  const auto refuse = [&](ToroidStatus status, std::string problem) { fail(status, "{} {} {}", what, position, problem); };
  if (tensor == nullptr) refuse(TOROID_ERROR_ARGUMENT, "is null");
  if (reinterpret_cast<uintptr_t>(tensor) % alignof(DLTensor) != 0) refuse(TOROID_ERROR_ARGUMENT, "is a misaligned pointer");
  if (tensor->ndim < 0 || tensor->ndim > kMostDims) refuse(TOROID_ERROR_INPUT, formatted("has {} dimensions", tensor->ndim));
  if (tensor->ndim > 0 && tensor->shape == nullptr) refuse(TOROID_ERROR_ARGUMENT, "has no shape");
  if (reinterpret_cast<uintptr_t>(tensor->shape) % alignof(int64_t) != 0 ||
      reinterpret_cast<uintptr_t>(tensor->strides) % alignof(int64_t) != 0)
    refuse(TOROID_ERROR_ARGUMENT, "has a misaligned shape or strides");
  const std::optional<DType> dtype = dtype_of(tensor->dtype);
  if (!dtype)
    refuse(TOROID_ERROR_INPUT, formatted("has an unknown dtype: code {}, {} bits, {} lanes", int{tensor->dtype.code},
                                         int{tensor->dtype.bits}, int{tensor->dtype.lanes}));
  const auto rank = static_cast<size_t>(tensor->ndim);
  Checked elements = size_bytes(*dtype);
  bool is_empty = false;
  for (size_t d = 0; d < rank; ++d) {
    if (tensor->shape[d] < 0) refuse(TOROID_ERROR_INPUT, formatted("has the size {} in dimension {}", tensor->shape[d], d));
    is_empty = is_empty || tensor->shape[d] == 0;
    elements *= tensor->shape[d];
  }
  if (!is_empty && !elements.value()) refuse(TOROID_ERROR_INPUT, "has more bytes than 63 bits count");
  if (needs_data) {
    const auto type = static_cast<int32_t>(tensor->device.device_type), number = static_cast<int32_t>(tensor->device.device_id);
    const bool is_here = static_cast<int32_t>(device.device_type) == kDLCPU ? type == kDLCPU || type == kDLCUDAHost
                                                                            : type == kDLCUDA && number == device.device_id;
    if (!is_here)
      refuse(TOROID_ERROR_DEVICE, formatted("is on the device ({}, {}) instead of ({}, {})", type, number,
                                            static_cast<int32_t>(device.device_type), device.device_id));
    if (!is_empty && tensor->data == nullptr) refuse(TOROID_ERROR_INPUT, "has no data");
    if (!is_empty && !lies_in_memory(*tensor, size_bytes(*dtype))) refuse(TOROID_ERROR_INPUT, "has elements beyond the end of memory");
  }
  const auto* const data = static_cast<const std::byte*>(tensor->data);
  return {*dtype, {tensor->shape, rank}, tensor->strides, data == nullptr ? nullptr : data + tensor->byte_offset};
}

}  // namespace toroid::api
