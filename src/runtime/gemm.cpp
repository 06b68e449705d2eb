// C is cut into tiles of up to 12 rows and two vectors that live in registers. B is packed a panel of two vectors at a time, in the order
// in which the inner loop reads it; rows of A are copied next to each other, and a row's elements are read one at a time and spread.
// Products of few rows, which read B once, are computed from B where it lies.
#include "runtime/gemm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/vector_sets.h"

namespace toroid {
namespace {

constexpr int kMaxRows = 12;
constexpr int64_t kDepth = 1024;                // of one packed block: a panel, 128 KiB, stays in the second-level cache
constexpr int64_t kRowStride = kDepth + 16;     // of copied rows: were they a page apart, they would share one set of the cache
constexpr int64_t kRowBlock = 48;               // rows copied at a time: 195 KiB
constexpr int64_t kMaxPackedColumns = 4096;     // of B at a time: 16 MiB
constexpr int kFewRows = 4;                     // rows of the products that do not pack
constexpr int kDotColumns = 4;

// A tile's product: c[i, j] = (add ? c[i, j] : 0) + sum over p of a[i * kRowStride + p] * b[p * 2 * lanes + j].
template <class Vector, int kRows>
TOROID_INLINE void multiply(int64_t depth, const float* a, const float* b, float* c, int64_t c_row, bool add) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  Vector sums[kRows][2] = {};
  for (int64_t p = 0; p < depth; ++p) {
    Vector left, right;
    std::memcpy(&left, b + p * 2 * kLanes, sizeof left);
    std::memcpy(&right, b + p * 2 * kLanes + kLanes, sizeof right);
    // Unrolled whole, or the sums would live in memory.
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const float x = a[i * kRowStride + p];
      sums[i][0] += x * left;
      sums[i][1] += x * right;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    Vector left = sums[i][0], right = sums[i][1];
    if (add) {
      Vector old;
      std::memcpy(&old, c + i * c_row, sizeof old);
      left += old;
      std::memcpy(&old, c + i * c_row + kLanes, sizeof old);
      right += old;
    }
    std::memcpy(c + i * c_row, &left, sizeof left);
    std::memcpy(c + i * c_row + kLanes, &right, sizeof right);
  }
}

// c[i, j] = sum over p of a[i * a_row + p] * b[j * b_column + p]: rows of a with columns of b, each contiguous.
template <class Vector, int kRows, int kColumns>
TOROID_INLINE void dots(int64_t depth, const float* a, int64_t a_row, const float* b, int64_t b_column, float* c, int64_t c_row) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  Vector sums[kRows][kColumns] = {};
  int64_t p = 0;
  for (; p + kLanes <= depth; p += kLanes) {
    Vector rows[kRows];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) std::memcpy(&rows[i], a + i * a_row + p, sizeof rows[i]);
#pragma GCC unroll 16
    for (int j = 0; j < kColumns; ++j) {
      Vector column;
      std::memcpy(&column, b + j * b_column + p, sizeof column);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) sums[i][j] += rows[i] * column;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kColumns; ++j) {
      float parts[kLanes];
      std::memcpy(parts, &sums[i][j], sizeof parts);
      for (int width = kLanes / 2; width > 0; width /= 2) {
        for (int l = 0; l < width; ++l) parts[l] += parts[l + width];
      }
      for (int64_t q = p; q < depth; ++q) parts[0] += a[i * a_row + q] * b[j * b_column + q];
      c[i * c_row + j] = parts[0];
    }
  }
}

