#include "runtime/float_parts.h"

#include <algorithm>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "runtime/vector_sets.h"
#include "support/error.h"

namespace toroid {

StepElements::StepElements(std::span<const Run> runs) {
  int64_t filled = kStepElements;  // of the last step
  for (Run run : runs) {
    while (run.length > 0) {
      if (filled == kStepElements) {
        begins_.push_back(runs_.size());
        filled = 0;
      }
      const int64_t count = std::min(run.length, kStepElements - filled);
      runs_.push_back({run.offset, count});
      filled += count;
      run = {run.offset + count, run.length - count};
    }
  }
  begins_.push_back(runs_.size());
}

#ifdef __x86_64__
namespace {

constexpr int64_t kLanes = kTileSide;
// As Splitter::most has them: a BF16 number's bits without its sign, times 2.
constexpr unsigned doubled_bits(int exponent) { return static_cast<unsigned>(exponent + 127) << 8; }
constexpr unsigned kLeast = doubled_bits(kLeastExponentOfParts), kMost = doubled_bits(kMostExponentOfParts);
constexpr unsigned kLeastNormal = doubled_bits(-126);
bool fits(unsigned most) { return most < kLeastNormal || (most >= kLeast && most <= kMost); }

// Of smaller numbers a part may be subnormal in BF16 and have lost its last bits. On the right side their high part is their upper
// 16 bits, and the lower ones stand in the signs and the seven bits of the two others, which are subnormal, 0 to the tiles.
constexpr uint32_t kLeastExact = uint32_t{127 - 110} << 23;

typedef uint16_t Halves32 __attribute__((vector_size(64)));
typedef uint16_t Halves16 __attribute__((vector_size(32)));
typedef uint16_t Halves8 __attribute__((vector_size(16)));
template <class Halves>
TOROID_AVX512 TOROID_INLINE Halves larger(const Halves& a, const Halves& b) {
  return a > b ? a : b;
}

constexpr uint32_t kUpper = 0xFFFF0000, kHalf = 0x8000;  // the bits of a number that a part has; half of the last of them

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
    const Integers16 high = first.high >> 16 | second.high;
    store(high, out);
    const Halves32 without_sign = reinterpret_cast<Halves32>(high) + reinterpret_cast<Halves32>(high);
    most = larger(most, without_sign);
    store(first.middle >> 16 | second.middle, out + kApart);
    store(first.low >> 16 | (second.low & kUpper), out + 2 * kApart);
  }

