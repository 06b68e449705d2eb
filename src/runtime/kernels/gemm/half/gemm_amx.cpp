// The right side, and the left where its rows are not as tiles have them, are copied into the order in which tiles are read. A part of the
// depth of two tiles of columns stays in the first-level cache while a block's rows, which stay in the second, pass by.
#include "runtime/kernels/gemm/half/gemm_amx.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/gemm/half/amx_blocks.h"
#include "runtime/kernels/gemm/packed_b.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

int64_t steps_of(AmxType numbers, int64_t k) { return (k * bytes_of_element(numbers) + kTileRowBytes - 1) / kTileRowBytes; }

// One tile of `rows` rows of a, from row `first` on, and all the depth.
template <class Element>
TOROID_INLINE void pack_left(const TileMatrix& a, int64_t first, int64_t rows, int64_t k, int64_t steps, std::byte* out) {
  constexpr int64_t kElements = kTileRowBytes / static_cast<int64_t>(sizeof(Element));
  const auto* data = static_cast<const Element*>(a.data);
  if (rows < kTileSide || k % kElements != 0) std::memset(out, 0, static_cast<size_t>(steps * kTileBytes));
  if (a.column != 1) {
    for (int64_t p = 0; p < k; ++p) {
      std::byte* to = out + p / kElements * kTileBytes + p % kElements * static_cast<int64_t>(sizeof(Element));
      for (int64_t i = 0; i < rows; ++i) std::memcpy(to + i * kTileRowBytes, data + (first + i) * a.row + p * a.column, sizeof(Element));
    }
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    const Element* from = data + (first + i) * a.row;
    std::byte* to = out + i * kTileRowBytes;
    int64_t p = 0;
    for (; p + kElements <= k; p += kElements, to += kTileBytes) std::memcpy(to, from + p, kTileRowBytes);
    if (p < k) std::memcpy(to, from + p, static_cast<size_t>(k - p) * sizeof(Element));
  }
}

// One tile of `columns` columns of b, from column `first` on, and all the depth.
template <class Element>
TOROID_INLINE void pack_right(const TileMatrix& b, int64_t first, int64_t columns, int64_t k, int64_t steps, std::byte* out) {
  constexpr int64_t kElements = kWordBytes / static_cast<int64_t>(sizeof(Element));
  typedef Element Sixteen __attribute__((vector_size(kTileSide * sizeof(Element))));
  const Element* data = static_cast<const Element*>(b.data) + first * b.column;
  const int64_t words = k / kElements;  // whole ones
  int64_t p = 0;                        // elements that are packed
  if (b.row == 1 && (columns == 1 || b.column % kElements == 0) && reinterpret_cast<uintptr_t>(data) % kWordBytes == 0) {
    // Words of contiguous columns are turned as floats are.
    pack_sixteen({reinterpret_cast<const float*>(data), 1, b.column / kElements}, words, columns, reinterpret_cast<float*>(out));
    p = words * kElements;
  } else if (b.column == 1 && columns == kTileSide) {
    for (; p < words * kElements; p += kElements) {
      Integers16 word = {};
#pragma GCC unroll 4
      for (int64_t e = 0; e < kElements; ++e) {
        Sixteen row;
        std::memcpy(&row, data + (p + e) * b.row, sizeof row);
        word |= __builtin_convertvector(row, Integers16) << static_cast<uint32_t>(8 * sizeof(Element) * static_cast<size_t>(e));
      }
      std::memcpy(out + p / kElements * kTileRowBytes, &word, sizeof word);
    }
  }
  std::memset(out + p / kElements * kTileRowBytes, 0, static_cast<size_t>(steps * kTileBytes - p / kElements * kTileRowBytes));
  for (; p < k; ++p) {
    std::byte* to = out + p / kElements * kTileRowBytes + p % kElements * static_cast<int64_t>(sizeof(Element));
    for (int64_t j = 0; j < columns; ++j) std::memcpy(to + j * kWordBytes, data + p * b.row + j * b.column, sizeof(Element));
  }
}

