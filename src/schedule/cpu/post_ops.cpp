#include "schedule/cpu/post_ops.h"

#include <algorithm>
#include <cmath>

#include "schedule/cpu/loops.h"
#include "schedule/fusion/group.h"

namespace toroid::schedule {
namespace {

class Match {
 public:
  Match(const loop::LoopProgram& program, const Kernel& epilogue) : program_(program), exprs_(program.exprs), kernel_(epilogue) {}

  std::optional<PostOps> run() {
    if (kernel_.stages[0].statements.size() != 1) return std::nullopt;
    const Store& store = std::get<Store>(kernel_.stages[0].statements[0]);
    const DType dtype = program_.buffer(store.buffer).dtype;
    const auto out = place_of(store.buffer, store.position);
    if (!out || (dtype != DType::F32 && !is_reduced_float(dtype))) return std::nullopt;
    PostOps result = {.out = *out};
    return take_terms(take_bounds(store.value, result), result) ? std::optional(result) : std::nullopt;
  }

 private:
  using Place = PostOps::Place;

  const loop::Compute* compute(ExprId id, ScalarOp op) const {
    const auto* found = std::get_if<loop::Compute>(&exprs_.node(id).op);
    return found != nullptr && found->op == op && exprs_.dtype(id) == DType::F32 ? found : nullptr;
  }

  // The number that an extremum of something and a number has.
  std::optional<float> bound(ExprId id, ScalarOp op) const {
    const loop::Compute* found = compute(id, op);
    const auto* value = found == nullptr ? nullptr : exprs_.literal_as<double>(found->operands[1]);
    return value == nullptr || std::isnan(*value) ? std::nullopt : std::optional(static_cast<float>(*value));
  }
  ExprId first_operand(ExprId id) const { return std::get<loop::Compute>(exprs_.node(id).op).operands[0]; }

  // What there is without the bounds.
  ExprId take_bounds(ExprId value, PostOps& result) const {
    if (const auto high = bound(value, ScalarOp::Min)) {
      result.high = *high;
      value = first_operand(value);
    }
    if (const auto low = bound(value, ScalarOp::Max)) {
      result.low = *low;
      value = first_operand(value);
    }
    return value;
  }

  // value = product [* scale] [+ bias] [+ residual].
  bool take_terms(ExprId value, PostOps& result) const {
    std::vector<Place> terms;  // the one that is added last first
    for (const loop::Compute* sum = compute(value, ScalarOp::Add); sum != nullptr; sum = compute(value, ScalarOp::Add)) {
      std::optional<Place> term = place_of(sum->operands[1]);
      value = sum->operands[term ? 0 : 1];
      if (!term) term = place_of(sum->operands[0]);
      if (!term || terms.size() == 2) return false;
      terms.push_back(*term);
    }
    if (!terms.empty() && is_of_columns(terms.back())) {
      result.bias = terms.back();
      terms.pop_back();
    }
    if (terms.size() == 2) return false;
    if (!terms.empty()) result.residual = terms[0];
    if (const loop::Compute* product = compute(value, ScalarOp::Mul)) {
      result.scale = place_of(product->operands[1]);
      value = product->operands[result.scale ? 0 : 1];
      if (!result.scale) result.scale = place_of(product->operands[0]);
      if (!result.scale || !is_of_columns(*result.scale)) return false;
    }
    return value == *kernel_.product;
  }

  static bool is_of_columns(const Place& place) { return place.row.is_const(0); }

  // Of what is loaded beside the product.
  std::optional<Place> place_of(ExprId id) const {
    const auto* load = std::get_if<loop::Load>(&exprs_.node(id).op);
    if (load == nullptr || id == *kernel_.product || program_.buffer(load->buffer).dtype != DType::F32) return std::nullopt;
    return place_of(load->buffer, load->index[0]);
  }

  // Where columns are next to each other and rows equally far apart.
  std::optional<Place> place_of(BufferId buffer, sym::Expr position) const {
    if (!only_axes_and_sizes(position)) return std::nullopt;
    const auto columns = sym::linear_in(position, kernel_.outer.back());
    if (!columns || !columns->coefficient.is_const(1)) return std::nullopt;
    Place place = {buffer, columns->rest};
    std::optional<sym::Expr> expected;
    for (size_t i = kernel_.outer.size() - 1; i-- > 0;) {
      const sym::Expr axis = kernel_.outer[i];
      const auto step = sym::linear_in(place.offset, axis);
      if (!step || has_axes(step->coefficient) || (expected && !sym::known_eq(step->coefficient, *expected))) return std::nullopt;
      if (!expected) place.row = step->coefficient;
      expected = step->coefficient * *axis.node()->extent;
      place.offset = step->rest;
    }
    return has_axes(place.offset) ? std::nullopt : std::optional(place);
  }

  static bool has_axes(sym::Expr e) {
    if (e.is_const()) return false;
    const std::vector<sym::Expr> symbols = sym::free_symbols(e);
    return std::any_of(symbols.begin(), symbols.end(), [](sym::Expr s) { return s.node()->symbol_kind == sym::SymbolKind::Axis; });
  }

  const loop::LoopProgram& program_;
  const loop::ExprTable& exprs_;
  const Kernel& kernel_;
};

}  // namespace

std::optional<PostOps> post_ops_of(const loop::LoopProgram& program, const CallStep& step) {
  std::optional<PostOps> found = Match(program, *step.epilogue).run();
  // Products in blocks are rounded in them, which the program's code does as well.
  const bool is_rounded = found && is_reduced_float(program.buffer(found->out.buffer).dtype);
  return is_rounded && !is_depthwise(step.call) ? std::nullopt : found;
}

}  // namespace toroid::schedule
