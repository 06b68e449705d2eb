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
bool fits(unsigned most) { return most == 0 || (most >= kLeast && most <= kMost); }

typedef uint16_t Halves32 __attribute__((vector_size(64)));

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

struct Splitter {
  Halves32 most = {};  // the largest of the high parts

  // Words of the parts of 16 numbers and 16 others: three tile rows, so many bytes apart.
  template <int64_t kApart>
  TOROID_AVX512 TOROID_INLINE void split(const Vector16& first, const Vector16& second, std::byte* out) {
    const Integers16 first_high = (bits(first) + kHalf) & kUpper, second_high = (bits(second) + kHalf) & kUpper;
    const Integers16 high = first_high >> 16 | second_high;
    store(high, out);
    const Halves32 without_sign = reinterpret_cast<Halves32>(high) + reinterpret_cast<Halves32>(high);
    most = without_sign > most ? without_sign : most;
    const Vector16 first_rest = first - numbers(first_high), second_rest = second - numbers(second_high);
    const Integers16 first_middle = bits(first_rest) & kUpper, second_middle = bits(second_rest) & kUpper;
    store(first_middle >> 16 | second_middle, out + kApart);
    const Vector16 first_low = first_rest - numbers(first_middle), second_low = second_rest - numbers(second_middle);
    store(bits(first_low) >> 16 | (bits(second_low) & kUpper), out + 2 * kApart);
  }

  // Do the largest of all, or those of each word, fit?
  bool all_fit() const {
    unsigned largest = 0;
    for (size_t i = 0; i < 2 * kLanes; ++i) largest = std::max<unsigned>(largest, most[i]);
    return fits(largest);
  }
  bool words_fit() const {
    bool fit = true;
    for (size_t i = 0; i < kLanes; ++i) fit = fit && fits(std::max(most[2 * i], most[2 * i + 1]));
    return fit;
  }
};

TOROID_AVX512 bool split_rows_avx512(const StepElements& elements, int64_t first, int64_t last, std::span<const float* const> rows,
                                     int64_t step_bytes, std::byte* out) {
  bool fit = true;
  for (const float* row : rows) {
    Splitter splitter;
    std::byte* to = out;
    for (int64_t step = first; step < last; ++step, to += step_bytes) {
      const std::span<const Run> runs = elements.of(step);
      if (runs.front().length == kStepElements) {
        const float* from = row + runs.front().offset;
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

TOROID_AVX512 bool split_columns_avx512(const float* from, int64_t width, int64_t depth, std::byte* out) {
  Splitter splitter;
  for (int64_t step = 0; step < steps_of_parts(depth); ++step, out += kPartsBytes) {
    for (int64_t word = 0; word < kLanes; ++word) {
      const int64_t p = step * kStepElements + word;
      const Vector16 first = p < depth ? load(from + p * width) : Vector16{},
                     second = p + kLanes < depth ? load(from + (p + kLanes) * width) : Vector16{};
      splitter.split<kTileBytes>(first, second, out + word * kTileRowBytes);
    }
  }
  return splitter.words_fit();
}

TOROID_AVX512 void join_columns_avx512(const std::byte* parts, int64_t width, int64_t depth, float* out) {
  for (int64_t p = 0; p < depth; ++p) {
    const bool is_second = p % kStepElements >= kLanes;
    const std::byte* from = parts + p / kStepElements * kPartsBytes + p % kLanes * kTileRowBytes;
    Vector16 sum = {};
    for (int64_t part = kPartsOfFloat; part-- > 0;) {
      Integers16 words;
      std::memcpy(&words, from + part * kTileBytes, sizeof words);
      sum += numbers(is_second ? words & kUpper : words << 16);
    }
    std::memcpy(out + p * width, &sum, sizeof sum);
  }
}

}  // namespace

bool has_tiles_of_parts() { return vector_set() == VectorSet::Avx512 && has_tiles(TileNumbers::BFloat16); }

bool split_rows(const StepElements& elements, int64_t first, int64_t last, std::span<const float* const> rows, int64_t step_bytes,
                std::byte* out) {
  return split_rows_avx512(elements, first, last, rows, step_bytes, out);
}
bool split_columns(const float* from, int64_t width, int64_t depth, std::byte* out) {
  return split_columns_avx512(from, width, depth, out);
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
bool split_columns(const float*, int64_t, int64_t, std::byte*) {
  TOROID_CHECK(false, kNoParts);
  return false;
}
void join_columns(const std::byte*, int64_t, int64_t, float*) { TOROID_CHECK(false, kNoParts); }
#endif

}  // namespace toroid