// Packed sides.
struct Product {
  AmxType numbers;
  int64_t steps;
  TileRows left;
  const std::byte* right;
  int64_t right_steps;  // that it was packed with

  const std::byte* right_at(int64_t tile, int64_t step) const { return right + (tile * right_steps + step) * kTileBytes; }

  // All tiles of rows with those of columns [first_column, last_column): two of columns at a time with a part of the depth.
  void multiply(int64_t first_column, int64_t last_column, float* sums, int64_t row) const {
    constexpr int64_t kPiecesAhead = 2;  // as far as the second-level cache is behind memory
    const int64_t part = steps_of_part(steps), pairs = divide_up(last_column - first_column, int64_t{2});
    const int64_t pieces = pairs * std::max<int64_t>(1, divide_up(steps, part));
    // Behind the last one come those of the columns that follow.
    const auto piece_at = [&](int64_t i) {
      const int64_t first = i < pieces ? first_column : last_column, n = i < pieces ? i : i - pieces;
      return Piece{first + n % pairs * 2, n / pairs * part, part};
    };
    for (int64_t i = 0; i < pieces; ++i)
      multiply_piece(piece_at(i), piece_at(i + kPiecesAhead), last_column, sums + i % pairs * 2 * kTileSide, row);
  }

 private:
  struct Piece {
    int64_t column, step, steps;
  };
  // What of the right side comes later is fetched meanwhile: it is in memory more often than in a cache.
  void multiply_piece(const Piece& piece, const Piece& later, int64_t last_column, float* sums, int64_t row) const {
    const int64_t strips = divide_up(left.count, int64_t{2}), lines = divide_up(kTileSide, strips);  // of a tile, in each step of a strip
    const int64_t* const offsets = left.offsets != nullptr ? left.offsets + piece.step : nullptr;
    const int64_t of_left = offsets != nullptr ? 0 : piece.step * left.step_bytes;
    for (int64_t i = 0; i < left.count; i += 2) {
      const int64_t fetched = i / 2 * lines * piece.steps * kTileRowBytes;
      multiply_tiles(
          numbers, {{left.tile(i) + of_left, i + 1 < left.count ? left.tile(i + 1) + of_left : nullptr},
                    {right_at(piece.column, piece.step), piece.column + 1 < last_column ? right_at(piece.column + 1, piece.step) : nullptr},
                    std::min(piece.steps, steps - piece.step),
                    sums + i * kTileSide * row,
                    row,
                    piece.step > 0,
                    {right_at(later.column, later.step) + fetched, right_at(later.column + 1, later.step) + fetched},
                    lines,
                    offsets,
                    0,
                    left.row_bytes,
                    left.step_bytes});
    }
  }
};

using Pack = void (*)(const TileMatrix&, int64_t, int64_t, int64_t, int64_t, std::byte*);
struct Packs {
  Pack left, right;
};
#define TOROID_PACKS(NAME, ATTRIBUTE)                                                                                            \
  template <class Element>                                                                                                       \
  struct NAME {                                                                                                                  \
    ATTRIBUTE static void left(const TileMatrix& a, int64_t first, int64_t rows, int64_t k, int64_t steps, std::byte* out) {     \
      pack_left<Element>(a, first, rows, k, steps, out);                                                                         \
    }                                                                                                                            \
    ATTRIBUTE static void right(const TileMatrix& b, int64_t first, int64_t columns, int64_t k, int64_t steps, std::byte* out) { \
      pack_right<Element>(b, first, columns, k, steps, out);                                                                     \
    }                                                                                                                            \
    static constexpr Packs kBoth = {left, right};                                                                                \
  };
TOROID_PACKS(Plain, )
#ifdef __x86_64__
TOROID_PACKS(Avx512, TOROID_AVX512)
#endif
#undef TOROID_PACKS

