#include "runtime/kernels/gemm/bf16x3/split.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/gemm/bf16x3/split_numbers.h"
#include "runtime/kernels/gemm/bf16x3/split_vectors.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {

StepElements::StepElements(Span<const Run> runs, int64_t of_step) {
  int64_t filled = of_step;  // of the last step
  for (Run run : runs) {
    while (run.length > 0) {
      if (filled == of_step) {
        begins_.push_back(runs_.size());
        filled = 0;
      }
      const int64_t count = std::min(run.length, of_step - filled);
      runs_.push_back({run.offset, count});
      filled += count;
      run = {run.offset + count, run.length - count};
    }
  }
  begins_.push_back(runs_.size());
  for (int64_t step = 0; step < steps(); ++step) together_.push_back(of(step).size() == 1 ? of(step).front() : Run{0, 0});
}

using namespace float_parts;

namespace {

struct WordsToSplit {
  const float* from;
  int64_t row, rows, columns;
};

bool split_rows_plainly(const StepElements& elements, int64_t first, int64_t last, Span<const float* const> rows, int64_t step_bytes,
                        std::byte* out) {
  bool fit = true;
  for (const float* row : rows) {
    uint16_t most[kStepElements] = {};
    for (int64_t step = first; step < last; ++step) split_step_of_row(elements.of(step), row, most, out + (step - first) * step_bytes);
    fit = fit && all_fit(most);
    out += kPartsRowBytes;
  }
  return fit;
}

void split_step_plainly(const WordsToSplit& words, uint16_t* most, std::byte* out) {
  auto parts_at = [&](int64_t p, int64_t column) {
    return p < words.rows && column < words.columns ? exact_parts_of(words.from[p * words.row + column]) : NumberParts{0, 0, 0};
  };
  for (int64_t word = 0; word < kLanes; ++word) {
    for (int64_t column = 0; column < kLanes; ++column) {
      write_word(parts_at(word, column), parts_at(word + kLanes, column), kTileBytes, most + 2 * column,
                 out + word * kTileRowBytes + column * kWordBytes);
    }
  }
}

void split_line_plainly(const float* from, const int64_t* where, int64_t count, int64_t part_bytes, uint16_t* most, std::byte* out) {
  auto parts_at = [&](int64_t i, int64_t column) { return where[i] < 0 ? NumberParts{0, 0, 0} : parts_of(from[where[i] + column]); };
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t column = 0; column < kLanes; ++column) {
      write_word(parts_at(i, column), parts_at(i + kLanes, column), part_bytes, most + 2 * column,
                 out + i * kTileRowBytes + column * kWordBytes);
    }
  }
}

void join_columns_plainly(const std::byte* parts, int64_t width, int64_t depth, float* out) {
  for (int64_t p = 0; p < depth; ++p, out += width) {
    const std::byte* const from = parts + p / kStepElements * kPartsBytes + p % kLanes * kTileRowBytes;
    for (int64_t column = 0; column < kLanes; ++column) {
      uint32_t words[kPartsOfFloat];
      for (int64_t i = 0; i < kPartsOfFloat; ++i) {
        std::memcpy(&words[i], from + i * kTileBytes + column * kWordBytes, sizeof words[i]);
        words[i] = p % kStepElements >= kLanes ? words[i] & kUpper : words[i] << 16;
      }
      out[column] = number_of({words[0], words[1], words[2]});
    }
  }
}

#ifdef __x86_64__
TOROID_AVX512 bool split_rows_avx512(const StepElements& elements, int64_t first, int64_t last, Span<const float* const> rows,
                                     int64_t step_bytes, std::byte* out) {
  const Run* const together = elements.together();
  bool fit = true;
  for (size_t i = 0; i < rows.size(); ++i) {
    Splitter splitter;
    std::byte* to = out;
    for (int64_t step = first; step < last; ++step, to += step_bytes)
      split_piece(elements, together, step, rows[i], rows[std::min(i + kRowsAhead, rows.size() - 1)], splitter, to);
    fit = fit && splitter.all_fit();
    out += kPartsRowBytes;
  }
  return fit;
}

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

// The parts of a row are made once: until they are the first ones of a word they wait in a ring.
TOROID_AVX512 void split_line_avx512(const float* from, const int64_t* where, int64_t count, int64_t part_bytes, Splitter& splitter,
                                     std::byte* out) {
  Parts ring[kLanes];
  auto parts_at = [&](int64_t i) TOROID_AVX512 { return where[i] < 0 ? Parts{} : parts_of(load(from + where[i])); };
  for (int64_t i = 0; i < kLanes; ++i) ring[i] = parts_at(i);
  for (int64_t i = 0; i < count; ++i, out += kTileRowBytes) {
    Parts& waiting = ring[i % kLanes];
    const Parts second = parts_at(i + kLanes);
    splitter.write(waiting, second, part_bytes, out);
    waiting = second;
  }
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

#endif

}  // namespace

bool has_amx_bf16x3() { return has_amx(); }

bool split_rows(const StepElements& elements, int64_t first, int64_t last, Span<const float* const> rows, int64_t step_bytes,
                std::byte* out) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return split_rows_avx512(elements, first, last, rows, step_bytes, out);
#endif
  return split_rows_plainly(elements, first, last, rows, step_bytes, out);
}
void ColumnsInParts::split(const float* from, int64_t row, int64_t rows, int64_t columns, std::byte* out) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) {
    Splitter splitter;
    std::memcpy(&splitter.most, most_, sizeof most_);
    split_step_avx512({from, row, rows, columns}, splitter, out);
    std::memcpy(most_, &splitter.most, sizeof most_);
    return;
  }
#endif
  split_step_plainly({from, row, rows, columns}, most_, out);
}
void ColumnsInParts::split_line(const float* from, const int64_t* where, int64_t count, int64_t part_bytes, std::byte* out) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) {
    Splitter splitter;
    std::memcpy(&splitter.most, most_, sizeof most_);
    split_line_avx512(from, where, count, part_bytes, splitter, out);
    std::memcpy(most_, &splitter.most, sizeof most_);
    return;
  }
#endif
  split_line_plainly(from, where, count, part_bytes, most_, out);
}
bool ColumnsInParts::fit() const {
  bool fit = true;
  for (size_t i = 0; i < kStepElements; i += 2) fit = fit && fits(std::max(most_[i], most_[i + 1]));
  return fit;
}
void join_columns(const std::byte* parts, int64_t width, int64_t depth, float* out) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return join_columns_avx512(parts, width, depth, out);
#endif
  join_columns_plainly(parts, width, depth, out);
}

}  // namespace toroid
