#include "runtime/kernels/gemm/gemm_small_m.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/kernels/epilogue/register_post_ops.h"
#include "runtime/kernels/gemm/partition.h"
#include "runtime/kernels/isa/vector_sets.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int kFewRows = 4;  // at a time
constexpr int kDotColumns = 4;
constexpr int64_t kMostSums = 4096;  // of a block of columns: they stay in the first-level cache

Scratch scratch_for_product;

// The sums of the lanes, each in pairs: the two halves, then the halves of their sum.
template <class Vector>
TOROID_INLINE void sum_lanes(const Vector (&x)[1], float* sums) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
#ifdef __clang__
  float parts[kLanes];
  std::memcpy(parts, &x[0], sizeof parts);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) parts[l] += parts[l + width];
  }
  sums[0] = parts[0];
#else
  // Named shuffles, where GCC would go through memory.
  using Places = typename VectorOfBytes<uint32_t, sizeof(Vector)>::Type;
  Places place;
  for (int l = 0; l < kLanes; ++l) place[l] = static_cast<uint32_t>(l);
  Vector sum = x[0];
#pragma GCC unroll 4
  for (int width = kLanes / 2; width > 0; width /= 2) sum += __builtin_shuffle(sum, (place + static_cast<uint32_t>(width)) & (kLanes - 1));
  sums[0] = sum[0];
#endif
}
#ifdef __clang__
template <class Vector>
TOROID_INLINE void sum_lanes(const Vector (&x)[4], float* sums) {
  for (int j = 0; j < 4; ++j) sum_lanes({x[j]}, sums + j);
}
#else
// Of two vectors whose parts of kPart lanes are to be summed: the halves of each part added, a part of the one beside one of the other.
template <int kPart, class Vector>
TOROID_INLINE void add_halves(const Vector& x, const Vector& y, Vector& sums) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float), kHalf = kPart / 2;
  typename VectorOfBytes<uint32_t, sizeof(Vector)>::Type first, second;
  for (int l = 0; l < kLanes; ++l) {
    const int of_y = l / kHalf % 2, part = l / kPart;
    first[l] = static_cast<uint32_t>(of_y * kLanes + part * kPart + l % kHalf);
    second[l] = first[l] + kHalf;
  }
  sums = __builtin_shuffle(x, y, first) + __builtin_shuffle(x, y, second);
}
// Four at once take a quarter of the additions, which are the same ones.
template <class Vector>
TOROID_INLINE void sum_lanes(const Vector (&x)[4], float* sums) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float), kPart = kLanes / 4;
  using Places = typename VectorOfBytes<uint32_t, sizeof(Vector)>::Type;
  Vector even, odd, sum;
  add_halves<kLanes>(x[0], x[2], even);
  add_halves<kLanes>(x[1], x[3], odd);
  add_halves<kLanes / 2>(even, odd, sum);
  Places place;
  for (int l = 0; l < kLanes; ++l) place[l] = static_cast<uint32_t>(l);
#pragma GCC unroll 4
  for (int width = kPart / 2; width > 0; width /= 2) sum += __builtin_shuffle(sum, (place + static_cast<uint32_t>(width)) & (kLanes - 1));
  if constexpr (kPart > 1) sum = __builtin_shuffle(sum, (place * kPart) & (kLanes - 1));
  std::memcpy(sums, &sum, 4 * sizeof(float));
}
#endif