// c[i, j] = sum over p of a[i, p] * b[p, j] for `count` columns, which are contiguous in b and c. Four rows of b at a time are added to c,
// which stays in the first-level cache.
template <class Vector, int kRows>
TOROID_INLINE void sum_rows(int64_t depth, const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row, int64_t count,
                            float* c, int64_t c_row) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  constexpr int kDeep = 4;
  for (int i = 0; i < kRows; ++i) std::memset(c + i * c_row, 0, static_cast<size_t>(count) * sizeof(float));
  int64_t p = 0;
  for (; p + kDeep <= depth; p += kDeep) {
    float x[kRows][kDeep];
    for (int i = 0; i < kRows; ++i) {
      for (int q = 0; q < kDeep; ++q) x[i][q] = a[i * a_row + (p + q) * a_column];
    }
    int64_t j = 0;
    for (; j + kLanes <= count; j += kLanes) {
      Vector rows[kDeep];
#pragma GCC unroll 16
      for (int q = 0; q < kDeep; ++q) std::memcpy(&rows[q], b + (p + q) * b_row + j, sizeof rows[q]);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        Vector sum;
        std::memcpy(&sum, c + i * c_row + j, sizeof sum);
#pragma GCC unroll 16
        for (int q = 0; q < kDeep; ++q) sum += x[i][q] * rows[q];
        std::memcpy(c + i * c_row + j, &sum, sizeof sum);
      }
    }
    for (; j < count; ++j) {
      for (int i = 0; i < kRows; ++i) {
        for (int q = 0; q < kDeep; ++q) c[i * c_row + j] += x[i][q] * b[(p + q) * b_row + j];
      }
    }
  }
  for (; p < depth; ++p) {
    for (int i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < count; ++j) c[i * c_row + j] += a[i * a_row + p * a_column] * b[p * b_row + j];
    }
  }
}

// to[p * to_row + j] = from[j * from_column + p] for a square of as many elements a side as a vector has lanes: halves change places, then
// quarters, and so on.
template <class Vector, class Integers>
TOROID_INLINE void turn(const float* from, int64_t from_column, float* to, int64_t to_row) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  Vector rows[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) std::memcpy(&rows[i], from + i * from_column, sizeof rows[i]);
#pragma GCC unroll 4
  for (int d = kLanes / 2; d > 0; d /= 2) {
    Integers upper, lower;
#pragma GCC unroll 16
    for (int l = 0; l < kLanes; ++l) {
      upper[l] = (l & d) != 0 ? kLanes + l - d : l;
      lower[l] = (l & d) != 0 ? kLanes + l : l + d;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      if ((i & d) != 0) continue;
      const Vector first = rows[i], second = rows[i + d];
      rows[i] = __builtin_shuffle(first, second, upper);
      rows[i + d] = __builtin_shuffle(first, second, lower);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) std::memcpy(to + i * to_row, &rows[i], sizeof rows[i]);
}

using Multiply = void (*)(int64_t depth, const float* a, const float* b, float* c, int64_t c_row, bool add);
using Dots = void (*)(int64_t depth, const float* a, int64_t a_row, const float* b, int64_t b_column, float* c, int64_t c_row);
using SumRows = void (*)(int64_t depth, const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row, int64_t count, float* c,
                         int64_t c_row);
using Turn = void (*)(const float* from, int64_t from_column, float* to, int64_t to_row);

// The inner loops for one instruction set.
struct Kernels {
  int lanes;
  int rows;                                // of a whole tile
  std::array<Multiply, kMaxRows> multiply;  // by rows - 1
  std::array<Dots, kFewRows> dots;          // … of kDotColumns columns
  std::array<Dots, kFewRows> dot;           // … of one
  std::array<SumRows, kFewRows> sum_rows;
  Turn turn;
};

