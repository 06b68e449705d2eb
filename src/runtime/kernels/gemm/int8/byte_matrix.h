// The right side of products of bytes in the order in which the microkernels read it.
#pragma once

#include "runtime/kernels/gemm/half/gemm_amx.h"
#include "runtime/kernels/gemm/int8/microkernel.h"
#include "runtime/pool/pool.h"

namespace toroid {

// [k, n] of int8 as tiles of 16 columns, and behind them, where the left's bytes are made unsigned by adding 128, what that adds to each
// column. Four tiles are a panel.
class ByteMatrix {
 public:
  static constexpr int64_t kPanelTiles = ByteKernels::kMostTiles, kPanelColumns = kPanelTiles * ByteKernels::kColumns;

  ByteMatrix(const ByteKernels& kernels, int64_t n, int64_t k)
      : kernels_(kernels), n_(n), k_(k), words_((k + kernels.elements - 1) / kernels.elements) {}

  int64_t size() const;  // in words of 32 bits
  int64_t words() const { return words_; }
  int64_t panels() const { return (n_ + kPanelColumns - 1) / kPanelColumns; }
  void pack(RuntimePool& pool, const TileMatrix& b, bool shifts, uint32_t* words) const;

  // sums[i, j] = the product of `count` rows with the columns of a panel; sums' rows are `row` apart, and each is written up to the next
  // multiple of 16. The rows' pointers are [strip][tap][ByteRows::kStrip]. `shifted`: what 128 adds is taken off.
  void multiply(const uint32_t* packed, int64_t panel, ByteRows rows, int64_t count, bool shifted, int32_t* sums, int64_t row) const;

 private:
  int64_t tile_words() const { return words_ * ByteKernels::kColumns; }
  const uint32_t* tile(const uint32_t* packed, int64_t i) const { return packed + i * tile_words(); }
  void pack_tile(const TileMatrix& b, int64_t tile, uint32_t* words) const;
  void sum_columns(const uint32_t* words, int32_t* added) const;

  const ByteKernels& kernels_;
  int64_t n_, k_, words_;
};

}  // namespace toroid