// c[i, j] = sum over p of a[i * a_row + p] * b[j * b_column + p]: rows of a with columns of b, each contiguous. A block of steps has a sum
// in each lane, which a total then takes. Set::add_rest: add_short_dots for its instructions.
template <class Set, class Vector, int kRows, int kColumns>
TOROID_INLINE void dots(int64_t depth, const float* a, int64_t a_row, const float* b, int64_t b_column, float* c, int64_t c_row) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  constexpr int64_t kBlock = 32 * kLanes;
  Vector totals[kRows][kColumns] = {};
  int64_t p = 0;
  while (p + kLanes <= depth) {
    Vector sums[kRows][kColumns] = {};
    for (const int64_t end = std::min(depth, p + kBlock); p + kLanes <= end; p += kLanes) {
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
      for (int j = 0; j < kColumns; ++j) totals[i][j] += sums[i][j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) sum_lanes(totals[i], c + i * c_row);
  if (p < depth) Set::add_rest({kRows, kColumns}, depth - p, a + p, a_row, b + p, b_column, c, c_row);
}

// c[i, j] += the same sum, for what is less than a vector.
struct DotsSize {
  int rows, columns;
};
TOROID_INLINE void add_short_dots(const DotsSize& size, int64_t depth, const float* a, int64_t a_row, const float* b, int64_t b_column,
                                  float* c, int64_t c_row) {
  for (int i = 0; i < size.rows; ++i) {
    for (int j = 0; j < size.columns; ++j) {
      float rest = 0;
      for (int64_t q = 0; q < depth; ++q) rest += a[i * a_row + q] * b[j * b_column + q];
      c[i * c_row + j] += rest;
    }
  }
}

// Products in each sum before a total takes it: few of a short depth, and not many totals of a long one.
int64_t block_of_depth(int64_t depth) { return depth <= 256 ? 32 : depth <= 2048 ? 64 : depth <= 8192 ? 128 : 256; }

// Which step of a block of the depth it is: the first one begins with zeros, the last one adds to the total, which the first block begins.
struct StepOfBlock {
  bool is_first, is_last, is_of_first_block;
};

// sums[i, j] += sum over q of x[i][q] * b[q, j] for a step of kDeep rows of b and a vector of columns, contiguous in b, sums and c.
// The last step of a block adds the result to c. Sums and c stay in the first-level cache.
template <class Vector, int kRows, int kDeep, class Lanes>
TOROID_INLINE void add_row_vectors(const float (&x)[kRows][kDeep], const float* b, int64_t b_row, const StepOfBlock& step, float* sums,
                                   int64_t sums_row, float* c, int64_t c_row, const Lanes& lanes) {
  Vector rows[kDeep];
#pragma GCC unroll 16
  for (int q = 0; q < kDeep; ++q) {
    lanes.load(b + q * b_row, rows[q]);
    // The next step's, which the processor does not foresee at the end of a part of a row. One row multiplies too little to wait meanwhile.
    if constexpr (kRows > 1) __builtin_prefetch(b + (kDeep + q) * b_row, 0, 2);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    Vector sum = {};
    if (!step.is_first) std::memcpy(&sum, sums + i * sums_row, sizeof sum);
#pragma GCC unroll 16
    for (int q = 0; q < kDeep; ++q) sum += x[i][q] * rows[q];
    if (!step.is_last) {
      std::memcpy(sums + i * sums_row, &sum, sizeof sum);
      continue;
    }
    if (!step.is_of_first_block) {
      Vector total;
      lanes.load(c + i * c_row, total);
      sum += total;
    }
    lanes.store(sum, c + i * c_row);
  }
}

template <class Vector, int kRows, int kDeep>
TOROID_INLINE void add_rows(const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row, int64_t count,
                            const StepOfBlock& step, float* sums, int64_t sums_row, float* c, int64_t c_row) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  float x[kRows][kDeep];
  for (int i = 0; i < kRows; ++i) {
    for (int q = 0; q < kDeep; ++q) x[i][q] = a[i * a_row + q * a_column];
  }
  auto with = [&](StepOfBlock known) __attribute__((always_inline)) {
    int64_t j = 0;
    for (; j + kLanes <= count; j += kLanes) {
      add_row_vectors<Vector, kRows, kDeep>(x, b + j, b_row, known, sums + j, sums_row, c + j, c_row, AllLanes<Vector>());
    }
    if (j < count) {
      add_row_vectors<Vector, kRows, kDeep>(x, b + j, b_row, known, sums + j, sums_row, c + j, c_row, FirstLanes<Vector>(count - j));
    }
  };
  if (!step.is_last) return step.is_first ? with({true, false, false}) : with({false, false, false});
  if (step.is_first) return with({true, true, step.is_of_first_block});
  with({false, true, step.is_of_first_block});
}

