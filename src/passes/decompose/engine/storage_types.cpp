#include "passes/decompose/engine/storage_types.h"

#include "formula/quantization/float8.h"
#include "passes/decompose/complex/complex.h"

namespace toroid {

TensorType type_held(const TensorType& type) {
  if (formula::is_float8(type.dtype)) {
    TensorType bits = type;
    bits.dtype = DType::U8;
    return bits;
  }
  if (!is_complex(type.dtype)) return type;
  TensorType pairs = type_of_pairs(type);
  pairs.storage_offset = type.storage_offset * 2;
  pairs.device = type.device;
  if (type.strides.empty()) return pairs;
  for (sym::Expr stride : type.strides) pairs.strides.push_back(stride * 2);
  pairs.strides.emplace_back(1);
  return pairs;
}

}  // namespace toroid
