#include "runtime/kernels/gemm/int8/byte_matrix.h"

#include <algorithm>
#include <vector>

namespace toroid {

int64_t ByteMatrix::size() const { return tiles_of(n_) * (tile_words() + ByteKernels::kColumns); }

void ByteMatrix::pack(RuntimePool& pool, const TileMatrix& b, bool shifts, uint32_t* words) const {
  const int64_t tiles = tiles_of(n_);
  pool.parallel_for(tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      pack_tile(b, tile, words + tile * tile_words());
      int32_t* added = reinterpret_cast<int32_t*>(words + tiles * tile_words()) + tile * ByteKernels::kColumns;
      shifts ? sum_columns(words + tile * tile_words(), added) : void(std::fill_n(added, ByteKernels::kColumns, 0));
    }
  });
}

void ByteMatrix::pack_tile(const TileMatrix& b, int64_t tile, uint32_t* words) const {
  const int64_t first = tile * ByteKernels::kColumns, columns = std::min<int64_t>(ByteKernels::kColumns, n_ - first),
                elements = kernels_.elements;
  const auto* data = static_cast<const int8_t*>(b.data) + first * b.column;
  std::fill_n(words, tile_words(), 0u);
  for (int64_t p = 0; p < k_; ++p) {
    uint32_t* const to = words + p / elements * ByteKernels::kColumns;
    const int64_t shift = p % elements * (32 / elements);
    const uint32_t mask = elements == 4 ? 0xffu : 0xffffu;
    for (int64_t j = 0; j < columns; ++j) to[j] |= (static_cast<uint32_t>(data[p * b.row + j * b.column]) & mask) << shift;
  }
}

void ByteMatrix::sum_columns(const uint32_t* words, int32_t* added) const {
  constexpr uint32_t kOnes = 0x01010101u;
  const std::vector<uint32_t> ones(static_cast<size_t>(words_), kOnes);
  const uint32_t* const row = ones.data();
  kernels_.multiply[0][0]({&row, 1, words_}, words, tile_words(), added, ByteKernels::kColumns);
  for (int j = 0; j < ByteKernels::kColumns; ++j) added[j] = static_cast<int32_t>(static_cast<uint32_t>(added[j]) * 128u);
}

void ByteMatrix::multiply(const uint32_t* packed, int64_t panel, ByteRows rows, int64_t count, bool shifted, int32_t* sums,
                          int64_t row) const {
  const int64_t columns = std::min(kPanelColumns, n_ - panel * kPanelColumns), tiles = tiles_of(columns);
  const int32_t* const added = reinterpret_cast<const int32_t*>(tile(packed, tiles_of(n_))) + panel * kPanelColumns;
  for (int64_t i = 0; i < count; i += ByteRows::kStrip, sums += ByteRows::kStrip * row) {
    const int64_t at_once = std::min<int64_t>(ByteRows::kStrip, count - i);
    for (int64_t first = 0; first < tiles; first += kernels_.tiles) {
      const int64_t some = std::min<int64_t>(kernels_.tiles, tiles - first);
      kernels_.multiply[at_once - 1][some - 1](rows, tile(packed, panel * kPanelTiles + first), tile_words(),
                                               sums + first * ByteKernels::kColumns, row);
    }
    rows.pointers += rows.taps * ByteRows::kStrip;
    if (!shifted) continue;
    for (int64_t r = 0; r < at_once; ++r) {
      for (int64_t j = 0; j < columns; ++j) {
        int32_t& sum = sums[r * row + j];
        sum = static_cast<int32_t>(static_cast<uint32_t>(sum) - static_cast<uint32_t>(added[j]));
      }
    }
  }
}

}  // namespace toroid
