#include "codegen/triton/triton_tile.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "codegen/cpp/print_index.h"
#include "codegen/triton/triton_scalar.h"
#include "schedule/axes.h"
#include "support/match.h"

namespace toroid::codegen {
namespace {

constexpr int64_t kMostOfRow = 16384;  // elements of a tile that is a whole row
constexpr int64_t kPiece = 2048;       // … and of a piece of a longer one
constexpr int64_t kElementsOfTile = 1024;
// By measurements on an H200: a thread has so many elements of a whole row, of a tile without reductions, and of other tiles.
constexpr int64_t kElementsOfRowWarp = 32 * 32, kElementsOfMapWarp = 32 * 16, kElementsOfWarp = 32 * 8;
// Of a tile whose rows lie beside each other: so many elements, of rows that fill a line of memory.
constexpr int64_t kElementsOfColumns = 8192;
constexpr int64_t kMostColumns = 64, kFewestColumns = 32;
constexpr int64_t kSquare = 64;  // a side of a tile that is read along one axis and written along another

int64_t next_power_of_two(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1)))); }

// All but whether tiles are whole.
TritonTile sizes_of_tile(const schedule::Kernel& kernel, bool in_squares) {
  TritonTile tile;
  tile.rows = schedule::product_of_extents(kernel.outer);
  tile.length = schedule::product_of_extents(kernel.inner);
  tile.in_squares = in_squares;
  if (in_squares) {
    tile.row_count = tile.width = kSquare;
    return tile;
  }
  if (kernel.inner.empty()) {
    tile.row_count = kElementsOfTile;
    return tile;
  }
  const bool is_known = tile.length.is_const();
  if (kernel.gpu->columns) {  // rows lie beside each other
    const bool are_many = tile.rows.is_const() && tile.rows.value() >= kMostColumns * kTritonPrograms;
    tile.row_count = are_many ? kMostColumns : kFewestColumns;
    tile.width = std::min(next_power_of_two(is_known ? tile.length.value() : kElementsOfColumns), kElementsOfColumns / tile.row_count);
    tile.is_looped = !(is_known && tile.length.value() <= tile.width);
  } else {
    tile.is_looped = !(is_known && tile.length.value() <= kMostOfRow);
    tile.width = tile.is_looped ? kPiece : next_power_of_two(tile.length.value());
    tile.row_count = std::max<int64_t>(1, kElementsOfTile / tile.width);
  }
  if (tile.is_looped && !kernel.stashes.empty()) throw NotInTriton("a row that is kept and does not fit a tile");
  return tile;
}

}  // namespace

TritonTile triton_tile(const schedule::Kernel& kernel, bool in_squares) {
  TritonTile tile = sizes_of_tile(kernel, in_squares);
  const auto divides = [](sym::Expr size, int64_t by) { return size.is_const() && size.value() > 0 && size.value() % by == 0; };
  tile.fills_rows = divides(tile.rows, tile.row_count);
  tile.fills_elements = kernel.inner.empty() || divides(tile.length, tile.width);
  return tile;
}

bool gives_place(const schedule::Kernel& kernel, const schedule::Accumulate& accumulate) {
  const ReduceOp op = kernel.accumulators[static_cast<size_t>(accumulate.accumulator)].op;
  return op == ReduceOp::ArgMin || op == ReduceOp::ArgMax;
}

void narrow_indices(TritonTile& tile, const loop::ExprTable& exprs, const schedule::Kernel& kernel, bool has_sizes,
                    std::vector<loop::ExprId> values, std::vector<sym::Expr> places) {
  for (const schedule::Stage& stage : kernel.stages) {
    if (stage.condition) values.push_back(*stage.condition);
    for (const schedule::Statement& statement : stage.statements) {
      match(
          statement, [&](const schedule::Store& s) { values.push_back(s.value), places.push_back(s.position); },
          [&](const schedule::Accumulate& s) {
            values.push_back(s.value);
            if (gives_place(kernel, s)) places.push_back(s.position);
          },
          [&](const schedule::Keep& s) { values.push_back(s.value); });
    }
  }
  for (const loop::ExprId id : loop::reachable(exprs, values)) {
    const loop::ExprOp& op = exprs.node(id).op;
    if (const auto* load = std::get_if<loop::Load>(&op)) places.push_back(load->index[0]);
    if (const auto* index = std::get_if<loop::Index>(&op)) places.push_back(index->value);
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto is_short = [&](sym::Expr size, int64_t of_tile) { return size.is_const() && size.value() <= kMost - of_tile; };
  const bool is_narrow =
      !has_sizes && is_short(tile.rows, tile.row_count) && is_short(tile.length, tile.width) && std::ranges::all_of(places, fits_32_bits);
  tile.index_type = is_narrow ? "tl.int32" : "tl.int64";
}

int triton_warps(const schedule::Kernel& kernel, const TritonTile& tile) {
  if (kernel.gpu->triton_warps > 0) return kernel.gpu->triton_warps;
  const bool is_row = !kernel.accumulators.empty() && !tile.is_looped && !kernel.gpu->columns;
  const bool is_map = kernel.inner.empty() || tile.in_squares;
  const int64_t warps = tile.row_count * tile.width / (is_row ? kElementsOfRowWarp : is_map ? kElementsOfMapWarp : kElementsOfWarp);
  constexpr uint64_t kFewestWarps = 2, kMostWarps = 16;
  return static_cast<int>(std::clamp(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(warps, 1))), kFewestWarps, kMostWarps));
}

}  // namespace toroid::codegen