const Packs& packs_of(AmxType numbers) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return numbers == AmxType::BFloat16 ? Avx512<uint16_t>::kBoth : Avx512<uint8_t>::kBoth;
#endif
  return numbers == AmxType::BFloat16 ? Plain<uint16_t>::kBoth : Plain<uint8_t>::kBoth;
}

// The tiles [begin, end) of a side with `count` rows or columns.
void pack_tiles(Pack pack, const TileMatrix& matrix, int64_t begin, int64_t end, int64_t count, int64_t k, int64_t steps, std::byte* out) {
  for (int64_t tile = begin; tile < end && k > 0; ++tile) {
    pack(matrix, tile * kTileSide, std::min(kTileSide, count - tile * kTileSide), k, steps, out + tile * steps * kTileBytes);
  }
}

}  // namespace

int64_t packed_tiles_bytes(AmxType numbers, int64_t k, int64_t n) { return tiles_of(n) * steps_of(numbers, k) * kTileBytes; }

void pack_right_tiles(AmxType numbers, const TileMatrix& b, int64_t k, int64_t n, std::byte* out) {
  pack_tiles(packs_of(numbers).right, b, 0, tiles_of(n), n, k, steps_of(numbers, k), out);
}

void pack_right_tiles(AmxType numbers, RuntimePool& pool, const TileMatrix& b, int64_t k, int64_t n, std::byte* out) {
  pool.parallel_for(tiles_of(n), 1, [&](int64_t begin, int64_t end) {
    pack_tiles(packs_of(numbers).right, b, begin, end, n, k, steps_of(numbers, k), out);
  });
}

void pack_left_tiles(AmxType numbers, const TileMatrix& a, int64_t m, int64_t k, std::byte* out) {
  pack_tiles(packs_of(numbers).left, a, 0, tiles_of(m), m, k, steps_of(numbers, k), out);
}

void multiply_packed_tiles(AmxType numbers, int64_t m, int64_t n, int64_t k, const std::byte* left, const std::byte* right, int64_t right_k,
                           float* sums, int64_t row) {
  const int64_t steps = steps_of(numbers, k);
  const Product product = {numbers, steps, {left, tiles_of(m), steps * kTileBytes}, right, steps_of(numbers, right_k)};
  product.multiply(0, tiles_of(n), sums, row);
}

void multiply_tile_rows(AmxType numbers, const TileRows& rows, int64_t steps, const std::byte* right, int64_t first_column,
                        int64_t last_column, float* sums, int64_t row) {
  Product{numbers, steps, rows, right, steps}.multiply(first_column, last_column, sums, row);
}

namespace {

Scratch scratch_for_last_tiles;

// Are the rows tiles as they lie? Not where lines of two tiles' rows fall into one or two sets of the first-level cache, nor where rows are
// far apart, each in a page of its own: copies of the last ones lie as far apart. Bytes may be followed by others, which meet zeros: no
// floats, as these might be NaN.
bool lies_in_tiles(AmxType numbers, const TileMatrix& a, int64_t k) {
  constexpr int64_t kTwoSets = 2048, kMostDepths = 4;  // from a row to the next
  const int64_t bytes = bytes_of_element(numbers), row = a.row * bytes;
  const bool is_whole = k * bytes % kTileRowBytes == 0,
             is_near = row >= k * bytes && row <= kMostDepths * steps_of(numbers, k) * kTileRowBytes;
  return a.column == 1 && k > 0 && is_near && row % kTwoSets != 0 && (is_whole || (bytes == 1 && row >= kWordBytes));
}

// Rows of a matrix that are tiles as they lie. Of the last two, whose rows may be missing or end behind the matrix, there are copies.
class RowsInPlace {
 public:
  RowsInPlace(const TileMatrix& a, int64_t bytes_of_element, int64_t m, int64_t k)
      : data_(static_cast<const std::byte*>(a.data)),
        m_(m),
        row_bytes_(a.row * bytes_of_element),
        depth_bytes_(k * bytes_of_element),
        step_bytes_(divide_up(depth_bytes_, kTileRowBytes) * kTileRowBytes) {
    const bool is_whole = m % kTileSide == 0 && depth_bytes_ == step_bytes_;
    copied_ = is_whole ? tiles_of(m) : std::max<int64_t>(tiles_of(m) - 2, 0);
    if (!is_whole) copy_rows();
  }