#define TOROID_KERNELS(NAME, VECTOR, INTEGERS, ROWS, ...)                                                                          \
  struct NAME {                                                                                                                    \
    template <int R>                                                                                                               \
    __VA_ARGS__ static void multiply(int64_t depth, const float* a, const float* b, float* c, int64_t c_row, bool add) {           \
      toroid::multiply<VECTOR, R>(depth, a, b, c, c_row, add);                                                                     \
    }                                                                                                                              \
    template <int R, int C>                                                                                                        \
    __VA_ARGS__ static void dots(int64_t depth, const float* a, int64_t a_row, const float* b, int64_t b_column, float* c,         \
                                 int64_t c_row) {                                                                                  \
      toroid::dots<VECTOR, R, C>(depth, a, a_row, b, b_column, c, c_row);                                                          \
    }                                                                                                                              \
    template <int R>                                                                                                               \
    __VA_ARGS__ static void sum_rows(int64_t depth, const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row,\
                                     int64_t count, float* c, int64_t c_row) {                                                     \
      toroid::sum_rows<VECTOR, R>(depth, a, a_row, a_column, b, b_row, count, c, c_row);                                           \
    }                                                                                                                              \
    __VA_ARGS__ static void turn(const float* from, int64_t from_column, float* to, int64_t to_row) {                              \
      toroid::turn<VECTOR, INTEGERS>(from, from_column, to, to_row);                                                               \
    }                                                                                                                              \
    static constexpr int kRows = ROWS;                                                                                             \
    static constexpr int kLanes = sizeof(VECTOR) / sizeof(float);                                                                  \
  };

template <class Set, size_t... R, size_t... F>
constexpr Kernels kernels_of(std::index_sequence<R...>, std::index_sequence<F...>) {
  // Rows beyond the tile's would spill; nobody asks for them.
  return {Set::kLanes,
          Set::kRows,
          {(R < Set::kRows ? &Set::template multiply<(R < Set::kRows ? R + 1 : 1)> : nullptr)...},
          {&Set::template dots<F + 1, kDotColumns>...},
          {&Set::template dots<F + 1, 1>...},
          {&Set::template sum_rows<F + 1>...},
          &Set::turn};
}

TOROID_KERNELS(Baseline, Vector4, Integers4, 6)
#ifdef __x86_64__
TOROID_KERNELS(Avx2, Vector8, Integers8, 6, TOROID_AVX2)
TOROID_KERNELS(Avx512, Vector16, Integers16, 12, TOROID_AVX512)
#endif

const Kernels& kernels() {
  constexpr std::make_index_sequence<kMaxRows> rows;
  constexpr std::make_index_sequence<kFewRows> few;
#ifdef __x86_64__
  static constexpr Kernels avx2 = kernels_of<Avx2>(rows, few);
  static constexpr Kernels avx512 = kernels_of<Avx512>(rows, few);
  if (vector_set() == VectorSet::Avx512) return avx512;
  if (vector_set() == VectorSet::Avx2) return avx2;
#endif
  static constexpr Kernels baseline = kernels_of<Baseline>(rows, few);
  return baseline;
}

// Memory that a thread keeps from call to call: fresh pages would cost more than packing does.
class Scratch {
 public:
  float* get(int64_t count) {
    if (count > count_) {
      memory_.reset(static_cast<float*>(::operator new[](static_cast<size_t>(count) * sizeof(float), kAlignment)));
      count_ = count;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* memory) const { ::operator delete[](memory, kAlignment); }
  };
  std::unique_ptr<float[], Free> memory_;
  int64_t count_ = 0;
};
thread_local Scratch scratch_for_rows;
thread_local Scratch scratch_for_panels;

struct Matrix {
  const float* data;
  int64_t row, column;  // strides
  const float* at(int64_t i, int64_t j) const { return data + i * row + j * column; }
};