// c[i, j] = sum over p of a[i, p] * b[p, j] for `count` columns, contiguous in b and c: a block of the depth after the other, each summed
// by itself, four rows of b at a time. kRows * count is at most kMostSums.
template <class Vector, int kRows>
TOROID_INLINE void sum_rows(int64_t depth, const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row, int64_t count,
                            float* c, int64_t c_row) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  constexpr int kDeep = kRows == 1 ? 8 : 4;  // the more, the fewer times sums are read and written
  if (depth == 0) {
    for (int i = 0; i < kRows; ++i) std::memset(c + i * c_row, 0, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  // A load waits for a store just before it at the same distance from its page's beginning (4K aliasing). Rows that are whole KiB apart, or
  // a half or a quarter of one, are never that near to the sums.
  constexpr uintptr_t kKiB = 1024, kBehindRows = 384, kLine = 64;
  alignas(kLine) float memory[kMostSums + kFewRows * kLanes + static_cast<int64_t>(kKiB / sizeof(float))];
  float* const sums = memory + (reinterpret_cast<uintptr_t>(b) + kBehindRows - reinterpret_cast<uintptr_t>(memory)) % kKiB / kLine *
                                   (kLine / sizeof(float));
  const int64_t sums_row = (count + kLanes - 1) / kLanes * kLanes;
  const int64_t block = block_of_depth(depth);
  for (int64_t p = 0; p < depth;) {
    const int64_t first = p / block * block, end = std::min(depth, first + block), left = end - p;
    const float* const a_at = a + p * a_column;
    const float* const b_at = b + p * b_row;
    auto add = [&](auto steps) __attribute__((always_inline)) {
      constexpr int kSteps = decltype(steps)::value;
      const StepOfBlock step = {p == first, left == kSteps, first == 0};
      add_rows<Vector, kRows, kSteps>(a_at, a_row, a_column, b_at, b_row, count, step, sums, sums_row, c, c_row);
      p += kSteps;
    };
    if (left >= kDeep) {
      add(std::integral_constant<int, kDeep>());
    } else {
      add(std::integral_constant<int, 1>());
    }
  }
}

using Dots = void (*)(int64_t depth, const float* a, int64_t a_row, const float* b, int64_t b_column, float* c, int64_t c_row);
using SumRows = void (*)(int64_t depth, const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row, int64_t count,
                         float* c, int64_t c_row);

// The inner loops for one instruction set, by rows - 1: of so many rows at a time.
struct Kernels {
  int64_t most_rows;
  std::array<Dots, kFewRows> dots;  // of kDotColumns columns
  std::array<Dots, kFewRows> dot;   // of one
  std::array<SumRows, kFewRows> sum_rows;
};

#define TOROID_KERNELS(NAME, VECTOR, ...)                                                                                           \
  struct NAME {                                                                                                                     \
    template <int R, int C>                                                                                                         \
    __VA_ARGS__ static void dots(int64_t depth, const float* a, int64_t a_row, const float* b, int64_t b_column, float* c,          \
                                 int64_t c_row) {                                                                                   \
      toroid::dots<NAME, VECTOR, R, C>(depth, a, a_row, b, b_column, c, c_row);                                                     \
    }                                                                                                                               \
    __attribute__((noinline)) __VA_ARGS__ static void add_rest(const DotsSize& size, int64_t depth, const float* a, int64_t a_row,  \
                                                               const float* b, int64_t b_column, float* c, int64_t c_row) {         \
      add_short_dots(size, depth, a, a_row, b, b_column, c, c_row);                                                                 \
    }                                                                                                                               \
    template <int R>                                                                                                                \
    __VA_ARGS__ static void sum_rows(int64_t depth, const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row, \
                                     int64_t count, float* c, int64_t c_row) {                                                      \
      toroid::sum_rows<VECTOR, R>(depth, a, a_row, a_column, b, b_row, count, c, c_row);                                            \
    }                                                                                                                               \
  };

template <class Set, size_t... R>
constexpr Kernels kernels_of(std::index_sequence<R...>) {
  return {
      sizeof...(R), {&Set::template dots<R + 1, kDotColumns>...}, {&Set::template dots<R + 1, 1>...}, {&Set::template sum_rows<R + 1>...}};
}

}  // namespace

namespace small_m_levels {

TOROID_KERNELS(Baseline, Vector4, TOROID_BASELINE)
#ifdef __x86_64__
TOROID_KERNELS(Avx2, Vector8, TOROID_AVX2)
TOROID_KERNELS(Avx512, Vector16, TOROID_AVX512)
#endif

}  // namespace small_m_levels