  int64_t tile_bytes() const { return kTileSide * row_bytes_; }
  TilesInPlace tiles() const { return {data_, tile_bytes(), kTileSide * step_bytes_}; }
  TileRows of(const TileBlock& block) const {
    const int64_t first = (block.left - data_) / tile_bytes(), copied = std::clamp<int64_t>(copied_ - first, 0, block.row_tiles);
    const std::byte* const copies = copied < block.row_tiles ? copies_ + (first + copied - copied_) * tile_bytes() : nullptr;
    return {block.left, block.row_tiles, tile_bytes(), nullptr, row_bytes_, kTileRowBytes, copied, copies};
  }

 private:
  // Zeros behind them and below, unless a row begins there.
  void copy_rows() {
    const int64_t first = copied_ * kTileSide, last = tiles_of(m_) * kTileSide;
    auto* const copies = scratch_for_last_tiles.get<std::byte>((last - first - 1) * row_bytes_ + step_bytes_);
    for (int64_t i = first; i < last; ++i) {
      const int64_t some = i < m_ ? depth_bytes_ : 0;
      std::byte* const to = copies + (i - first) * row_bytes_;
      if (some > 0) std::memcpy(to, data_ + i * row_bytes_, static_cast<size_t>(some));
      std::memset(to + some, 0, static_cast<size_t>(step_bytes_ - some));
    }
    copies_ = copies;
  }

  const std::byte* data_;
  int64_t m_, row_bytes_, depth_bytes_, step_bytes_;  // step_bytes_: of a row, as tiles read it
  int64_t copied_;                                    // the first tile that is
  const std::byte* copies_ = nullptr;
};

template <class Pool>
void multiply_on(Pool& pool, AmxType numbers, int64_t m, int64_t n, int64_t k, const TileMatrix& a, const std::byte* packed,
                 const ProductOutput& out) {
  const int64_t steps = steps_of(numbers, k);
  const auto multiply = [&](const TileRows& rows, const TileBlock& block) {
    multiply_tile_rows(numbers, rows, steps, packed, block.first_column, block.last_column, block.sums, kPanelColumns);
  };
  if (m == 0 || !lies_in_tiles(numbers, a, k)) {
    const Pack pack_tile = packs_of(numbers).left;
    const auto pack = [&](int64_t first_row, int64_t rows, std::byte* out) { pack_tile(a, first_row, rows, k, steps, out); };
    const auto multiply_packed = [&](const TileBlock& block) { multiply({block.left, block.row_tiles, steps * kTileBytes}, block); };
    return for_each_tile_block(pool, m, n, steps * kTileBytes, pack, multiply_packed, out);
  }
  const RowsInPlace rows(a, bytes_of_element(numbers), m, k);
  for_each_block_in_place(
      pool, m, n, rows.tiles(), [&](const TileBlock& block) { multiply(rows.of(block), block); }, out);
}

}  // namespace

void multiply_in_tiles(AmxType numbers, RuntimePool& pool, int64_t m, int64_t n, int64_t k, const TileMatrix& a, const std::byte* packed,
                       const ProductOutput& out) {
  multiply_on(pool, numbers, m, n, k, a, packed, out);
}

void multiply_in_tiles(AmxType numbers, int64_t m, int64_t n, int64_t k, const TileMatrix& a, const std::byte* packed,
                       const ProductOutput& out) {
  const OneThread here;
  multiply_on(here, numbers, m, n, k, a, packed, out);
}

}  // namespace toroid
