#include "runtime/kernels/gemm/half/packed_b.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/gemm/transpose_square.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

template <int kFirst, int kLanes>
struct PlaceInPairs {
  static constexpr int at(int l) { return (kFirst + l) / 2 + l % 2 * kLanes; }
};

// to[p * to_row + 2 * j + i] = from[(2 * p + i) * from_row + j], for whole vectors of columns, of which it returns the number.
template <int kBytes>
TOROID_INLINE int64_t interleave_rows(const uint16_t* from, int64_t from_row, int64_t pairs, int64_t columns, uint16_t* to,
                                      int64_t to_row) {
  using Vector = typename VectorOfBytes<uint16_t, kBytes>::Type;
  constexpr int kLanes = kBytes / static_cast<int>(sizeof(uint16_t));
  const int64_t whole = columns / kLanes * kLanes;
  for (; pairs > 0; --pairs, from += 2 * from_row, to += to_row) {
    for (int64_t j = 0; j < whole; j += kLanes) {
      Vector first, second, pairs_of_lower, pairs_of_upper;
      std::memcpy(&first, from + j, sizeof first);
      std::memcpy(&second, from + from_row + j, sizeof second);
      pick<Vector, PlaceInPairs<0, kLanes>>(first, second, pairs_of_lower);
      pick<Vector, PlaceInPairs<kLanes, kLanes>>(first, second, pairs_of_upper);
      std::memcpy(to + 2 * j, &pairs_of_lower, sizeof pairs_of_lower);
      std::memcpy(to + 2 * j + kLanes, &pairs_of_upper, sizeof pairs_of_upper);
    }
  }
  return whole;
}

#ifdef __x86_64__
TOROID_AVX2 int64_t interleave_avx2(const uint16_t* from, int64_t from_row, int64_t pairs, int64_t columns, uint16_t* to, int64_t to_row) {
  return interleave_rows<32>(from, from_row, pairs, columns, to, to_row);
}
TOROID_AVX512 int64_t interleave_avx512(const uint16_t* from, int64_t from_row, int64_t pairs, int64_t columns, uint16_t* to,
                                        int64_t to_row) {
  return interleave_rows<64>(from, from_row, pairs, columns, to, to_row);
}
#endif

int64_t interleave(const uint16_t* from, int64_t from_row, int64_t pairs, int64_t columns, uint16_t* to, int64_t to_row) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return interleave_avx512(from, from_row, pairs, columns, to, to_row);
  if (vector_set() == VectorSet::Avx2) return interleave_avx2(from, from_row, pairs, columns, to, to_row);
#endif
  return interleave_rows<16>(from, from_row, pairs, columns, to, to_row);
}

// The columns that a panel of a matrix of n columns has, and its width.
struct PanelColumns {
  PanelColumns(int64_t n, int64_t panel) {
    const PackedB shape{0, n, nullptr};
    first = shape.first_column(panel);
    width = shape.width(panel);
    count = std::min(width, n - first);
  }
  int64_t first, count, width;
};

}  // namespace

void pack_widened(const Matrix16& b, int64_t n, int64_t panel, Range rows, float* out) {
  const PanelColumns columns(n, panel);
  if (b.column == 1) {
    for (int64_t p = rows.first; p < rows.last; ++p, out += columns.width) {
      widen_row(b.dtype, b.at(p, columns.first), columns.count, out);
      std::fill(out + columns.count, out + columns.width, 0.0f);
    }
    return;
  }
  // Some of each column, and then as columns of float32.
  constexpr int64_t kRows = 64, kMostColumns = 16 * GemmMicrokernels::kMostVectors;
  alignas(64) float widened[kRows * kMostColumns];
  for (int64_t p = rows.first; p < rows.last; p += kRows) {
    const int64_t some = std::min(kRows, rows.last - p);
    for (int64_t j = 0; j < columns.count; ++j) widen_elements(b.dtype, b.at(p, columns.first + j), b.row, some, widened + j * kRows);
    pack_panels({widened, 1, kRows}, some, columns.count, 0, 1, out + (p - rows.first) * columns.width);
  }
}

void pack_pairs(const Matrix16& b, int64_t k, int64_t n, int64_t panel, Range pairs, float* out) {
  const PanelColumns columns(n, panel);
  const int64_t whole = std::min(pairs.last, k / 2) - pairs.first;  // pairs with both rows
  const uint16_t* const from = b.at(2 * pairs.first, 0);
  auto* const to = reinterpret_cast<uint16_t*>(out);
  if (b.row == 1 && b.column % 2 == 0 && reinterpret_cast<uintptr_t>(from) % sizeof(float) == 0) {
    pack_panels({reinterpret_cast<const float*>(from), 1, b.column / 2}, whole, n, panel, panel + 1, out);
  } else {
    if (columns.count < columns.width) std::fill_n(out, whole * columns.width, 0.0f);
    int64_t done = 0;  // columns
    if (b.column == 1) done = interleave(from + columns.first, b.row, whole, columns.count, to, 2 * columns.width);
    for (int64_t p = 0; p < 2 * whole; ++p) {
      for (int64_t j = done; j < columns.count; ++j)
        to[(p / 2 * columns.width + j) * 2 + p % 2] = *b.at(2 * pairs.first + p, columns.first + j);
    }
  }
  if (whole == pairs.size()) return;
  std::fill_n(out + whole * columns.width, columns.width, 0.0f);
  for (int64_t j = 0; j < columns.count; ++j) to[(whole * columns.width + j) * 2] = *b.at(k - 1, columns.first + j);
}

}  // namespace toroid