namespace {

using namespace small_m_levels;

const Kernels& kernels() {
#ifdef __x86_64__
  constexpr std::make_index_sequence<kFewRows> rows;
  static constexpr Kernels avx2 = kernels_of<Avx2>(rows);
  static constexpr Kernels avx512 = kernels_of<Avx512>(rows);
  if (vector_set() == VectorSet::Avx512) return avx512;
  if (vector_set() == VectorSet::Avx2) return avx2;
#endif
  static constexpr Kernels baseline = kernels_of<Baseline>(std::make_index_sequence<1>());
  return baseline;
}

// Calls f(row, rows) for groups of at most so many rows.
template <class F>
void for_few_rows(int64_t m, int64_t most, F f) {
  for (int64_t i = 0; i < m; i += most) f(i, std::min(most, m - i));
}

// Some rows with at most kDotColumns columns of `b`. Fewer than those are the last ones of as many, of which the others are done again,
// unless there are none.
void multiply_by_columns(const Kernels& kernel, int64_t rows, int64_t k, const float* a, int64_t a_row, const Matrix& b, Range columns,
                         float* c, int64_t c_row) {
  const auto r = static_cast<size_t>(rows - 1);
  const int64_t count = columns.size(), again = kDotColumns - count;
  if (again == 0) return kernel.dots[r](k, a, a_row, b.at(0, columns.first), b.column, c, c_row);
  if (again > columns.first) {
    for (int64_t j = 0; j < count; ++j) kernel.dot[r](k, a, a_row, b.at(0, columns.first + j), b.column, c + j, c_row);
    return;
  }
  float block[kFewRows][kDotColumns];
  kernel.dots[r](k, a, a_row, b.at(0, columns.first - again), b.column, block[0], kDotColumns);
  for (int64_t i = 0; i < rows; ++i) std::copy_n(block[i] + again, count, c + i * c_row);
}

// A few rows, whose elements in `a` are contiguous, with contiguous columns of `b`.
void few_rows_by_columns(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c, int64_t c_row) {
  const Kernels& kernel = kernels();
  constexpr int64_t kBlock = 4 * kDotColumns;
  pool.parallel_for((n + kBlock - 1) / kBlock, 1, [&](int64_t begin, int64_t end) {
    const int64_t last = std::min(n, end * kBlock);
    for (int64_t j = begin * kBlock; j < last; j += kDotColumns) {
      for_few_rows(m, kernel.most_rows, [&](int64_t i, int64_t rows) {
        multiply_by_columns(kernel, rows, k, a.at(i, 0), a.row, b, {j, std::min(j + kDotColumns, last)}, c + i * c_row + j, c_row);
      });
    }
  });
}

// A few rows, with rows of `b` that are contiguous.
void few_rows_by_rows(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c, int64_t c_row) {
  const Kernels& kernel = kernels();
  // The longest pieces of b's rows with which the sums stay in the first-level cache and all threads have some. Two each where b is read
  // again, or may still be in the second-level caches: a piece's columns are more often there then, and threads wait for the third level
  // more than one alone does. What is read once from further away comes quicker in long pieces.
  constexpr int64_t kLine = 64;
  const bool is_near = m > kFewRows || k * n * int64_t{sizeof(float)} <= pool.threads() * l2_cache_bytes();
  const int64_t pieces = pool.threads() == 1 ? 1 : (is_near ? 2 : 1) * pool.threads();
  const int64_t share = divide_up(divide_up(n, pieces), kLine) * kLine;
  const int64_t block = std::clamp(share, kLine, kMostSums / std::min<int64_t>(m, kFewRows));
  pool.parallel_for((n + block - 1) / block, 1, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin * block; j < std::min(n, end * block); j += block) {
      for_few_rows(m, kernel.most_rows, [&](int64_t i, int64_t rows) {
        kernel.sum_rows[static_cast<size_t>(rows - 1)](k, a.at(i, 0), a.row, a.column, b.at(0, j), b.row, std::min(block, n - j),
                                                       c + i * c_row + j, c_row);
      });
    }
  });
}

using FewRows = void (*)(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c, int64_t c_row);

// An epilogue gets the whole product.
void multiply(FewRows few_rows, RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
              const ProductOutput& out) {
  if (out.epilogue == nullptr) return few_rows(pool, m, n, k, a, b, out.data, out.row);
  float* const product = scratch_for_product.get(m * n + kReadBeyond);
  few_rows(pool, m, n, k, a, b, product, n);
  out.take(product, n, {0, m}, {0, n});
}

}  // namespace

void multiply_small_m_by_rows(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
                              const ProductOutput& out) {
  TOROID_CHECK(b.column == 1);
  multiply(few_rows_by_rows, pool, m, n, k, a, b, out);
}

void multiply_small_m_by_columns(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
                                 const ProductOutput& out) {
  TOROID_CHECK(b.row == 1 && a.column == 1);
  multiply(few_rows_by_columns, pool, m, n, k, a, b, out);
}

}  // namespace toroid