  // Do the largest of all, or those of each word, fit?
  TOROID_AVX512 TOROID_INLINE bool all_fit() const {
    const Halves32 folded = larger(most, __builtin_shufflevector(most, most, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
                                                                 30, 31, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const Halves16 half = __builtin_shufflevector(folded, folded, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const Halves8 lower = __builtin_shufflevector(half, half, 0, 1, 2, 3, 4, 5, 6, 7),
                  upper = __builtin_shufflevector(half, half, 8, 9, 10, 11, 12, 13, 14, 15);
    // There is an instruction for the least of eight.
    const Halves8 least = ~larger(lower, upper);
    return fits(0xFFFFu & ~static_cast<unsigned>(_mm_extract_epi16(_mm_minpos_epu16(reinterpret_cast<__m128i>(least)), 0)));
  }
};

TOROID_AVX512 bool split_rows_avx512(const StepElements& elements, int64_t first, int64_t last, std::span<const float* const> rows,
                                     int64_t step_bytes, std::byte* out) {
  // Of rows that are far apart each begins where nothing is fetched ahead.
  constexpr size_t kRowsAhead = 2;
  bool fit = true;
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* const row = rows[i];
    const float* const ahead = rows[std::min(i + kRowsAhead, rows.size() - 1)];
    Splitter splitter;
    std::byte* to = out;
    for (int64_t step = first; step < last; ++step, to += step_bytes) {
      const std::span<const Run> runs = elements.of(step);
      if (runs.front().length == kStepElements) {
        const float* from = row + runs.front().offset;
        __builtin_prefetch(ahead + runs.front().offset);
        __builtin_prefetch(ahead + runs.front().offset + kLanes);
        splitter.split<kTileRowBytes>(load(from), load(from + kLanes), to);
        continue;
      }
      if (runs.size() == 1) {
        const float* from = row + runs.front().offset;
        splitter.split<kTileRowBytes>(load_some(from, runs.front().length), load_some(from + kLanes, runs.front().length - kLanes),
                                      to);
        continue;
      }
      alignas(64) float gathered[kStepElements] = {};
      float* end = gathered;
      for (const Run& run : runs) end = std::copy_n(row + run.offset, run.length, end);
      splitter.split<kTileRowBytes>(load(gathered), load(gathered + kLanes), to);
    }
    fit = fit && splitter.all_fit();
    out += kPartsRowBytes;
  }
  return fit;
}

struct WordsToSplit {
  const float* from;
  int64_t row, rows, columns;
};
// Whole words, or such of which some rows or columns are missing.
template <bool kAreWhole>
TOROID_AVX512 TOROID_INLINE Vector16 load_words(const WordsToSplit& words, int64_t p) {
  if constexpr (kAreWhole) return load(words.from + p * words.row);
  return p < words.rows ? load_some(words.from + p * words.row, words.columns) : Vector16{};
}

template <bool kAreWhole>
TOROID_AVX512 TOROID_INLINE void split_step(const WordsToSplit& words, Splitter& splitter, std::byte* out) {
  // Which are so small that their parts do not tell them again; 0 is none.
  Integers16 smallest = ~Integers16{};
  Splitter after = splitter;
  for (int64_t word = 0; word < kLanes; ++word) {
    const Vector16 first = load_words<kAreWhole>(words, word), second = load_words<kAreWhole>(words, word + kLanes);
    for (const Vector16& x : {first, second}) {
      const Integers16 magnitude = bits(x) + bits(x) - 1;
      smallest = magnitude < smallest ? magnitude : smallest;
    }
    after.split<kTileBytes>(first, second, out + word * kTileRowBytes);
  }
  if (_mm512_cmplt_epu32_mask(reinterpret_cast<__m512i>(smallest), _mm512_set1_epi32(2 * kLeastExact - 1)) != 0) {
    after = splitter;
    for (int64_t word = 0; word < kLanes; ++word) {
      const Vector16 first = load_words<kAreWhole>(words, word), second = load_words<kAreWhole>(words, word + kLanes);
      after.split_exactly<kTileBytes>(first, second, out + word * kTileRowBytes);
    }
  }
  splitter = after;
}

TOROID_AVX512 void split_step_avx512(const WordsToSplit& words, Splitter& splitter, std::byte* out) {
  if (words.rows == kStepElements && words.columns == kLanes) return split_step<true>(words, splitter, out);
  split_step<false>(words, splitter, out);
}

TOROID_AVX512 void join_columns_avx512(const std::byte* parts, int64_t width, int64_t depth, float* out) {
  for (int64_t p = 0; p < depth; ++p) {
    const bool is_second = p % kStepElements >= kLanes;
    const std::byte* from = parts + p / kStepElements * kPartsBytes + p % kLanes * kTileRowBytes;
    auto part = [&](int64_t i) TOROID_AVX512 {
      Integers16 words;
      std::memcpy(&words, from + i * kTileBytes, sizeof words);
      return is_second ? words & kUpper : words << 16;
    };
    const Integers16 high = part(0), middle = part(1), low = part(2);
    const Integers16 raw = high | (middle >> 16 & 0x8000u) | (middle >> 8 & 0x7F00u) | (low >> 24 & 0x80u) | (low >> 16 & 0x7Fu);
    const Vector16 whole = numbers(high) + (numbers(middle) + numbers(low));
    const Integers16 sum = (high & 0x7FFFFFFFu) < kLeastExact ? raw : bits(whole);
    std::memcpy(out + p * width, &sum, sizeof sum);
  }
}

}  // namespace

bool has_tiles_of_parts() { return vector_set() == VectorSet::Avx512 && has_tiles(TileNumbers::BFloat16); }

bool split_rows(const StepElements& elements, int64_t first, int64_t last, std::span<const float* const> rows, int64_t step_bytes,
                std::byte* out) {
  return split_rows_avx512(elements, first, last, rows, step_bytes, out);
}
void ColumnsInParts::split(const float* from, int64_t row, int64_t rows, int64_t columns, std::byte* out) {
  Splitter splitter;
  std::memcpy(&splitter.most, most_, sizeof most_);
  split_step_avx512({from, row, rows, columns}, splitter, out);
  std::memcpy(most_, &splitter.most, sizeof most_);
}
bool ColumnsInParts::fit() const {
  bool fit = true;
  for (size_t i = 0; i < kStepElements; i += 2) fit = fit && fits(std::max(most_[i], most_[i + 1]));
  return fit;
}
void join_columns(const std::byte* parts, int64_t width, int64_t depth, float* out) {
  join_columns_avx512(parts, width, depth, out);
}
#else
namespace {
constexpr const char* kNoParts = "this machine has no tiles for parts of floats";
}
bool has_tiles_of_parts() { return false; }
bool split_rows(const StepElements&, int64_t, int64_t, std::span<const float* const>, int64_t, std::byte*) {
  TOROID_CHECK(false, kNoParts);
  return false;
}
void ColumnsInParts::split(const float*, int64_t, int64_t, int64_t, std::byte*) { TOROID_CHECK(false, kNoParts); }
bool ColumnsInParts::fit() const {
  TOROID_CHECK(false, kNoParts);
  return false;
}
void join_columns(const std::byte*, int64_t, int64_t, float*) { TOROID_CHECK(false, kNoParts); }
#endif

}  // namespace toroid
