// What of a graph's values is in memory, and how others read it there: windows on buffers, views lowered once more, copies.
#include "lower/lowering.h"

#include <algorithm>

#include "lower/cost.h"
#include "lower/index_map.h"
#include "lower/layouts.h"

namespace toroid {

// What can be computed once is not computed again by those who use it.
void Lowering::prepare_inputs(const Node& node) {
  for (ValueId output : node.outputs) {
    if (constant_[static_cast<size_t>(output)] != Constancy::None) return;
  }
  const bool keeps_int8 = takes_int8(node), keeps_int4 = takes_int4(node);
  if (is_library(node.op, kAttentionOfScores)) {
    for (size_t i = 0; i < 3; ++i) read_from_memory(node.inputs[i]);
    return;
  }
  for (ValueId input : node.inputs) read_from_memory(input);
  const bool keeps_bytes = std::holds_alternative<Matmul>(node.op) && keeps_narrow_weights(node) &&
                           options_.narrow_weights == NarrowWeights::KeptForFewRows && weights_of_bytes(node);
  if (may_take_float8(node)) return;
  for (ValueId input : node.inputs) {
    const Constancy constancy = constant_[static_cast<size_t>(input)];
    if ((keeps_int4 || keeps_bytes) && input == node.inputs[1]) continue;
    if (constancy == Constancy::None || (keeps_int8 && (is_cast_from(input, DType::I8) || is_cast_from(input, DType::U8)))) continue;
    ValueId computed = input;
    while (!lowered(computed).buffer && is_view(graph_.producer(computed).op)) computed = graph_.producer(computed).inputs[0];
    if (lowered(computed).buffer) continue;
    const ExprCost cost = cost_of(exprs(), lowered(computed).value);
    // A position or a number costs less than to read what was made of it.
    if (cost.transcendental == 0 && (constancy == Constancy::Positions || cost.arithmetic == 0)) continue;
    realise(computed);
    if (computed != input) relower_view(input);
  }
}

// The value in memory.
BufferId Lowering::realise(ValueId id) {
  Lowered& value = lowered(id);
  if (value.buffer) return *value.buffer;
  const BufferId buffer = new_buffer(id);
  add_computation(loop::Map{value.axes, value.value}, {buffer}, value.provenance);
  define_buffer(id, buffer);
  return buffer;
}

// The value once more in memory, in this dtype and layout.
loop::Operand Lowering::copy_of(ValueId id, std::string_view suffix, DType type, std::vector<sym::Expr> strides) {
  const BufferId copy = prepared_if_constant(id, new_buffer(graph_.value(id).name + std::string(suffix), type, sizes(id)));
  loops_->buffer(copy).strides = strides;
  add_computation(loop::Map{lowered(id).axes, lowered(id).value}, {copy}, lowered(id).provenance);
  return {copy, sizes(id), std::move(strides), 0};
}

// The value in memory and contiguous, copied if its buffer (an input's) has other strides.
BufferId Lowering::contiguous(ValueId id) {
  const BufferId buffer = realise(id);
  const loop::Buffer& found = loops_->buffer(buffer);
  if (is_contiguous({buffer, found.sizes, found.strides, 0})) return buffer;
  return copy_of(id, "_contiguous", dtype(id), contiguous_strides(sizes(id))).buffer;
}

// The value as a strided window on some buffer; copies only where no such window exists.
loop::Operand Lowering::operand(ValueId id, bool must_be_contiguous) {
  if (!lowered(id).buffer && is_view(graph_.producer(id).op)) relower_view(id);
  if (const auto window = as_window(id); window && (!must_be_contiguous || is_contiguous(*window))) return *window;
  if (!must_be_contiguous) {
    if (shows_windows(id)) {
      realise(graph_.producer(id).inputs[0]);
      lower_view(graph_.producer(id));
      if (const auto window = as_window(id)) return *window;
    }
    const BufferId buffer = realise(id);
    return {buffer, sizes(id), loops_->buffer(buffer).strides, 0};
  }
  return {contiguous(id), sizes(id), contiguous_strides(sizes(id)), 0};
}

// Windows of a tensor whose dims were flattened, as im2col leaves them: they are copied before that, by loops without divisions.
bool Lowering::shows_windows(ValueId id) {
  const Node& view = graph_.producer(id);
  if (lowered(id).buffer || !std::holds_alternative<Reshape>(view.op) || lowered(view.inputs[0]).buffer) return false;
  return std::holds_alternative<Remap>(graph_.producer(view.inputs[0]).op) && sizes(view.inputs[0]).size() > sizes(id).size();
}

// What a chain of views shows: the nearest value that is in memory, else what it begins with.
ValueId Lowering::shown_by(ValueId id) {
  while (!lowered(id).buffer && is_view(graph_.producer(id).op)) id = graph_.producer(id).inputs[0];
  return id;
}

// Realises what a chain of views shows, then lowers the views over it again. With several users, the chain's last value that has them is
// realised instead, if it has all elements: each user then has a window of it, as the halves of an image whose channels were shuffled.
void Lowering::relower_view(ValueId id) {
  const ValueId shown = shown_by(id);
  ValueId in_memory = graph_.producer(id).inputs[0];
  while (in_memory != shown && !(uses_[static_cast<size_t>(in_memory)] > 1 && !lowered(shown).buffer &&
                                 sym::known_eq(graph_.type(in_memory).numel(), graph_.type(shown).numel()))) {
    in_memory = graph_.producer(in_memory).inputs[0];
  }
  realise(in_memory);
  lower_views(in_memory, id);
}

// Those of a chain from what is in memory to `id`.
void Lowering::lower_views(ValueId in_memory, ValueId id) {
  const Node& node = graph_.producer(id);
  if (node.inputs[0] != in_memory) lower_views(in_memory, node.inputs[0]);
  lower_view(node);
}

// A view that was lowered before what it shows came to be in memory would compute it again.
void Lowering::read_from_memory(ValueId id) {
  if (lowered(id).buffer || lowered(id).shows_memory || !is_view(graph_.producer(id).op) || cost_of(exprs(), lowered(id).value).is_cheap())
    return;
  const ValueId shown = shown_by(id);
  if (lowered(shown).buffer) lower_views(shown, id);
}

// The same for an expression over the value's axes, with elements of this dtype in memory.
std::optional<loop::Operand> Lowering::window_of(ValueId id, ExprId expr, DType in_memory) {
  const Lowered& value = lowered(id);
  const auto* load = std::get_if<loop::Load>(&exprs().node(expr).op);
  if (load == nullptr) return std::nullopt;
  const loop::Buffer& buffer = loops_->buffer(load->buffer);
  if (buffer.dtype != in_memory) return std::nullopt;
  sym::Expr position = 0;
  for (size_t d = 0; d < load->index.size(); ++d) position = position + load->index[d] * buffer.strides[d];
  loop::Operand window{load->buffer, sizes(id), {}, 0};
  for (sym::Expr axis : value.axes) {
    if (axis.is_const()) {
      window.strides.push_back(0);
      continue;
    }
    const auto linear = sym::linear_in(position, axis);
    if (!linear) return std::nullopt;
    window.strides.push_back(linear->coefficient);
    position = linear->rest;
  }
  for (sym::Expr stride : window.strides) {
    if (depends_on_axes(stride)) return std::nullopt;
  }
  if (depends_on_axes(position)) return std::nullopt;
  window.offset = position;
  return window;
}

bool Lowering::depends_on_axes(sym::Expr e) {
  if (e.is_const()) return false;
  for (sym::Expr symbol : sym::free_symbols(e)) {
    if (symbol.node()->symbol_kind == sym::SymbolKind::Axis || symbol.node()->symbol_kind == sym::SymbolKind::Value) return true;
  }
  return false;
}

bool Lowering::is_contiguous(const loop::Operand& window) {
  const std::vector<sym::Expr> expected = contiguous_strides(window.sizes);
  for (size_t d = 0; d < expected.size(); ++d) {
    if (!window.sizes[d].is_const(1) && !sym::known_eq(window.strides[d], expected[d])) return false;
  }
  return true;
}

// Of large values, which then need no memory of their own.
bool Lowering::is_read_again_from_elsewhere(ValueId id) {
  const int64_t least = options_.least_recomputed_bytes / size_bytes(dtype(id));
  if (needs_memory_[static_cast<size_t>(id)] || sym::evaluate_hint(graph_.type(id).numel()) < least) return false;
  const Lowered& value = lowered(id);
  return reads_as_little(*loops_, value.axes, value.value) ||
         (options_.recomputes_functions && is_function_of_narrower(*loops_, value.axes, value.value));
}

void Lowering::realise_if_worth_it(ValueId id) {
  if (lowered(id).buffer) return;
  const ExprCost cost = cost_of(exprs(), lowered(id).value);
  const int uses = uses_[static_cast<size_t>(id)];
  if (cost.nodes > kMaxNodes || (uses > 1 && !cost.is_cheap() && !is_read_again_from_elsewhere(id))) realise(id);
}

// A total in double that is rounded: who reads it often reads it rounded, lest its vectors have half as many lanes.
bool Lowering::is_rounded_total(ValueId id) const {
  if (!std::holds_alternative<Cast>(graph_.producer(id).op) || dtype(id) != DType::F32) return false;
  do id = graph_.producer(id).inputs[0];
  while (is_view(graph_.producer(id).op));
  const auto* reduce = std::get_if<Reduce>(&graph_.producer(id).op);
  return reduce != nullptr && dtype(id) == DType::F64;
}

// Views that read an element several times should not compute it several times.
void Lowering::realise_before_repeating(ValueId input, sym::Expr elements_out) {
  if (lowered(input).buffer) return;
  if (cost_of(exprs(), lowered(input).value).is_cheap() && !is_rounded_total(input)) return;
  if (sym::known_le(elements_out, graph_.type(input).numel())) return;
  realise(input);
}

}  // namespace toroid
