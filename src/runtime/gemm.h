// Matrix products of float matrices, on the runtime's own threads.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/pool.h"

namespace toroid {

// c[m, n] = sum over k of a[m, k] * b[k, n]; c is row-major and contiguous along n. Strides in elements. Source of the blocking:
// Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008.
void gemm_f32(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_column, const float* b,
              int64_t b_row, int64_t b_column, float* c, int64_t c_row);

// A part of a right-hand matrix to be written as the product reads it: out[panel - first][p - p0][j] = b[p, panel * width + j] for the
// panels [first, last) and the rows [p0, p0 + depth); columns beyond n are 0.
struct PanelRequest {
  int64_t p0, depth;
  int64_t first, last;
  int64_t width;
  float* out;
};
// c[m, n] += sum over k of a[m, k] * b[k, n], where `pack` writes parts of b on request, from several threads.
void gemm_onto_f32(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_column,
                   const std::function<void(const PanelRequest&)>& pack, float* c, int64_t c_row);

}  // namespace toroid
