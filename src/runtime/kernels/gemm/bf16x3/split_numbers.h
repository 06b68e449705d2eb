// How F32 numbers become parts (split.h), number by number: what the loops over vectors (split_vectors.h) do is this. For machines without
// AVX-512, whose tiles are emulated.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/bits.h"
#include "base/span.h"
#include "runtime/kernels/gemm/bf16x3/split.h"

namespace toroid::float_parts {

constexpr int64_t kLanes = kTileSide;
// As Splitter::most has them: a BF16 number's bits without its sign, times 2.
constexpr unsigned doubled_bits(int exponent) { return static_cast<unsigned>(exponent + 127) << 8; }
constexpr unsigned kLeast = doubled_bits(kLeastExponentOfParts), kMost = doubled_bits(kMostExponentOfParts);
constexpr unsigned kLeastNormal = doubled_bits(-126);
inline bool fits(unsigned most) { return most < kLeastNormal || (most >= kLeast && most <= kMost); }

// Of smaller numbers a part may be subnormal in BF16 and have lost its last bits. On the right side their high part is their upper
// 16 bits, and the lower ones stand in the signs and the seven bits of the two others, which are subnormal, 0 to the tiles.
constexpr uint32_t kLeastExact = uint32_t{127 - 110} << 23;

constexpr uint32_t kUpper = 0xFFFF0000, kHalf = 0x8000;  // the bits of a number that a part has; half of the last of them

// A step of a row that lies in several pieces.
struct alignas(64) Gathered {
  float elements[kStepElements] = {};
  Gathered(Span<const Run> runs, const float* row) {
    float* end = elements;
    for (const Run& run : runs) end = std::copy_n(row + run.offset, run.length, end);
  }
};

// In the upper 16 bits of each word; the lower ones of `high` and `middle` are 0.
struct NumberParts {
  uint32_t high, middle, low;
};
inline NumberParts parts_of(float x) {
  const uint32_t high = (bit_cast<uint32_t>(x) + kHalf) & kUpper;
  const float rest = x - bit_cast<float>(high);
  const uint32_t middle = bit_cast<uint32_t>(rest) & kUpper;
  return {high, middle, bit_cast<uint32_t>(rest - bit_cast<float>(middle))};
}
inline NumberParts exact_parts_of(float x) {
  const uint32_t raw = bit_cast<uint32_t>(x);
  if ((raw & 0x7FFFFFFFu) >= kLeastExact) return parts_of(x);
  return {raw & kUpper, (raw << 16 & 0x80000000u) | (raw << 8 & 0x007F0000u), (raw << 24 & 0x80000000u) | (raw << 16 & 0x007F0000u)};
}
inline float number_of(const NumberParts& parts) {
  if ((parts.high & 0x7FFFFFFFu) >= kLeastExact)
    return bit_cast<float>(parts.high) + (bit_cast<float>(parts.middle) + bit_cast<float>(parts.low));
  return bit_cast<float>(parts.high | (parts.middle >> 16 & 0x8000u) | (parts.middle >> 8 & 0x7F00u) | (parts.low >> 24 & 0x80u) |
                         (parts.low >> 16 & 0x7Fu));
}

// The word of a number's and another's parts, in three tile rows so many bytes apart. `most`: as Splitter::most has the pair's.
inline void write_word(const NumberParts& first, const NumberParts& second, int64_t apart, uint16_t* most, std::byte* out) {
  const uint32_t words[kPartsOfFloat] = {first.high >> 16 | second.high, first.middle >> 16 | second.middle,
                                         first.low >> 16 | (second.low & kUpper)};
  for (const uint32_t& word : words) std::memcpy(out + (&word - words) * apart, &word, sizeof word);
  most[0] = std::max(most[0], static_cast<uint16_t>(first.high >> 15));
  most[1] = std::max(most[1], static_cast<uint16_t>(second.high >> 15));
}

// A step of a row.
inline void split_step_of_row(Span<const Run> runs, const float* row, uint16_t* most, std::byte* out) {
  const Gathered gathered(runs, row);
  for (int64_t i = 0; i < kLanes; ++i) {
    write_word(parts_of(gathered.elements[i]), parts_of(gathered.elements[i + kLanes]), kTileRowBytes, most + 2 * i, out + i * kWordBytes);
  }
}
inline bool all_fit(const uint16_t* most) { return fits(*std::max_element(most, most + kStepElements)); }

}  // namespace toroid::float_parts
