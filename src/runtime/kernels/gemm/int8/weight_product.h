// What products of floats with a narrower right side share, of int8 or int4: its numbers are widened as they are needed.
#pragma once

#include "runtime/kernels/gemm/half/amx_blocks.h"
#include "runtime/kernels/gemm/half/gemm_amx.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/kernels/registry/operands.h"
#include "tensor/dtype.h"

namespace toroid {

inline Scratch scratch_for_wide_tiles;

// Rows of the left side, of any float, as float32.
class FloatRows {
 public:
  FloatRows(const ToroidOperand& operand, int64_t batch)
      : dtype_(static_cast<DType>(operand.dtype)), row_(operand.strides[operand.rank - 2]), column_(operand.strides[operand.rank - 1]) {
    data_ = static_cast<const std::byte*>(operand.data) + batch_offset(operand, operand.rank - 2, batch) * size_bytes(dtype_);
  }
  DType dtype() const { return dtype_; }
  TileMatrix matrix() const { return {data_, row_, column_}; }
  // Of bfloat16 whose sum an element is.
  int64_t parts() const { return dtype_ == DType::BF16 ? 1 : 3; }

  // Where it lies, or a copy in `to`.
  const float* row(int64_t i, int64_t k, float* to) const {
    const std::byte* from = data_ + i * row_ * size_bytes(dtype_);
    if (dtype_ == DType::F32) {
      const auto* floats = reinterpret_cast<const float*>(from);
      if (column_ == 1) return floats;
      for (int64_t p = 0; p < k; ++p) to[p] = floats[p * column_];
      return to;
    }
    widen_elements(dtype_, reinterpret_cast<const uint16_t*>(from), column_, k, to);
    return to;
  }

 private:
  DType dtype_;
  int64_t row_, column_;
  const std::byte* data_;
};

// A tile of rows in parts, as [part][step]: up to 16 from `first` on, and all the depth. For machines with tiles.
void pack_rows_in_parts(const FloatRows& a, int64_t first, int64_t rows, int64_t k, std::byte* out);

// A block of rows of bfloat16, each in so many parts that follow each other (a float32 is the sum of three), with tiles of columns that are
// widened for all of them. Tiles: at(tile, step), where one lies, widen(tile, steps, to), and kStepLines, the lines of 64 bytes of a step.
template <class Tiles>
struct NarrowProduct {
  Tiles right;
  int64_t steps, parts;

  void multiply(const TileBlock& block) const {
    auto* wide = reinterpret_cast<std::byte*>(scratch_for_wide_tiles.get(2 * kPartSteps * kTileBytes / kWordBytes));
    const int64_t strips = (block.row_tiles + 1) / 2 * parts, lines = (Tiles::kStepLines + strips - 1) / strips;
    for (int64_t done = 0; done == 0 || done < steps; done += kPartSteps) {
      const int64_t some = std::min(kPartSteps, steps - done);
      for (int64_t j = block.first_column; j < block.last_column; j += 2) {
        const bool has_second = j + 1 < block.last_column;
        for (int64_t c = 0; c < 1 + has_second; ++c) right.widen(j + c, {done, done + some}, wide + c * kPartSteps * kTileBytes);
        const bool is_last_column = j + 2 >= block.last_column, is_last = is_last_column && done + kPartSteps >= steps;
        const int64_t next_column = is_last || !is_last_column ? j + 2 : block.first_column;
        const int64_t next_step = is_last ? 0 : is_last_column ? done + kPartSteps : done;
        int64_t strip = 0;
        for (int64_t i = 0; i < block.row_tiles; i += 2) {
          for (int64_t part = 0; part < parts; ++part, ++strip) {
            const int64_t offset = strip * lines * kPartSteps * kTileRowBytes;
            multiply_tiles(AmxType::BFloat16,
                           {{left_at(block, i, part, done), i + 1 < block.row_tiles ? left_at(block, i + 1, part, done) : nullptr},
                            {wide, has_second ? wide + kPartSteps * kTileBytes : nullptr},
                            some,
                            block.sums + i * kTileSide * kPanelColumns + (j - block.first_column) * kTileSide,
                            kPanelColumns,
                            done > 0 || part > 0,
                            {right.at(next_column, next_step) + offset, right.at(next_column + 1, next_step) + offset},
                            lines});
          }
        }
      }
    }
  }
  const std::byte* left_at(const TileBlock& block, int64_t tile, int64_t part, int64_t step) const {
    return block.left + ((tile * parts + part) * steps + step) * kTileBytes;
  }
};

}  // namespace toroid