// From a matrix in memory.
void pack_panels(const Matrix& b, int64_t n, const PanelRequest& request) {
  const auto [p0, depth, first, last, width, out] = request;
  const Turn turn = kernels().turn;
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t column = panel * width;
    const int64_t count = std::min(width, n - column);
    float* to = out + (panel - first) * depth * width;
    if (count < width) std::fill_n(to, depth * width, 0.0f);
    if (b.column == 1) {
      for (int64_t p = 0; p < depth; ++p) std::memcpy(to + p * width, b.at(p0 + p, column), static_cast<size_t>(count) * sizeof(float));
      continue;
    }
    int64_t p = 0;
    if (b.row == 1) {
      const int64_t lanes = width / 2;
      // A few lines of each column at a time: what is written stays in the first-level cache.
      for (constexpr int64_t kLines = 64; p + kLines <= depth; p += kLines) {
        for (int64_t j = 0; j + lanes <= count; j += lanes) {
          for (int64_t q = p; q < p + kLines; q += lanes) turn(b.at(p0 + q, column + j), b.column, to + q * width + j, width);
        }
        for (int64_t j = count / lanes * lanes; j < count; ++j) {
          for (int64_t q = p; q < p + kLines; ++q) to[q * width + j] = *b.at(p0 + q, column + j);
        }
      }
    }
    for (; p < depth; ++p) {
      for (int64_t j = 0; j < count; ++j) to[p * width + j] = *b.at(p0 + p, column + j);
    }
  }
}

void copy_rows(const Matrix& a, int64_t first, int64_t rows, int64_t p0, int64_t depth, float* out) {
  for (int64_t i = 0; i < rows; ++i) {
    const float* from = a.at(first + i, p0);
    float* to = out + i * kRowStride;
    if (a.column == 1) {
      std::memcpy(to, from, static_cast<size_t>(depth) * sizeof(float));
    } else {
      for (int64_t p = 0; p < depth; ++p) to[p] = from[p * a.column];
    }
  }
}

// Rows [first, first + rows) of c, columns of the panels [begin, end).
void multiply_panels(const Kernels& kernel, int64_t rows, int64_t depth, const float* a, const float* panels, int64_t begin, int64_t end,
                     int64_t n, float* c, int64_t c_row, bool add) {
  const int64_t width = 2 * kernel.lanes;
  alignas(64) float tile[kMaxRows * 32];
  for (int64_t panel = begin; panel < end; ++panel) {
    const float* b = panels + panel * depth * width;
    const int64_t count = std::min(width, n - panel * width);
    for (int64_t i = 0; i < rows; i += kernel.rows) {
      const int64_t here = std::min<int64_t>(kernel.rows, rows - i);
      const Multiply multiply = kernel.multiply[static_cast<size_t>(here - 1)];
      float* out = c + i * c_row + panel * width;
      if (count == width) {
        multiply(depth, a + i * kRowStride, b, out, c_row, add);
        continue;
      }
      multiply(depth, a + i * kRowStride, b, tile, width, false);
      for (int64_t r = 0; r < here; ++r) {
        for (int64_t j = 0; j < count; ++j) out[r * c_row + j] = tile[r * width + j] + (add ? out[r * c_row + j] : 0.0f);
      }
    }
  }
}

// c = a * b, or c += a * b, with columns [j0, j0 + n) of b, where j0 is a multiple of every panel's width.
template <class Pack>
void packed_product(RuntimePool& pool, int64_t m, int64_t j0, int64_t n, int64_t k, const Matrix& a, const Pack& pack, float* c,
                    int64_t c_row, bool add) {
  const Kernels& kernel = kernels();
  const int64_t width = 2 * kernel.lanes;
  const int64_t panels = (n + width - 1) / width;
  const int64_t row_blocks = (m + kRowBlock - 1) / kRowBlock;
  // With few rows, several tasks share a block of them, each with some of the panels.
  const int64_t groups = std::min(panels, std::max<int64_t>(1, 4 * pool.threads() / row_blocks));
  const int64_t depth_blocks = (k + kDepth - 1) / kDepth;
  for (int64_t block = 0; block < depth_blocks; ++block) {
    const int64_t p0 = k * block / depth_blocks;
    const int64_t depth = k * (block + 1) / depth_blocks - p0;
    float* packed = scratch_for_panels.get(panels * width * depth);
    pool.parallel_for(panels, 1, [&](int64_t begin, int64_t end) {
      const int64_t first = j0 / width + begin;
      pack(PanelRequest{p0, depth, first, first + end - begin, width, packed + begin * width * depth});
    });
    pool.parallel_for(row_blocks * groups, 1, [&](int64_t begin, int64_t end) {
      float* copied = scratch_for_rows.get(kRowBlock * kRowStride);
      int64_t in_copy = -1;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task / groups * kRowBlock, group = task % groups;
        const int64_t rows = std::min(kRowBlock, m - first);
        if (std::exchange(in_copy, first) != first) copy_rows(a, first, rows, p0, depth, copied);
        multiply_panels(kernel, rows, depth, copied, packed, panels * group / groups, panels * (group + 1) / groups, n,
                        c + first * c_row + j0, c_row, add || block > 0);
      }
    });
  }
}

