// Products of int8 or uint8 with int8: exact, in tiles of bytes where the machine has them. Else of floats: a sum of 512 products of bytes is a whole
// number below 2^24, which float32 holds, so parts of the depth are summed in float32 and then as integers.
#include <algorithm>
#include <vector>

#include "runtime/int8_weights.h"
#include "runtime/library.h"
#include "runtime/operands.h"
#include "runtime/product.h"
#include "runtime/scratch.h"
#include "runtime/stored_sums.h"
#include "runtime/tile_product.h"
#include "support/error.h"

namespace toroid {
namespace {

constexpr int64_t kExactDepth = 512;

thread_local Scratch scratch_for_rows, scratch_for_wide, scratch_for_panels, scratch_for_block;

TileMatrix matrix_of(const ToroidOperand& operand, int64_t batch) {
  const int32_t dims = operand.rank - 2;
  return {static_cast<const int8_t*>(operand.data) + batch_offset(operand, dims, batch), operand.strides[dims], operand.strides[dims + 1]};
}

// As floats, whole.
template <class Element>
void widen(RuntimePool& pool, const TileMatrix& from, int64_t rows, int64_t columns, float* to) {
  const auto* data = static_cast<const Element*>(from.data);
  pool.parallel_for(rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < columns; ++j) to[i * columns + j] = data[i * from.row + j * from.column];
    }
  });
}

void multiply_exactly(RuntimePool& pool, DType left, int64_t m, int64_t n, int64_t k, const TileMatrix& a, const TileMatrix& b, int32_t* out) {
  float* rows = scratch_for_rows.get(m * k);
  float* wide = scratch_for_wide.get(k * n);
  float* block = scratch_for_block.get(m * n);
  (left == DType::U8 ? widen<uint8_t> : widen<int8_t>)(pool, a, m, k, rows);
  widen<int8_t>(pool, b, k, n, wide);
  std::fill_n(out, m * n, 0);
  for (int64_t done = 0; done < k; done += kExactDepth) {
    const int64_t depth = std::min(kExactDepth, k - done);
    float* panels = scratch_for_panels.get(PackedMatrix::size(depth, n));
    pack_panels({wide + done * n, n, 1}, depth, n, 0, PackedMatrix::panels(n), panels);
    multiply(pool, m, {rows + done, k, 1}, {depth, n, panels}, 0, PackedMatrix::panels(n), {block, n, nullptr});
    for (int64_t i = 0; i < m * n; ++i) out[i] = static_cast<int32_t>(static_cast<uint32_t>(out[i]) + static_cast<uint32_t>(static_cast<int32_t>(block[i])));
  }
}

void multiply_in_tiles(const KernelCall& call, int64_t m, int64_t n, int64_t k, const TileMatrix& a, const TileMatrix& b, int32_t* out) {
  const int64_t form[] = {'8', 'i', k, n, b.row, b.column};
  const float* packed = call.made_of(call.inputs[1], b.data, form, packed_tiles_bytes(TileNumbers::Int8, k, n) / kWordBytes, [&](float* to) {
    pack_right_tiles(TileNumbers::Int8, call.pool, b, k, n, reinterpret_cast<std::byte*>(to));
  });
  StoredSums sums = {out, DType::I32, n};
  const auto numbers = static_cast<DType>(call.inputs[0].dtype) == DType::U8 ? TileNumbers::Uint8 : TileNumbers::Int8;
  multiply_in_tiles(numbers, call.pool, m, n, k, a, reinterpret_cast<const std::byte*>(packed), sums.epilogue());
}

void run_int8(const KernelCall& call, Int8Form form) {
  const ToroidOperand& a = call.inputs[0];
  const ToroidOperand& b = call.inputs[1];
  const ToroidOperand& c = call.outputs[0];
  const ProductSizes sizes = product_sizes(a, b, c);
  const int64_t batches = sizes.batches, m = sizes.m, n = sizes.n, k = sizes.k;
  if (m == 0 || n == 0) return;
  for_each_product(call.pool, batches, m * n * k, [&](int64_t batch) {
    int32_t* out = static_cast<int32_t*>(c.data) + batch * m * n;
    if (form == Int8Form::Tiles) return multiply_in_tiles(call, m, n, k, matrix_of(a, batch), matrix_of(b, batch), out);
    multiply_exactly(call.pool, static_cast<DType>(a.dtype), m, n, k, matrix_of(a, batch), matrix_of(b, batch), out);
  });
}

}  // namespace

bool can_multiply_int8(Int8Form form, DType left) {
  if (form == Int8Form::Tiles) return has_tiles(left == DType::I8 || left == DType::U8 ? TileNumbers::Int8 : TileNumbers::BFloat16);
  return true;
}

void run_matmul_int8(const KernelCall& call, Int8Form form) {
  const auto left = static_cast<DType>(call.inputs[0].dtype), result = static_cast<DType>(call.outputs[0].dtype);
  TOROID_CHECK(can_multiply_int8(form, left));
  if (left == DType::I8 || left == DType::U8) {
    TOROID_CHECK(result == DType::I32 && call.epilogue == nullptr);
    return run_int8(call, form);
  }
  TOROID_CHECK((left == DType::F32 || is_reduced_float(left)) && (result == DType::F32 || is_reduced_float(result)));
  run_int8_weights(call, form);
}

void run_matmul_int8(const KernelCall& call) {
  const bool has = can_multiply_int8(Int8Form::Tiles, static_cast<DType>(call.inputs[0].dtype));
  run_matmul_int8(call, has ? Int8Form::Tiles : Int8Form::Widened);
}

}  // namespace toroid
