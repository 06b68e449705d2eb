// The vectors in which F32 numbers become parts (split.h), for loops that are compiled for AVX-512 and more.
#pragma once

#ifdef __x86_64__
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "base/span.h"
#include "runtime/kernels/gemm/bf16x3/split_numbers.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid::float_parts {

typedef uint16_t Halves32 __attribute__((vector_size(64)));
typedef uint16_t Halves16 __attribute__((vector_size(32)));
typedef uint16_t Halves8 __attribute__((vector_size(16)));
template <class Halves>
TOROID_AVX512 TOROID_INLINE Halves larger(const Halves& a, const Halves& b) {
  return a > b ? a : b;
}

TOROID_AVX512 TOROID_INLINE Vector16 load(const float* from) {
  Vector16 result;
  std::memcpy(&result, from, sizeof result);
  return result;
}
// The first of 16, at most so many; the others are 0 and not read.
TOROID_AVX512 TOROID_INLINE Vector16 load_some(const float* from, int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << std::clamp<int64_t>(count, 0, kLanes)) - 1), from);
}
TOROID_AVX512 TOROID_INLINE void store(const Integers16& words, std::byte* to) { std::memcpy(to, &words, sizeof words); }
TOROID_AVX512 TOROID_INLINE Integers16 bits(const Vector16& numbers) { return reinterpret_cast<Integers16>(numbers); }
TOROID_AVX512 TOROID_INLINE Vector16 numbers(const Integers16& bits) { return reinterpret_cast<Vector16>(bits); }

// In the upper 16 bits of each word; the lower ones of `high` and `middle` are 0.
struct Parts {
  Integers16 high, middle, low;
};
TOROID_AVX512 TOROID_INLINE Parts parts_of(const Vector16& x) {
  const Integers16 high = (bits(x) + kHalf) & kUpper;
  const Vector16 rest = x - numbers(high);
  const Integers16 middle = bits(rest) & kUpper;
  return {high, middle, bits(rest - numbers(middle))};
}
TOROID_AVX512 TOROID_INLINE Parts exact_parts_of(const Vector16& x) {
  const Parts parts = parts_of(x);
  const Integers16 raw = bits(x);
  const auto is_small = (raw & 0x7FFFFFFFu) < kLeastExact;
  return {is_small ? raw & kUpper : parts.high, is_small ? (raw << 16 & 0x80000000u) | (raw << 8 & 0x007F0000u) : parts.middle,
          is_small ? (raw << 24 & 0x80000000u) | (raw << 16 & 0x007F0000u) : parts.low};
}

struct Splitter {
  Halves32 most = {};  // the largest of the high parts

  // Words of the parts of 16 numbers and 16 others: three tile rows, so many bytes apart.
  template <int64_t kApart>
  TOROID_AVX512 TOROID_INLINE void split(const Vector16& first, const Vector16& second, std::byte* out) {
    write<kApart>(parts_of(first), parts_of(second), out);
  }
  // The same, of which each number can be told again.
  template <int64_t kApart>
  TOROID_AVX512 TOROID_INLINE void split_exactly(const Vector16& first, const Vector16& second, std::byte* out) {
    write<kApart>(exact_parts_of(first), exact_parts_of(second), out);
  }

  template <int64_t kApart>
  TOROID_AVX512 TOROID_INLINE void write(const Parts& first, const Parts& second, std::byte* out) {
    write(first, second, kApart, out);
  }
  TOROID_AVX512 TOROID_INLINE void write(const Parts& first, const Parts& second, int64_t apart, std::byte* out) {
    const Integers16 high = first.high >> 16 | second.high;
    store(high, out);
    const Halves32 without_sign = reinterpret_cast<Halves32>(high) + reinterpret_cast<Halves32>(high);
    most = larger(most, without_sign);
    store(first.middle >> 16 | second.middle, out + apart);
    store(first.low >> 16 | (second.low & kUpper), out + 2 * apart);
  }

  // Do the largest of all, or those of each word, fit?
  TOROID_AVX512 TOROID_INLINE bool all_fit() const {
    const Halves32 folded = larger(most, TOROID_SHUFFLE(most, most, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 0, 1, 2,
                                                        3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const Halves16 half = TOROID_SHUFFLE(folded, folded, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const Halves8 lower = TOROID_SHUFFLE(half, half, 0, 1, 2, 3, 4, 5, 6, 7),
                  upper = TOROID_SHUFFLE(half, half, 8, 9, 10, 11, 12, 13, 14, 15);
    // There is an instruction for the least of eight.
    const Halves8 least = ~larger(lower, upper);
    return fits(0xFFFFu & ~static_cast<unsigned>(_mm_extract_epi16(_mm_minpos_epu16(reinterpret_cast<__m128i>(least)), 0)));
  }
};

constexpr size_t kRowsAhead = 2;  // that are fetched: of rows that are far apart each begins where the machine fetches nothing by itself

// A step of a row that does not lie together, or is not whole.
TOROID_AVX512 inline __attribute__((noinline)) void split_rest(Span<const Run> runs, const float* row, Splitter& splitter, std::byte* to) {
  if (runs.size() == 1) {
    const float* const from = row + runs.front().offset;
    splitter.split<kTileRowBytes>(load_some(from, runs.front().length), load_some(from + kLanes, runs.front().length - kLanes), to);
  } else {
    const Gathered gathered(runs, row);
    splitter.split<kTileRowBytes>(load(gathered.elements), load(gathered.elements + kLanes), to);
  }
}

// A step of a row, as split_rows has it; `together`: elements.together(), which stays in a register so. `ahead`: a row whose elements are
// fetched meanwhile.
TOROID_AVX512 TOROID_INLINE void split_piece(const StepElements& elements, const Run* together, int64_t step, const float* row,
                                             const float* ahead, Splitter& splitter, std::byte* to) {
  const Run run = together[step];
  if (__builtin_expect(run.length < kStepElements, 0)) {
    Splitter copy = splitter;  // whose address is taken
    split_rest(elements.of(step), row, copy, to);
    splitter = copy;
    return;
  }
  const float* const from = row + run.offset;
  __builtin_prefetch(ahead + run.offset);
  __builtin_prefetch(ahead + run.offset + kLanes);
  splitter.split<kTileRowBytes>(load(from), load(from + kLanes), to);
}

}  // namespace toroid::float_parts
#endif
