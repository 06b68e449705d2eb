#include "schedule/cuda/products/grouped_product.h"

#include <algorithm>

namespace toroid::schedule {
namespace {

constexpr int kPiece = 8;  // elements of 16 bytes
constexpr int64_t kMost = (int64_t{1} << 31) - 1;

bool fits_32_bits(sym::Expr size) { return sym::known_le(size, kMost); }

// Is it contiguous along `dim`, in pieces that are whole, and do the other dims' steps keep that?
bool is_operand_in_pieces(const loop::Operand& operand, size_t dim) {
  if (!operand.strides[dim].is_const(1) || !sym::known_divisible(operand.sizes[dim], kPiece)) return false;
  for (size_t d = 0; d < operand.sizes.size(); ++d) {
    if (d != dim && !operand.sizes[d].is_const(1) && !sym::known_divisible(operand.strides[d], kPiece)) return false;
  }
  return sym::known_divisible(operand.offset, kPiece);
}

}  // namespace

std::string_view grouped_choice(const loop::LoopProgram& program, const CallStep& step, bool inputs_are_aligned) {
  const auto* library = std::get_if<Library>(&step.call.op);
  if (library == nullptr || library->name != "products.grouped") return "";
  const loop::Operand &x = step.call.operands[0], &y = step.call.operands[1], &ends = step.call.operands[2];
  if (x.sizes.size() != 2 || !is_reduced_float(program.buffer(x.buffer).dtype)) return "";
  for (const loop::Operand* each : {&x, &y}) {
    if (!inputs_are_aligned && program.buffer(each->buffer).kind == loop::BufferKind::Input) return "";
    if (!std::ranges::all_of(each->sizes, fits_32_bits)) return "";
  }
  const bool is_contiguous = ends.strides[0].is_const(1) || ends.sizes[0].is_const(1);
  const bool by_depth = y.sizes.size() == 2;
  const bool has_pieces = by_depth ? is_operand_in_pieces(x, 0) && is_operand_in_pieces(y, 1)
                                   : is_operand_in_pieces(x, 1) && (is_operand_in_pieces(y, 1) || is_operand_in_pieces(y, 2));
  return is_contiguous && has_pieces ? kGroupedProduct : "";
}

// The ring, where the sums are put afterwards.
int64_t GroupedTiles::shared_bytes() const {
  constexpr int64_t kAlignment = 1024, kLineBytes = 128, kPadding = 8;
  return kAlignment + std::max(stages * (rows + columns) * kLineBytes, rows * (columns + kPadding) * 4);
}

// Few rows a group leave large tiles empty.
GroupedTiles grouped_tiles(sym::Expr rows, sym::Expr groups, sym::Expr columns, bool by_depth) {
  const int64_t of_group = sym::evaluate_hint(rows) / (by_depth ? 1 : std::max<int64_t>(sym::evaluate_hint(groups), 1));
  return {.rows = of_group > 64 ? 128 : 64, .columns = sym::evaluate_hint(columns) <= 64 ? 64 : 128, .stages = 3};
}

sym::Expr blocks_of(const GroupedTiles& tiles, sym::Expr rows, sym::Expr groups, sym::Expr columns, bool by_depth) {
  const sym::Expr of_rows = by_depth ? sym::ceil_div(rows, tiles.rows) * groups : sym::floor_div(rows, tiles.rows) + groups + 1;
  return of_rows * sym::ceil_div(columns, tiles.columns);
}

}  // namespace toroid::schedule