// Calls f(row, rows) for groups of at most kFewRows rows.
template <class F>
void for_few_rows(int64_t m, F f) {
  for (int64_t i = 0; i < m; i += kFewRows) f(i, std::min<int64_t>(kFewRows, m - i));
}

// A few rows, whose elements in `a` are contiguous, with contiguous columns of `b`.
void few_rows_by_columns(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c, int64_t c_row) {
  const Kernels& kernel = kernels();
  constexpr int64_t kBlock = 4 * kDotColumns;
  pool.parallel_for((n + kBlock - 1) / kBlock, 1, [&](int64_t begin, int64_t end) {
    const int64_t last = std::min(n, end * kBlock);
    for (int64_t j = begin * kBlock; j < last;) {
      const int64_t columns = j + kDotColumns <= last ? kDotColumns : 1;
      for_few_rows(m, [&](int64_t i, int64_t rows) {
        const Dots dots = (columns == 1 ? kernel.dot : kernel.dots)[static_cast<size_t>(rows - 1)];
        dots(k, a.at(i, 0), a.row, b.at(0, j), b.column, c + i * c_row + j, c_row);
      });
      j += columns;
    }
  });
}

// A few rows, with rows of `b` that are contiguous.
void few_rows_by_rows(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c, int64_t c_row) {
  const Kernels& kernel = kernels();
  constexpr int64_t kBlock = 512;
  pool.parallel_for((n + kBlock - 1) / kBlock, 1, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin * kBlock; j < std::min(n, end * kBlock); j += kBlock) {
      for_few_rows(m, [&](int64_t i, int64_t rows) {
        kernel.sum_rows[static_cast<size_t>(rows - 1)](k, a.at(i, 0), a.row, a.column, b.at(0, j), b.row, std::min(kBlock, n - j),
                                                       c + i * c_row + j, c_row);
      });
    }
  });
}

}  // namespace

void gemm_f32(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_column, const float* b,
              int64_t b_row, int64_t b_column, float* c, int64_t c_row) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (int64_t i = 0; i < m; ++i) std::memset(c + i * c_row, 0, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  const Matrix left{a, a_row, a_column}, right{b, b_row, b_column};
  // Packing would cost more than it saves.
  if (m <= 3 * kFewRows && b_row == 1 && a_column == 1) return few_rows_by_columns(pool, m, n, k, left, right, c, c_row);
  if (m <= kFewRows && b_column == 1) return few_rows_by_rows(pool, m, n, k, left, right, c, c_row);
  for (int64_t j = 0; j < n; j += kMaxPackedColumns) {
    packed_product(pool, m, j, std::min(kMaxPackedColumns, n - j), k, left, [&](const PanelRequest& request) { pack_panels(right, n, request); },
                   c, c_row, false);
  }
}

void gemm_onto_f32(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_column,
                   const std::function<void(const PanelRequest&)>& pack, float* c, int64_t c_row) {
  if (m == 0 || n == 0 || k == 0) return;
  for (int64_t j = 0; j < n; j += kMaxPackedColumns) {
    packed_product(pool, m, j, std::min(kMaxPackedColumns, n - j), k, {a, a_row, a_column}, pack, c, c_row, true);
  }
}

}  // namespace toroid
