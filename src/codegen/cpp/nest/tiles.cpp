#include <algorithm>

#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/nest/nest_printer.h"

namespace toroid::codegen {

using loop::ExprId;
using schedule::kTileSide;

size_t NestPrinter::tile_number(ExprId id) const {
  const auto& list = kernel_.tiled_loads;
  return static_cast<size_t>(std::find(list.begin(), list.end(), id) - list.begin());
}

bool NestPrinter::is_backward(ExprId id) const {
  const auto step = sym::linear_in(std::get<loop::Load>(exprs_.node(id).op).index[0], *kernel_.tile);
  return step->coefficient.is_const(-1);
}

std::string NestPrinter::tile_place(ExprId id) {
  const size_t number = tile_number(id);
  if (number == kernel_.tiled_loads.size()) return {};
  const std::string row = name_of(*kernel_.tile);
  const std::string place = is_backward(id) ? "last_row - 1 - " + row : row + " - first_row";
  return fmt::format("tile{} + ({}) * {} + ({} - first)", number, place, kTileStride, vector_name());
}

NestPrinter::TilePlace NestPrinter::place_of_tile(ExprId id) {
  const auto& load = std::get<loop::Load>(exprs_.node(id).op);
  const auto jump = sym::linear_in(load.index[0], *vector_axis());
  const auto step = sym::linear_in(jump->rest, *kernel_.tile);
  return {storage_type(program_.buffer(load.buffer).dtype), body_.pointer(load.buffer, step->rest), factor(jump->coefficient),
          is_backward(id)};
}

void NestPrinter::print_place_of_tile(sym::Expr tiles, sym::Expr blocks, bool among_others, std::vector<std::string>& lines) {
  const std::string rows = index(tiles), columns = index(blocks), all = factor(tiles * blocks);
  auto tile_at = [&](std::string_view task) {
    return among_others ? fmt::format("tile_at({} % {}, {}, {})", task, all, rows, columns)
                        : fmt::format("tile_at({}, {}, {})", task, rows, columns);
  };
  lines.push_back(fmt::format("const TileAt tile = {};", tile_at("task")));
  lines.push_back(fmt::format("const int64_t first_row = tile.row * {};", kTileSide));
  lines.push_back(fmt::format("const int64_t last_row = min64(first_row + {}, {});", kTileSide, index(extent(*kernel_.tile))));
  if (among_others) lines.push_back(fmt::format("const int64_t rows = task / {};", all));
  if (!fetches_tiles()) return;
  lines.push_back(fmt::format("const TileAt next = {};", tile_at(among_others ? "(task + 1)" : "min64(task + 1, end - 1)")));
  lines.push_back(fmt::format("const int64_t next_row = next.row * {}, next_first = next.column * {};", kTileSide, kTileSide));
}

std::string NestPrinter::to_next_tile(sym::Expr position) {
  const sym::Expr row = sym::linear_in(position, *kernel_.tile)->coefficient;
  return fmt::format(" + (next_row - first_row) * {} + (next_first - first)", factor(row));
}

void NestPrinter::print_tiles() {
  for (size_t i = 0; i < kernel_.tiled_loads.size(); ++i) {
    const TilePlace place = place_of_tile(kernel_.tiled_loads[i]);
    text_.write(fmt::format("alignas(64) {} tile{}[{}];", place.storage_type, i, kTileSide * kTileStride));
    text_.write(fmt::format("turn_tile<{}>({} {} + first * {}, {}, last - first, last_row - first_row, tile{});", kTileStride, place.start,
                            place.is_backward ? "- (last_row - 1)" : "+ first_row", place.jump, place.jump, i));
  }
}

void NestPrinter::print_fetches_of_tiles(const std::string& row) {
  for (ExprId id : kernel_.tiled_loads) {
    const TilePlace place = place_of_tile(id);
    text_.write(fmt::format("fetch_run<{}>({} {} + (next_first + {} - first_row) * {});", kTileSide, place.start,
                            place.is_backward ? fmt::format("- (next_row + {})", kTileSide - 1) : "+ next_row", row, place.jump));
  }
}

}  // namespace toroid::codegen
