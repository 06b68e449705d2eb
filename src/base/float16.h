// bfloat16 and IEEE half precision as 16 bits, converted to and from float.
//
// Rounding is to the nearest, ties to even, as hardware and PyTorch do; overflow becomes infinity; a NaN stays a NaN
// with its sign. Arithmetic is done in float by the caller: BFloat16(float(a) + float(b)). A double is converted
// through float, again as PyTorch does.
#pragma once

#include <cstdint>

#include "base/bits.h"

namespace toroid {

struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) : bits(rounded(bit_cast<uint32_t>(value))) {}
  static constexpr BFloat16 from_bits(uint16_t bits) {
    BFloat16 result;
    result.bits = bits;
    return result;
  }
  explicit operator float() const { return bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

 private:
  static constexpr uint16_t rounded(uint32_t f) {
    if ((f & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((f >> 16) | 0x40u);  // a quiet NaN
    const uint32_t tie_to_even = (f >> 16) & 1u;
    return static_cast<uint16_t>((f + 0x7fffu + tie_to_even) >> 16);  // the carry may reach infinity: that is right
  }
};

struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value) : bits(rounded(bit_cast<uint32_t>(value))) {}
  static constexpr Float16 from_bits(uint16_t bits) {
    Float16 result;
    result.bits = bits;
    return result;
  }
  explicit operator float() const { return bit_cast<float>(widened(bits)); }

 private:
  static constexpr uint16_t rounded(uint32_t f) {
    const uint32_t sign = (f >> 16) & 0x8000u;
    const uint32_t magnitude = f & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above: infinity
    const uint32_t exponent = magnitude >> 23;
    if (exponent >= 113) {  // a normal half: the exponent's bias falls from 127 to 15
      const uint32_t rebiased = magnitude - (112u << 23);
      return static_cast<uint16_t>(sign | ((rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13));
    }
    if (exponent < 102) return static_cast<uint16_t>(sign);  // below half of the smallest subnormal, 2^-25
    const uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t shift = 126 - exponent;  // 14 to 24: bits below the subnormal's unit, 2^-24
    const uint32_t kept = significand >> shift;
    const uint32_t dropped = significand & ((1u << shift) - 1);
    const uint32_t half = 1u << (shift - 1);
    const bool up = dropped > half || (dropped == half && (kept & 1u) != 0);
    return static_cast<uint16_t>(sign | (kept + (up ? 1u : 0u)));
  }

  static constexpr uint32_t widened(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 0x1fu;
    const uint32_t fraction = h & 0x3ffu;
    if (exponent == 31) return sign | 0x7f800000u | (fraction << 13);
    if (exponent != 0) return sign | ((exponent + 112) << 23) | (fraction << 13);
    if (fraction == 0) return sign;
    const uint32_t leading = static_cast<uint32_t>(bit_width(fraction)) - 1;  // the value is fraction * 2^-24
    return sign | ((leading + 103) << 23) | ((fraction << (23 - leading)) & 0x7fffffu);
  }
};

}  // namespace toroid
