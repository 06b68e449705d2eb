#include "program/late_row.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "symbolic/expr.h"

namespace toroid::program {
namespace {

using schedule::ScatterKernel;

// What writes the buffer, if it is a scatter that sets elements of a constant which it is the new value of, and nothing else writes it.
const ScatterKernel* only_update(const schedule::ScheduledGraph& graph, BufferId id) {
  const loop::LoopProgram& loops = *graph.schedule.loops;
  const ScatterKernel* found = nullptr;
  int64_t writers = 0;
  const auto look_at = [&](const schedule::Step& step, const ScatterKernel* scatter) {
    const std::vector<BufferId> written = schedule::writes_of(step);
    writers += std::count(written.begin(), written.end(), id);
    if (scatter != nullptr && scatter->out == id) found = scatter;
  };
  for (const schedule::Step& step : graph.schedule.steps) {
    const auto* group = std::get_if<schedule::ParallelKernels>(&step);
    if (group == nullptr) {
      look_at(step, std::get_if<ScatterKernel>(&step));
      continue;
    }
    for (const schedule::ParallelKernel& each : group->kernels)
      std::visit([&](const auto& kernel) { look_at(schedule::Step(kernel), std::get_if<ScatterKernel>(&each)); }, each);
  }
  const bool is_update = found != nullptr && writers == 1 && !found->ordered && found->mode == ScatterMode::Set &&
                         loop::updates(loops.buffer(id), loops.buffer(found->base)) && !loops.buffer(id).on_host;
  return is_update ? found : nullptr;
}

// An element of an input, as it is or, where it is negative, counted from the end.
std::optional<LateRow> element_of_input(const loop::LoopProgram& loops, loop::ExprId index, sym::Expr size) {
  const loop::ExprTable& exprs = loops.exprs;
  const auto compute = [&](loop::ExprId id, ScalarOp op) {
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
  const loop::Buffer& buffer = loops.buffer(load->buffer);
  if (buffer.kind != loop::BufferKind::Input || buffer.dtype != DType::I64 || buffer.on_host) return std::nullopt;
  sym::Expr offset = 0;
  for (size_t d = 0; d < load->index.size(); ++d) {
    if (!load->index[d].is_const()) return std::nullopt;
    offset = offset + load->index[d] * buffer.strides[d];
  }
  return LateRow{load->buffer, offset};
}

// The row, where all that the scatter writes is in it.
std::optional<LateRow> row_written(const schedule::ScheduledGraph& graph, const Operand& operand) {
  const loop::LoopProgram& loops = *graph.schedule.loops;
  const ScatterKernel* const scatter = only_update(graph, operand.buffer);
  if (scatter == nullptr || operand.sizes.size() != 4 || !operand.offset.is_const(0)) return std::nullopt;
  const sym::Expr rows = operand.sizes[2], row = operand.strides[2];
  if (!rows.is_const() || !row.is_const()) return std::nullopt;
  const int64_t all_rows = row.value() * rows.value();
  for (size_t d = 0; d < 2; ++d) {  // batches and heads: whole sets of rows, or parts of each row
    if (!sym::known_divisible(operand.strides[d], all_rows) && !sym::known_lt(operand.strides[d], row)) return std::nullopt;
  }
  sym::Expr rest = scatter->position;
  std::optional<LateRow> late;
  for (sym::Expr symbol : sym::free_symbols(scatter->position)) {
    const auto linear = sym::linear_in(rest, symbol);
    if (!linear) return std::nullopt;
    if (const loop::ValueSymbol* value = loops.exprs.value_symbol(symbol)) {
      if (late || linear->coefficient != row || value->size != rows) return std::nullopt;
      late = element_of_input(loops, value->index, rows);
      if (!late) return std::nullopt;
      rest = linear->rest;
    } else if (sym::known_divisible(linear->coefficient, all_rows)) {
      rest = linear->rest;  // of a head or of a batch
    }
  }
  return sym::known_lt(rest, row) && sym::known_le(0, rest) ? late : std::nullopt;
}

}  // namespace

std::optional<LateRow> late_row(const schedule::ScheduledGraph& graph, const LibraryCall& call) {
  const std::optional<LateRow> of_keys = row_written(graph, call.inputs[1]), of_values = row_written(graph, call.inputs[2]);
  return of_keys && of_keys == of_values && call.inputs[1].sizes[2] == call.inputs[2].sizes[2] ? of_keys : std::nullopt;
}

}  // namespace toroid::program
