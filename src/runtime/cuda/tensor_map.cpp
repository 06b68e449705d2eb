#include "runtime/cuda/tensor_map.h"

#include <limits>

#include "base/error.h"
#include "runtime/cuda/driver_api.h"
#include "tensor/dtype.h"

namespace toroid::cuda {
namespace {

constexpr int kRank = 4;
// cuda.h's.
constexpr int kByte = 0, kFloat16 = 6, kBFloat16 = 9, kNotInterleaved = 0, kSwizzled128 = 3, kWholeLines = 3, kZeroOutside = 0;

}  // namespace

EncodedTensorMap encode(const ToroidTensorMap& map) {
  const auto dtype = static_cast<DType>(map.dtype);
  uint64_t sizes[kRank], strides[kRank - 1];
  unsigned box[kRank];
  for (int d = 0; d < kRank; ++d) {
    if (map.sizes[d] > std::numeric_limits<int32_t>::max())
      throw Error(ErrorKind::InvalidInput,
                  formatted("a product with {} rows, columns or batches is too large for a GPU's kernel", map.sizes[d]));
    sizes[d] = static_cast<uint64_t>(map.sizes[d]);
    box[d] = static_cast<unsigned>(map.box[d]);
    if (d > 0) strides[d - 1] = static_cast<uint64_t>(map.strides[d] * size_bytes(dtype));
  }
  EncodedTensorMap made;
  const int type = dtype == DType::BF16 ? kBFloat16 : dtype == DType::U8 ? kByte : kFloat16;
  void* const data = const_cast<void*>(map.data);
  if (map.steps[0] > 0) {
    const unsigned steps[kRank] = {1, static_cast<unsigned>(map.steps[0]), static_cast<unsigned>(map.steps[1]), 1};
    check(driver().encode_im2col(&made, type, kRank, data, sizes, strides, map.lower, map.upper, box[0], box[1], steps, kNotInterleaved,
                                 kSwizzled128, kWholeLines, kZeroOutside),
          "describing images to the GPU");
    return made;
  }
  constexpr unsigned kSteps[kRank] = {1, 1, 1, 1};
  check(driver().encode_tiled(&made, type, kRank, data, sizes, strides, box, kSteps, kNotInterleaved, kSwizzled128, kWholeLines,
                              kZeroOutside),
        "describing a matrix to the GPU");
  return made;
}

}  // namespace toroid::cuda
