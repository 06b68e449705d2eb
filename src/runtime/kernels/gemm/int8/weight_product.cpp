#include "runtime/kernels/gemm/int8/weight_product.h"

#include <cstring>

#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

Scratch scratch_for_copy;

// A row as the sum of three of bfloat16, each cut off, not rounded, so that none overflows; the last is exact. to[part][step].
TOROID_INLINE void split_into_three(const float* from, int64_t k, int64_t part_bytes, std::byte* to) {
  typedef uint16_t Bits __attribute__((vector_size(32)));
  constexpr uint32_t kUpper = 0xffff0000u, kExponent = 0x7f800000u, kQuiet = 0x400000u;
  for (int64_t p = 0; p < k; p += 16) {
    Vector16 x = {};
    if (p + 16 <= k) {
      std::memcpy(&x, from + p, sizeof x);
    } else {
      for (int64_t q = p; q < k; ++q) x[q - p] = from[q];
    }
    const auto bits = (Integers16)x;
    const auto has_rest = (bits & kExponent) != kExponent;  // infinities and NaN have none
    const Integers16 first = (x == x ? bits : bits | kQuiet) & kUpper;
    const Vector16 rest = x - (Vector16)first;
    const Integers16 second = has_rest ? (Integers16)rest & kUpper : Integers16{};
    const Integers16 third = has_rest ? (Integers16)(rest - (Vector16)second) : Integers16{};
    std::byte* at = to + p / kStepElements * kTileBytes + p % kStepElements * 2;
    for (const Integers16& part : {first, second, third}) {
      const Bits narrow = __builtin_convertvector(part >> 16, Bits);
      std::memcpy(at, &narrow, sizeof narrow);
      at += part_bytes;
    }
  }
}

void split_row_plainly(const float* from, int64_t k, int64_t part_bytes, std::byte* to) { split_into_three(from, k, part_bytes, to); }
#ifdef __x86_64__
TOROID_AVX512 void split_row_avx512(const float* from, int64_t k, int64_t part_bytes, std::byte* to) {
  split_into_three(from, k, part_bytes, to);
}
#endif
void split_row(const float* from, int64_t k, int64_t part_bytes, std::byte* to) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return split_row_avx512(from, k, part_bytes, to);
#endif
  split_row_plainly(from, k, part_bytes, to);
}

}  // namespace

void pack_rows_in_parts(const FloatRows& a, int64_t first, int64_t rows, int64_t k, std::byte* out) {
  const int64_t steps = steps_of(k);
  if (a.parts() == 1) {
    const TileMatrix matrix = a.matrix();
    const auto* data = static_cast<const uint16_t*>(matrix.data) + first * matrix.row;
    return pack_left_tiles(AmxType::BFloat16, {data, matrix.row, matrix.column}, rows, k, out);
  }
  if (rows < kTileSide || k % kStepElements != 0) std::memset(out, 0, static_cast<size_t>(a.parts() * steps * kTileBytes));
  float* copy = scratch_for_copy.get(k);
  for (int64_t i = 0; i < rows; ++i) split_row(a.row(first + i, k, copy), k, steps * kTileBytes, out + i * kTileRowBytes);
}

}  // namespace toroid
