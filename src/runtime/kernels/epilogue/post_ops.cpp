#include "runtime/kernels/epilogue/post_ops.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/kernels/epilogue/register_post_ops.h"
#include "runtime/kernels/isa/half_rows.h"

namespace toroid {
namespace post_ops_levels {

struct SumBlock {
  const float* sums;
  int64_t row;  // elements from row to row
  int64_t rows;
};

}  // namespace post_ops_levels

namespace {

using post_ops_levels::SumBlock;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

DType dtype_of_result(const ToroidEpilogue& epilogue) { return static_cast<DType>(epilogue.post_ops.out_dtype); }

// So many vectors of columns of a block, row by row; what the rows have in common stays in registers.
template <class Vector, int kVectors, bool kHasResidual, class Lanes>
TOROID_INLINE void finish_columns(const ToroidPostOps& ops, float* out, const SumBlock& block, int64_t column, const Lanes& lanes) {
  const Bounds<Vector> bounds(ops);
  Affine<Vector> affine[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) affine[v] = Affine<Vector>(ops, column + v * kLanesOf<Vector>, lanes);
  for (int64_t i = 0; i < block.rows; ++i) {
    const float* from = block.sums + i * block.row + column;
    float* to = out + i * ops.out_row + column;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v, from += kLanesOf<Vector>, to += kLanesOf<Vector>) {
      Vector x;
      lanes.load(from, x);
      affine[v].apply(x);
      if constexpr (kHasResidual) {
        Vector other;
        lanes.load(ops.residual + i * ops.residual_row + column + v * kLanesOf<Vector>, other);
        x += other;
      }
      bounds.apply(x);
      lanes.store(x, to);
    }
  }
}

template <class Vector, int kVectors, class Lanes>
TOROID_INLINE void finish_columns(const ToroidPostOps& ops, float* out, const SumBlock& block, int64_t column, const Lanes& lanes) {
  if (ops.residual == nullptr) return finish_columns<Vector, kVectors, false>(ops, out, block, column, lanes);
  finish_columns<Vector, kVectors, true>(ops, out, block, column, lanes);
}

template <class Vector>
TOROID_INLINE void finish_block(const ToroidPostOps& ops, float* out, const SumBlock& block, int64_t columns) {
  constexpr int kLanes = kLanesOf<Vector>, kMost = 4;
  int64_t column = 0;
  for (; column + kMost * kLanes <= columns; column += kMost * kLanes)
    finish_columns<Vector, kMost>(ops, out, block, column, AllLanes<Vector>());
  for (; column + kLanes <= columns; column += kLanes) finish_columns<Vector, 1>(ops, out, block, column, AllLanes<Vector>());
  if (column < columns) finish_columns<Vector, 1>(ops, out, block, column, FirstLanes<Vector>(columns - column));
}

}  // namespace

namespace post_ops_levels {

#ifdef __x86_64__
TOROID_AVX2 void finish_avx2(const ToroidPostOps& ops, float* out, const SumBlock& block, int64_t columns) {
  finish_block<Vector8>(ops, out, block, columns);
}
TOROID_AVX512 void finish_avx512(const ToroidPostOps& ops, float* out, const SumBlock& block, int64_t columns) {
  finish_block<Vector16>(ops, out, block, columns);
}
#endif

void finish_baseline(const ToroidPostOps& ops, float* out, const SumBlock& block, int64_t columns) {
  finish_block<Vector4>(ops, out, block, columns);
}

}  // namespace post_ops_levels

namespace {

using namespace post_ops_levels;

void finish_f32(const ToroidPostOps& ops, float* out, const SumBlock& block, int64_t columns) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return finish_avx512(ops, out, block, columns);
  if (vector_set() == VectorSet::Avx2) return finish_avx2(ops, out, block, columns);
#endif
  finish_baseline(ops, out, block, columns);
}

// Some rows at a time, by way of float32 in the first-level cache.
void finish_half(const ToroidEpilogue& whole, const SumBlock& block, int64_t columns) {
  constexpr int64_t kPiece = 1024;
  float piece[kPiece];
  const int64_t most_columns = std::min(columns, kPiece), most_rows = kPiece / most_columns;
  for (int64_t row = 0; row < block.rows; row += most_rows) {
    for (int64_t column = 0; column < columns; column += most_columns) {
      const int64_t rows = std::min(most_rows, block.rows - row), count = std::min(most_columns, columns - column);
      const ToroidEpilogue part = part_of(whole, row, column);
      ToroidPostOps ops = part.post_ops;
      ops.out_row = count;
      finish_f32(ops, piece, {block.sums + row * block.row + column, block.row, rows}, count);
      round_rows(dtype_of_result(whole), piece, count, rows, count, static_cast<uint16_t*>(part.out), part.post_ops.out_row);
    }
  }
}

bool is_store_alone(const ToroidPostOps& ops) {
  return ops.scale == nullptr && ops.bias == nullptr && ops.residual == nullptr && ops.low == -kInfinity && ops.high == kInfinity;
}

void store(const ToroidEpilogue& to, const SumBlock& block, int64_t columns) {
  const DType dtype = dtype_of_result(to);
  const int64_t out_row = to.post_ops.out_row, width = size_bytes(dtype);
  if (is_reduced_float(dtype))
    return round_rows(dtype, block.sums, block.row, block.rows, columns, static_cast<uint16_t*>(to.out), out_row);
  auto* out = static_cast<std::byte*>(to.out);
  const float* sums = block.sums;
  for (int64_t i = 0; i < block.rows; ++i, sums += block.row, out += out_row * width)
    std::memcpy(out, sums, static_cast<size_t>(columns * width));
}

}  // namespace

ToroidEpilogue store_as(DType dtype, void* out, int64_t row) {
  const ToroidPostOps none = {nullptr, nullptr, nullptr, 0, -kInfinity, kInfinity, row, static_cast<int32_t>(dtype)};
  return {out, nullptr, nullptr, none};
}

bool is_for_registers(const ToroidEpilogue* epilogue) {
  return epilogue != nullptr && epilogue->run == nullptr && dtype_of_result(*epilogue) == DType::F32;
}

ToroidEpilogue part_of(const ToroidEpilogue& post_ops, int64_t first_row, int64_t first_column) {
  ToroidEpilogue part = post_ops;
  ToroidPostOps& ops = part.post_ops;
  if (ops.scale != nullptr) ops.scale += first_column;
  if (ops.bias != nullptr) ops.bias += first_column;
  if (ops.residual != nullptr) ops.residual += first_row * ops.residual_row + first_column;
  part.out = static_cast<std::byte*>(part.out) + (first_row * ops.out_row + first_column) * size_bytes(dtype_of_result(part));
  return part;
}

void run_epilogue(const ToroidEpilogue& epilogue, const float* block, int64_t block_row, Range rows, Range columns) {
  if (epilogue.run != nullptr) {
    epilogue.run(epilogue.argument, epilogue.out, block, block_row, rows.first, rows.last, columns.first, columns.last);
    return;
  }
  const ToroidEpilogue part = part_of(epilogue, rows.first, columns.first);
  const SumBlock sums = {block, block_row, rows.size()};
  if (is_store_alone(part.post_ops)) return store(part, sums, columns.size());
  if (is_reduced_float(dtype_of_result(part))) return finish_half(part, sums, columns.size());
  finish_f32(part.post_ops, static_cast<float*>(part.out), sums, columns.size());
}

}  // namespace toroid
