#include "runtime/kernels/gemm/packed_b.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/gemm/transpose_square.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

Scratch scratch_for_panel_part;

// Rows of whole vectors, `to_row` elements each.
template <class Vector>
TOROID_INLINE void copy_vectors(const float* from, int64_t from_row, int64_t rows, float* to, int64_t to_row) {
  constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);
  for (; rows > 0; --rows, from += from_row, to += to_row) {
    for (int64_t j = 0; j < to_row; j += kLanes) {
      Vector x;
      std::memcpy(&x, from + j, sizeof x);
      std::memcpy(to + j, &x, sizeof x);
    }
  }
}

// The loops of packing for one instruction set.
struct PackingLoops {
  void (*turn)(const float* from, int64_t from_column, float* to, int64_t to_row);  // squares of gemm_microkernels().lanes a side
  void (*copy_rows)(const float* from, int64_t from_row, int64_t rows, float* to, int64_t to_row);
};
#define TOROID_PACKING_LOOPS(NAME, VECTOR, INTEGERS, ...)                                                             \
  struct NAME {                                                                                                       \
    __VA_ARGS__ static void turn(const float* from, int64_t from_column, float* to, int64_t to_row) {                 \
      toroid::turn<VECTOR, INTEGERS>(from, from_column, to, to_row);                                                  \
    }                                                                                                                 \
    __VA_ARGS__ static void copy_rows(const float* from, int64_t from_row, int64_t rows, float* to, int64_t to_row) { \
      copy_vectors<VECTOR>(from, from_row, rows, to, to_row);                                                         \
    }                                                                                                                 \
    static constexpr PackingLoops kLoops = {turn, copy_rows};                                                         \
  };
}  // namespace

namespace packing_levels {

TOROID_PACKING_LOOPS(Baseline, Vector4, Integers4, TOROID_BASELINE)
#ifdef __x86_64__
TOROID_PACKING_LOOPS(Avx2, Vector8, Integers8, TOROID_AVX2)
TOROID_PACKING_LOOPS(Avx512, Vector16, Integers16, TOROID_AVX512)
#endif
#undef TOROID_PACKING_LOOPS

}  // namespace packing_levels

namespace {

using namespace packing_levels;

const PackingLoops& packing_loops() {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return Avx512::kLoops;
  if (vector_set() == VectorSet::Avx2) return Avx2::kLoops;
#endif
  return Baseline::kLoops;
}

void pack_pairs(const Matrix& b, int64_t depth, Range columns, int64_t row, float* to) {
  std::fill_n(to, depth * row, 0.0f);
  for (int64_t p = 0; p < depth; ++p) {
    for (int64_t j = 0; j < columns.size(); ++j) to[p / 2 * 2 * row + 2 * j + p % 2] = *b.at(p, columns.first + j);
  }
}

// Squares of a few cache lines a side, so that neither side's lines leave the first-level cache before all of them is used.
template <class Element, class Stored>
void copy_elements(const MatrixOf<Stored>& from, Range rows, Range columns, Element* to, int64_t to_row) {
  if (from.column == 1) {
    for (int64_t i = rows.first; i < rows.last; ++i, to += to_row) std::copy_n(from.at(i, columns.first), columns.size(), to);
    return;
  }
  constexpr int64_t kSide = 16;
  for (int64_t i0 = 0; i0 < rows.size(); i0 += kSide) {
    const int64_t i1 = std::min(i0 + kSide, rows.size());
    for (int64_t j0 = 0; j0 < columns.size(); j0 += kSide) {
      const int64_t j1 = std::min(j0 + kSide, columns.size());
      for (int64_t i = i0; i < i1; ++i) {
        for (int64_t j = j0; j < j1; ++j) to[i * to_row + j] = static_cast<Element>(*from.at(rows.first + i, columns.first + j));
      }
    }
  }
}

}  // namespace

void pack_panels(const Matrix& b, int64_t depth, int64_t columns, int64_t first, int64_t last, float* out, bool in_pairs) {
  const PackedB shape{depth, columns, nullptr, in_pairs};
  const PackingLoops& loops = packing_loops();
  const int64_t lanes = gemm_microkernels().lanes;
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t width = shape.width(panel);
    const int64_t column = shape.first_column(panel);
    const int64_t count = std::min(width, columns - column);
    float* to = out + (column - shape.first_column(first)) * depth;
    if (shape.is_in_pairs(panel)) {
      pack_pairs(b, depth, {column, columns}, shape.row(panel), to);
      continue;
    }
    if (count < width) std::fill_n(to, depth * width, 0.0f);
    if (b.column == 1 && count == width) {
      loops.copy_rows(b.at(0, column), b.row, depth, to, width);
      continue;
    }
    if (b.column == 1) {
      for (int64_t p = 0; p < depth; ++p) std::memcpy(to + p * width, b.at(p, column), static_cast<size_t>(count) * sizeof(float));
      continue;
    }
    int64_t p = 0;
    if (b.row == 1) {
      // So many rows that columns are read on for long, and few enough that what is written stays in the cache.
      constexpr int64_t kRows = 256;
      for (const int64_t whole = depth / lanes * lanes; p < whole;) {
        const int64_t first = p;
        p = std::min(first + kRows, whole);
        for (int64_t j = 0; j + lanes <= count; j += lanes) {
          for (int64_t q = first; q < p; q += lanes) loops.turn(b.at(q, column + j), b.column, to + q * width + j, width);
        }
        for (int64_t j = count / lanes * lanes; j < count; ++j) {
          for (int64_t q = first; q < p; ++q) to[q * width + j] = *b.at(q, column + j);
        }
      }
    }
    for (; p < depth; ++p) {
      for (int64_t j = 0; j < count; ++j) to[p * width + j] = *b.at(p, column + j);
    }
  }
}

