// Matrix products that a kernel of the program's own makes on a GPU's tensor cores: which ones, and in what tiles.
//
// Such a kernel reads both sides by TMA, which wants matrices whose rows or columns lie contiguously, from multiples of 16 bytes on. Other
// products are the library's, and what follows them is a kernel of its own.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

inline constexpr int kProductThreads = 384;  // of a block: a warpgroup that loads and two that multiply
inline constexpr int kTileDepth = 64;        // what a stage of the ring has of both sides' rows of 16-bit floats: 128 bytes
inline constexpr int kMostSharedBytes = 232448;

enum class Factors : uint8_t { Floats16, Int8, Floats32, Floats8 };
enum class RightNumbers : uint8_t { OfLeft, Int8, E4M3, E5M2, Int4 };

// A batch of products [rows, depth] x [depth, columns] of 16-bit floats, or of the bits of 8-bit floats in F32
// (lower/products/float8_factors.h), or, of few rows, of int8 in I32 and of float32.
// Batches are two dims, the outer one of batches / inner_batches.
struct ProductShape {
  sym::Expr rows = 1, columns = 1, depth = 1, inner_batches = 1, batches = 1;
  struct Side {
    BufferId buffer = {};
    sym::Expr offset = 0;
    bool transposed = false;                       // neighbours in memory are neighbours in a column
    sym::Expr stride = 0;                          // from one contiguous row, or column, to the next
    sym::Expr inner_stride = 0, outer_stride = 0;  // from batch to batch: 0 where all have the same matrix
  };
  Side a = {}, b = {};
  // Of a dual product, whose left side meets two right sides of one size: the other one, which lies as `b` does. `columns` are those of one
  // result; a tile has as many of both, half of its columns each.
  std::optional<Side> second = {};
  Factors factors = Factors::Floats16;
  bool left_e5m2 = false, right_e5m2 = false;  // of Floats8: that they are F8E5M2
  // What the right side's columns, which are contiguous, are made of, if not of the left side's dtype: for products of few rows only. Of
  // four bits, `group` of the depth have one scale and zero in each column, which lie beside each other in `scales`, and the right side's
  // stride is in bytes.
  RightNumbers numbers = RightNumbers::OfLeft;
  bool is_packed = false;        // of four bits: chunks of sixteen columns by 128 of the depth, and their scales, are contiguous
  bool is_for_few_rows = false;  // there are no other tiles for its dtypes
  BufferId scales = {};
  int64_t group = 0;
};
int tile_depth(const ProductShape& shape);
// Columns of a result that are in a tile.
int result_columns(const ProductShape& shape, const GpuTiles& tiles);
bool is_dual_product(const loop::Call& call);
struct ProductAttempt {
  std::optional<ProductShape> shape;
  std::string_view reason = {};  // without a shape: why
};
// `inputs_are_aligned`: to 16 bytes; what the program itself allocates is.
ProductAttempt as_product_of_tiles(const loop::LoopProgram& program, const loop::Call& call, const std::vector<BufferId>& outputs,
                                   bool inputs_are_aligned = true);

// Of a block's shared memory.
int shared_bytes_of(const GpuTiles& tiles);
// Blocks: a cluster's tiles lie under each other.
sym::Expr blocks_of(const ProductShape& shape, const GpuTiles& tiles);

// What an epilogue costs.
struct EpilogueWork {
  double bytes = 0;       // of memory for each element of the product, but the product itself
  double operations = 0;  // for each element
  double loads = 0;       // for each element, of tensors as large as the product
};
// Tiles that a product may have, and how long they take by an estimate from the sizes' hints. `work`: of its epilogue, if it has one.
struct TilesEstimate {
  GpuTiles tiles;
  double seconds;
};
// May a dual product have them?
bool are_dual_tiles(const ProductShape& shape, const GpuTiles& tiles);
std::vector<TilesEstimate> estimated_tiles(const ProductShape& shape, const std::optional<EpilogueWork>& work);
// The same of the library's product, with no epilogue.
double seconds_of_library(const ProductShape& shape);
// The quickest tiles by an estimate from the sizes' hints; none where the library is quicker, with a kernel behind it that does the
// epilogue's work.
std::optional<GpuTiles> choose_tiles(const ProductShape& shape, const std::optional<EpilogueWork>& work);

// Are the right side's columns permuted in shared memory, so that threads have sums of eight neighbours in registers? They need no exchange
// in shared memory then, whose bandwidth tensor cores take nearly all of. But an epilogue's text is there for each eight: it may have few
// operations, and a warpgroup has enough rows for what is loaded of columns. TMA permutes only contiguous columns, of one matrix for all
// batches; 16-bit floats only. `work`: of the epilogue, if there is one.
bool has_permuted_columns(const ProductShape& shape, const GpuTiles& tiles, const std::optional<EpilogueWork>& work);

// Seconds of a product in the quickest tiles, or by the library where that is quicker; of a dual one in tiles alone.
double seconds_of_quickest(const ProductShape& shape, const std::optional<EpilogueWork>& work);

// One side as the kernel's tensor map: four dims, the contiguous one first, and the box that one load brings. Of images (im2col) also where
// its pixels lie, along columns and rows; else `steps` are 0.
struct TensorMap {
  BufferId buffer;
  sym::Expr offset;
  std::array<sym::Expr, 4> sizes, strides;
  std::array<int, 4> box;
  std::array<sym::Expr, 2> lower = {0, 0}, upper = {0, 0}, steps = {0, 0};
};
// Of the left side, the right one, and the second right one of a dual product.
std::vector<TensorMap> tensor_maps(const ProductShape& shape, const GpuTiles& tiles, bool permuted);

}  // namespace toroid::schedule
