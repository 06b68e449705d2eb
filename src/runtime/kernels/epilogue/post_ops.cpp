#include "runtime/kernels/epilogue/post_ops.h"

#include "runtime/kernels/epilogue/register_post_ops.h"

namespace toroid {
namespace {

struct SumBlock {
  const float* sums;
  int64_t row;  // elements from row to row
  int64_t rows;
};

// So many vectors of columns of a block, row by row; what the rows have in common stays in registers.
template <class Vector, int kVectors, bool kHasResidual, class Lanes>
TOROID_INLINE void finish_columns(const ToroidPostOps& sum, const SumBlock& block, int64_t column, const Lanes& lanes) {
  const Bounds<Vector> bounds(sum);
  Affine<Vector> affine[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) affine[v] = Affine<Vector>(sum, column + v * kLanesOf<Vector>, lanes);
  for (int64_t i = 0; i < block.rows; ++i) {
    const float* from = block.sums + i * block.row + column;
    float* to = sum.out + i * sum.out_row + column;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v, from += kLanesOf<Vector>, to += kLanesOf<Vector>) {
      Vector x;
      lanes.load(from, x);
      affine[v].apply(x);
      if constexpr (kHasResidual) {
        Vector other;
        lanes.load(sum.residual + i * sum.residual_row + column + v * kLanesOf<Vector>, other);
        x += other;
      }
      bounds.apply(x);
      lanes.store(x, to);
    }
  }
}

template <class Vector, int kVectors, class Lanes>
TOROID_INLINE void finish_columns(const ToroidPostOps& sum, const SumBlock& block, int64_t column, const Lanes& lanes) {
  if (sum.residual == nullptr) return finish_columns<Vector, kVectors, false>(sum, block, column, lanes);
  finish_columns<Vector, kVectors, true>(sum, block, column, lanes);
}

template <class Vector>
TOROID_INLINE void finish_block(const ToroidPostOps& sum, const SumBlock& block, int64_t columns) {
  constexpr int kLanes = kLanesOf<Vector>, kMost = 4;
  int64_t column = 0;
  for (; column + kMost * kLanes <= columns; column += kMost * kLanes)
    finish_columns<Vector, kMost>(sum, block, column, AllLanes<Vector>());
  for (; column + kLanes <= columns; column += kLanes) finish_columns<Vector, 1>(sum, block, column, AllLanes<Vector>());
  if (column < columns) finish_columns<Vector, 1>(sum, block, column, FirstLanes<Vector>(columns - column));
}

#ifdef __x86_64__
TOROID_AVX2 void finish_avx2(const ToroidPostOps& sum, const SumBlock& block, int64_t columns) {
  finish_block<Vector8>(sum, block, columns);
}
TOROID_AVX512 void finish_avx512(const ToroidPostOps& sum, const SumBlock& block, int64_t columns) {
  finish_block<Vector16>(sum, block, columns);
}
#endif

}  // namespace

const ToroidPostOps* post_ops(const ToroidEpilogue* epilogue) {
  if (epilogue == nullptr || epilogue->clamped == nullptr || vector_set() == VectorSet::Baseline) return nullptr;
  return epilogue->clamped->scale == nullptr || epilogue->clamped->is_fused != 0 ? epilogue->clamped : nullptr;
}

ToroidPostOps part_of(const ToroidPostOps& whole, int64_t first_row, int64_t first_column) {
  ToroidPostOps part = whole;
  if (part.scale != nullptr) part.scale += first_column;
  if (part.bias != nullptr) part.bias += first_column;
  if (part.residual != nullptr) part.residual += first_row * part.residual_row + first_column;
  part.out += first_row * part.out_row + first_column;
  return part;
}

void run_epilogue(const ToroidEpilogue& epilogue, const float* block, int64_t block_row, Range rows, Range columns) {
#ifdef __x86_64__
  if (const ToroidPostOps* clamped = post_ops(&epilogue)) {
    const ToroidPostOps part = part_of(*clamped, rows.first, columns.first);
    const SumBlock sums = {block, block_row, rows.size()};
    return vector_set() == VectorSet::Avx512 ? finish_avx512(part, sums, columns.size()) : finish_avx2(part, sums, columns.size());
  }
#endif
  epilogue.run(epilogue.argument, block, block_row, rows.first, rows.last, columns.first, columns.last);
}

}  // namespace toroid