void pack_sixteen(const Matrix& b, int64_t depth, int64_t columns, float* out) {
  constexpr int64_t kColumns = 16;
  if (gemm_microkernels().lanes == kColumns) return pack_panels(b, depth, columns, 0, 1, out);
  for (int64_t p = 0; p < depth; ++p, out += kColumns) {
    for (int64_t j = 0; j < kColumns; ++j) out[j] = j < columns ? *b.at(p, j) : 0.0f;
  }
}

void copy_rows(const Matrix& from, Range rows, Range columns, float* to, int64_t to_row) {
  const int64_t count = rows.size(), length = columns.size();
  if (from.column == 1) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to + i * to_row, from.at(rows.first + i, columns.first), static_cast<size_t>(length) * sizeof(float));
    return;
  }
  const int64_t lanes = gemm_microkernels().lanes, whole_rows = from.row == 1 ? count / lanes * lanes : 0,
                whole_columns = length / lanes * lanes;
  const PackingLoops& loops = packing_loops();
  constexpr int64_t kAtOnce = 64;  // columns, each of which is read on
  for (int64_t first = 0; first < whole_columns; first += kAtOnce) {
    for (int64_t i = 0; i < whole_rows; i += lanes) {
      for (int64_t j = first; j < std::min(first + kAtOnce, whole_columns); j += lanes)
        loops.turn(from.at(rows.first + i, columns.first + j), from.column, to + i * to_row + j, to_row);
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = i < whole_rows ? whole_columns : 0; j < length; ++j) to[i * to_row + j] = *from.at(rows.first + i, columns.first + j);
  }
}

template <class Element, class Stored>
void pack_panels(const MatrixOf<Stored>& b, int64_t depth, int64_t columns, int64_t first, int64_t last, Element* out) {
  const PackedBOf<Element> shape{depth, columns, nullptr};
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t width = shape.width(panel), column = shape.first_column(panel), count = std::min(width, columns - column);
    Element* to = out + (column - shape.first_column(first)) * depth;
    if (count < width) std::fill_n(to, depth * width, Element{0});
    copy_elements(b, {0, depth}, {column, column + count}, to, width);
  }
}

template <class Element, class Stored>
void copy_rows(const MatrixOf<Stored>& from, Range rows, Range columns, Element* to, int64_t to_row) {
  copy_elements(from, rows, columns, to, to_row);
}

template <class Element>
int64_t PackedBOf<Element>::row(int64_t panel) const {
  return is_in_pairs(panel) ? halves() * (kernels->lanes / 2) : width(panel);
}

template <class Element>
const Element* PackedBOf<Element>::part(int64_t panel, Range rows) const {
  if (pack == nullptr) return this->panel(panel) + (rows.first == 0 ? 0 : rows.first * row(panel));
  auto* const to = scratch_for_panel_part.get<Element>(rows.size() * row(panel));
  (*pack)(panel, rows, to);
  return to;
}

template <class Element>
int64_t PackedBOf<Element>::panels(int64_t columns) {
  const int64_t whole = gemm_microkernels_of<Element>().panel_width();
  return (columns + whole - 1) / whole;
}

template <class Element>
bool PackedBOf<Element>::pays_in_pairs(int64_t columns) {
  const GemmMicrokernelsOf<Element>& set = gemm_microkernels_of<Element>();
  const int64_t halves = PackedBOf::halves(columns - (panels(columns) - 1) * set.panel_width(), set);
  return columns > 0 && halves <= GemmMicrokernelsOf<Element>::kMostHalves && set.most_rows_in_pairs[halves - 1] > 0;
}

template struct PackedBOf<float>;
template struct PackedBOf<double>;
template struct PackedBOf<uint32_t>;
template struct PackedBOf<uint64_t>;

#define TOROID_COPIES(ELEMENT, STORED)                                                                                             \
  template void pack_panels(const MatrixOf<STORED>& b, int64_t depth, int64_t columns, int64_t first, int64_t last, ELEMENT* out); \
  template void copy_rows(const MatrixOf<STORED>& from, Range rows, Range columns, ELEMENT* to, int64_t to_row);
TOROID_COPIES(float, int8_t)
TOROID_COPIES(double, double)
TOROID_COPIES(uint64_t, uint64_t)
TOROID_COPIES(uint32_t, uint32_t)
TOROID_COPIES(uint32_t, int16_t)
TOROID_COPIES(uint32_t, uint16_t)
TOROID_COPIES(uint32_t, int8_t)
TOROID_COPIES(uint32_t, uint8_t)

}  // namespace toroid
