// Elements as unsigned keys that order as PyTorch sorts: NaN above all, both zeros equal.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/error.h"
#include "base/format.h"
#include "tensor/dtype.h"

namespace toroid {

// Floats given by their bits: the sign bit flipped for positive ones, all bits for negative ones, orders them as integers. NaN is the
// largest key.
template <class Bits>
Bits float_key(Bits bits, Bits infinity) {
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  const Bits magnitude = bits & static_cast<Bits>(~kSign);
  if (magnitude > infinity) return static_cast<Bits>(~Bits{0});
  if (magnitude == 0) return kSign;
  return (bits & kSign) != 0 ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | kSign);
}

// The key of an element by its bits. Types with names: code that is made for one is the same wherever it is used. Types of one width
// share it: `flip` is the sign bit of integers that have one, else 0; `infinity` the float's bits.
template <class Bits>
struct IntegerKey {
  std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t> flip;
  auto operator()(Bits bits) const { return bits ^ flip; }
};
template <class Bits>
struct FloatKey {
  Bits infinity;
  auto operator()(Bits bits) const { return std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t>{float_key<Bits>(bits, infinity)}; }
};

// Calls f(T{}, key_of): T holds the bits of an element, key_of(T) is its key, of as many bits, as a uint32_t or uint64_t. Throws
// Error{Unsupported} for a dtype without an order.
template <class F>
void with_sort_keys(DType dtype, F f) {
  switch (dtype) {
    case DType::Bool:
    case DType::U8: return f(uint8_t{}, IntegerKey<uint8_t>{0});
    case DType::I8: return f(uint8_t{}, IntegerKey<uint8_t>{0x80});
    case DType::U16: return f(uint16_t{}, IntegerKey<uint16_t>{0});
    case DType::U32: return f(uint32_t{}, IntegerKey<uint32_t>{0});
    case DType::U64: return f(uint64_t{}, IntegerKey<uint64_t>{0});
    case DType::I16: return f(uint16_t{}, IntegerKey<uint16_t>{0x8000});
    case DType::I32: return f(uint32_t{}, IntegerKey<uint32_t>{0x80000000u});
    case DType::I64: return f(uint64_t{}, IntegerKey<uint64_t>{uint64_t{1} << 63});
    case DType::F16: return f(uint16_t{}, FloatKey<uint16_t>{0x7c00});
    case DType::BF16: return f(uint16_t{}, FloatKey<uint16_t>{0x7f80});
    case DType::F32: return f(uint32_t{}, FloatKey<uint32_t>{0x7f800000u});
    case DType::F64: return f(uint64_t{}, FloatKey<uint64_t>{0x7ff0000000000000u});
    default: throw Error(ErrorKind::Unsupported, formatted("sorting tensors of dtype {} is not supported", to_string(dtype)));
  }
}

}  // namespace toroid
