// C is cut into tiles of kRows x kColumns held in vector registers. B is packed a panel of kColumns at a time, A a panel of
// kRows at a time, each in the order in which the inner loop reads it.
#include "runtime/gemm.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

namespace toroid {
namespace {

constexpr int kRows = 12;
constexpr int kColumns = 32;
constexpr int64_t kDepth = 384;        // of one packed block: a B panel of 48 KiB stays in the second-level cache
constexpr int64_t kRowBlock = 96;      // rows of A packed at a time: 144 KiB

typedef float Vector __attribute__((vector_size(64)));

// Compiled once per instruction set and chosen when the program is loaded; that early, the thread sanitizer's own code cannot run yet.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define TOROID_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TOROID_CLONES
#endif

TOROID_CLONES void kernel(int64_t k, const float* a, const float* b, float* tile) {
  Vector c[kRows][2] = {};
  for (int64_t p = 0; p < k; ++p) {
    Vector b0, b1;
    std::memcpy(&b0, b + p * kColumns, sizeof b0);
    std::memcpy(&b1, b + p * kColumns + 16, sizeof b1);
    // Unrolled whole, or the accumulators would live in memory.
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      c[i][0] += a[p * kRows + i] * b0;
      c[i][1] += a[p * kRows + i] * b1;
    }
  }
  std::memcpy(tile, c, sizeof c);
}

void pack_a(int64_t rows, int64_t depth, const float* a, int64_t row_stride, int64_t column_stride, float* out) {
  for (int64_t i = 0; i < rows; i += kRows) {
    const int64_t count = std::min<int64_t>(kRows, rows - i);
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t r = 0; r < kRows; ++r) *out++ = r < count ? a[(i + r) * row_stride + p * column_stride] : 0.0f;
    }
  }
}

void pack_b(int64_t columns, int64_t depth, const float* b, int64_t row_stride, int64_t column_stride, float* out) {
  for (int64_t p = 0; p < depth; ++p) {
    if (column_stride == 1 && columns == kColumns) {
      std::memcpy(out, b + p * row_stride, kColumns * sizeof(float));
    } else {
      for (int64_t j = 0; j < kColumns; ++j) out[j] = j < columns ? b[p * row_stride + j * column_stride] : 0.0f;
    }
    out += kColumns;
  }
}

// b[k, n] with rows of n apart (column_stride large): walk it along k.
void pack_b_transposed(int64_t columns, int64_t depth, const float* b, int64_t column_stride, float* out) {
  for (int64_t j = 0; j < kColumns; ++j) {
    for (int64_t p = 0; p < depth; ++p) out[p * kColumns + j] = j < columns ? b[j * column_stride + p] : 0.0f;
  }
}

template <class F>
void parallel(RuntimePool& pool, int64_t n, F f) {
  pool.parallel_for(n, 1, [](void* p, int64_t begin, int64_t end) { (*static_cast<F*>(p))(begin, end); }, &f);
}

// One row: a product of a vector and a matrix reads the matrix once, so packing would double the work.
void row_times_matrix(RuntimePool& pool, int64_t n, int64_t k, const float* a, int64_t a_column, const float* b, int64_t b_row,
                      int64_t b_column, float* c) {
  if (b_row == 1) {  // every column is contiguous: dot products
    parallel(pool, (n + 15) / 16, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin * 16; j < std::min(n, end * 16); ++j) {
        const float* column = b + j * b_column;
        float partial[64] = {};
        int64_t p = 0;
        if (a_column == 1) {
          for (; p + 64 <= k; p += 64) {
            for (int l = 0; l < 64; ++l) partial[l] += a[p + l] * column[p + l];
          }
        }
        float sum = 0;
        for (; p < k; ++p) sum += a[p * a_column] * column[p];
        for (int w = 32; w > 0; w /= 2) {
          for (int l = 0; l < w; ++l) partial[l] += partial[l + w];
        }
        c[j] = sum + partial[0];
      }
    });
    return;
  }
  constexpr int64_t kBlock = 256;
  parallel(pool, (n + kBlock - 1) / kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kBlock;
      const int64_t count = std::min(kBlock, n - first);
      float sums[kBlock] = {};
      for (int64_t p = 0; p < k; ++p) {
        const float x = a[p * a_column];
        const float* row = b + p * b_row + first * b_column;
        if (b_column == 1) {
          for (int64_t j = 0; j < count; ++j) sums[j] += x * row[j];
        } else {
          for (int64_t j = 0; j < count; ++j) sums[j] += x * row[j * b_column];
        }
      }
      std::memcpy(c + first, sums, static_cast<size_t>(count) * sizeof(float));
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
  if (m == 1) {
    row_times_matrix(pool, n, k, a, a_column, b, b_row, b_column, c);
    return;
  }
  const int64_t panels = (n + kColumns - 1) / kColumns;
  const int64_t row_blocks = (m + kRowBlock - 1) / kRowBlock;
  const int64_t packed_rows = (m + kRows - 1) / kRows * kRows;
  // A is packed once per depth block for everybody; each task then packs its own B panel and runs down the rows.
  std::unique_ptr<float[]> packed_a(new float[static_cast<size_t>(packed_rows * std::min(k, kDepth))]);
  for (int64_t depth0 = 0; depth0 < k; depth0 += kDepth) {
    const int64_t depth = std::min(kDepth, k - depth0);
    parallel(pool, row_blocks, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * kRowBlock;
        pack_a(std::min(kRowBlock, m - first), depth, a + first * a_row + depth0 * a_column, a_row, a_column,
               packed_a.get() + first * depth);
      }
    });
    // With few panels, several tasks share one, each with some of the row blocks.
    const int64_t splits = panels >= 2 * pool.threads() ? 1 : std::min<int64_t>(row_blocks, 4);
    parallel(pool, panels * splits, [&](int64_t begin, int64_t end) {
      std::unique_ptr<float[]> packed_b(new float[static_cast<size_t>(kColumns * depth)]);
      int64_t packed_panel = -1;
      alignas(64) float tile[kRows * kColumns];
      for (int64_t task = begin; task < end; ++task) {
        const int64_t panel = task / splits;
        const int64_t split = task % splits;
        const int64_t column = panel * kColumns;
        const int64_t columns = std::min<int64_t>(kColumns, n - column);
        if (packed_panel != panel) {
          const float* source = b + depth0 * b_row + column * b_column;
          if (b_row == 1 && b_column != 1) {
            pack_b_transposed(columns, depth, source, b_column, packed_b.get());
          } else {
            pack_b(columns, depth, source, b_row, b_column, packed_b.get());
          }
          packed_panel = panel;
        }
        const int64_t tiles = packed_rows / kRows;
        for (int64_t t = tiles * split / splits; t < tiles * (split + 1) / splits; ++t) {
          kernel(depth, packed_a.get() + t * kRows * depth, packed_b.get(), tile);
          const int64_t rows = std::min<int64_t>(kRows, m - t * kRows);
          for (int64_t i = 0; i < rows; ++i) {
            float* out = c + (t * kRows + i) * c_row + column;
            const float* from = tile + i * kColumns;
            if (depth0 == 0) {
              std::memcpy(out, from, static_cast<size_t>(columns) * sizeof(float));
            } else {
              for (int64_t j = 0; j < columns; ++j) out[j] += from[j];
            }
          }
        }
      }
    });
  }
}

}  // namespace toroid
