#include "schedule/cuda/attention/late_row.h"

namespace toroid::schedule {
namespace {

// An element of an input, as it is or, where it is negative, counted from the end.
std::optional<LateRow> element_of_input(const loop::LoopProgram& program, ExprId index, sym::Expr size) {
  const loop::ExprTable& exprs = program.exprs;
  const auto compute = [&](ExprId id, ScalarOp op) {
    const auto* node = std::get_if<loop::Compute>(&exprs.node(id).op);
    return node != nullptr && node->op == op ? node : nullptr;
  };
  if (const loop::Compute* where = compute(index, ScalarOp::Where)) {
    const loop::Compute *less = compute(where->operands[0], ScalarOp::Lt), *sum = compute(where->operands[1], ScalarOp::Add);
    if (less == nullptr || sum == nullptr || less->operands[0] != where->operands[2] || sum->operands[0] != where->operands[2])
      return std::nullopt;
    const auto *zero = exprs.literal_as<sym::Expr>(less->operands[1]), *all = exprs.literal_as<sym::Expr>(sum->operands[1]);
    if (zero == nullptr || !zero->is_const(0) || all == nullptr || *all != size) return std::nullopt;
    index = where->operands[2];
  }
  const auto* load = std::get_if<loop::Load>(&exprs.node(index).op);
  if (load == nullptr) return std::nullopt;
  const loop::Buffer& buffer = program.buffer(load->buffer);
  if (buffer.kind != loop::BufferKind::Input || buffer.dtype != DType::I64 || buffer.on_host) return std::nullopt;
  sym::Expr offset = 0;
  for (size_t d = 0; d < load->index.size(); ++d) {
    if (!load->index[d].is_const()) return std::nullopt;
    offset = offset + load->index[d] * buffer.strides[d];
  }
  return LateRow{load->buffer, offset};
}

}  // namespace

std::optional<sym::Expr> symbol_of_row(const loop::LoopProgram& program, const ScatterKernel& scatter) {
  std::optional<sym::Expr> found;
  for (sym::Expr symbol : scatter.position.is_const() ? std::vector<sym::Expr>{} : sym::free_symbols(scatter.position)) {
    if (program.exprs.value_symbol(symbol) == nullptr) continue;
    if (found) return std::nullopt;
    found = symbol;
  }
  return found;
}

std::optional<LateRow> row_set_by(const loop::LoopProgram& program, const ScatterKernel& scatter, const loop::Operand& operand) {
  const loop::Buffer& out = program.buffer(scatter.out);
  if (scatter.ordered || scatter.mode != ScatterMode::Set || !loop::updates(out, program.buffer(scatter.base)) || out.on_host)
    return std::nullopt;
  if (operand.buffer != scatter.out || operand.sizes.size() != 4 || !operand.offset.is_const(0)) return std::nullopt;
  const sym::Expr rows = operand.sizes[2], row = operand.strides[2];
  if (!rows.is_const() || !row.is_const()) return std::nullopt;
  const int64_t all_rows = row.value() * rows.value();
  for (size_t d = 0; d < 2; ++d) {  // batches and heads: whole sets of rows, or parts of each row
    if (!sym::known_divisible(operand.strides[d], all_rows) && !sym::known_lt(operand.strides[d], row)) return std::nullopt;
  }
  const std::optional<sym::Expr> index = symbol_of_row(program, scatter);
  if (!index) return std::nullopt;
  const loop::ValueSymbol* const value = program.exprs.value_symbol(*index);
  const auto linear = sym::linear_in(scatter.position, *index);
  if (!linear || linear->coefficient != row || value->size != rows) return std::nullopt;
  const std::optional<LateRow> late = element_of_input(program, value->index, rows);
  sym::Expr rest = linear->rest;
  for (sym::Expr symbol : rest.is_const() ? std::vector<sym::Expr>{} : sym::free_symbols(rest)) {
    const auto its = sym::linear_in(rest, symbol);
    if (!its) return std::nullopt;
    if (sym::known_divisible(its->coefficient, all_rows)) rest = its->rest;  // of a head or of a batch
  }
  return sym::known_lt(rest, row) && sym::known_le(0, rest) ? late : std::nullopt;
}

}  // namespace toroid::schedule
