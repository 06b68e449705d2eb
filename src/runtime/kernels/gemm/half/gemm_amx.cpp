// Both sides are copied into the order in which tiles are read. A part of the depth of two tiles of columns stays in the first-level cache
// while a block's rows, which stay in the second, pass by.
#include "runtime/kernels/gemm/half/gemm_amx.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/gemm/half/amx_blocks.h"
#include "runtime/kernels/gemm/packed_b.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

int64_t element_bytes(AmxType numbers) { return numbers == AmxType::BFloat16 ? 2 : 1; }
int64_t steps_of(AmxType numbers, int64_t k) { return (k * element_bytes(numbers) + kTileRowBytes - 1) / kTileRowBytes; }

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

  // All tiles of rows with those of columns [first_column, last_column).
  void multiply(int64_t first_column, int64_t last_column, float* sums, int64_t row) const {
    // What of the right side comes next is fetched while all rows meet what is here: it is in memory more often than in a cache.
    const int64_t strips = (left.count + 1) / 2;
    const int64_t lines = (kTileSide + strips - 1) / strips;  // of a tile, in each step of a strip
    for (int64_t done = 0; done == 0 || done < steps; done += kPartSteps) {
      const int64_t* offsets = left.offsets != nullptr ? left.offsets + done : nullptr;
      const std::byte* rows = left.data + (offsets != nullptr ? 0 : done * kTileBytes);
      for (int64_t j = first_column; j < last_column; j += 2) {
        const bool is_last_column = j + 2 >= last_column, is_last = is_last_column && done + kPartSteps >= steps;
        const int64_t next_column = is_last || !is_last_column ? j + 2 : first_column;
        const int64_t next_step = is_last ? 0 : is_last_column ? done + kPartSteps : done;
        for (int64_t i = 0; i < left.count; i += 2) {
          const int64_t offset = i / 2 * lines * kPartSteps * kTileRowBytes;
          const std::byte* first = rows + i * left.tile_bytes;
          multiply_tiles(numbers, {{first, i + 1 < left.count ? first + left.tile_bytes : nullptr},
                                   {right_at(j, done), j + 1 < last_column ? right_at(j + 1, done) : nullptr},
                                   std::min(kPartSteps, steps - done),
                                   sums + i * kTileSide * row + (j - first_column) * kTileSide,
                                   row,
                                   done > 0,
                                   {right_at(next_column, next_step) + offset, right_at(next_column + 1, next_step) + offset},
                                   lines,
                                   offsets});
        }
      }
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

void multiply_in_tiles(AmxType numbers, RuntimePool& pool, int64_t m, int64_t n, int64_t k, const TileMatrix& a, const std::byte* packed,
                       const ProductOutput& out) {
  const int64_t steps = steps_of(numbers, k);
  const Pack pack_tile = packs_of(numbers).left;
  auto pack = [&](int64_t first_row, int64_t rows, std::byte* out) { pack_tile(a, first_row, rows, k, steps, out); };
  auto multiply = [&](const TileBlock& block) {
    const TileRows rows = {block.left, block.row_tiles, steps * kTileBytes};
    multiply_tile_rows(numbers, rows, steps, packed, block.first_column, block.last_column, block.sums, kPanelColumns);
  };
  for_each_tile_block(pool, m, n, steps * kTileBytes, pack, multiply, out);
}

}  // namespace toroid
