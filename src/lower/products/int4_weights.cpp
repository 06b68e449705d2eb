#include "lower/products/int4_weights.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "graph/builder.h"
#include "lower/index_map.h"

namespace toroid {
namespace {

ValueId behind_views(const Graph& graph, ValueId id) {
  while (is_view(graph.producer(id).op)) id = graph.producer(id).inputs[0];
  return id;
}

// What was rounded stays so in whatever takes it (Bitcast to its own dtype).
bool keeps_rounding(const Graph& graph, const Node& node) {
  return std::holds_alternative<Bitcast>(node.op) && graph.type(node.inputs[0]).dtype == graph.type(node.outputs[0]).dtype;
}

// The number that all elements are.
std::optional<int64_t> number_everywhere(const Graph& graph, ValueId id) {
  const auto* full = std::get_if<Full>(&graph.producer(behind_views(graph, id)).op);
  const auto* value = full != nullptr ? std::get_if<sym::Expr>(&full->value) : nullptr;
  return value != nullptr ? value->try_value() : std::nullopt;
}

// Are the integers from 0 to 15?
bool are_four_bits(const Graph& graph, ValueId id) {
  const Node& node = graph.producer(behind_views(graph, id));
  const auto is_integer = [&](ValueId value) { return is_integral(graph.type(value).dtype); };
  if (!is_integer(node.outputs[0])) return false;
  if (std::holds_alternative<Cast>(node.op)) return is_integer(node.inputs[0]) && are_four_bits(graph, node.inputs[0]);
  if (std::holds_alternative<Cat>(node.op))
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return are_four_bits(graph, input); });
  const auto* pointwise = std::get_if<Pointwise>(&node.op);
  if (pointwise == nullptr || node.inputs.size() != 2) return false;
  const std::optional<int64_t> second = number_everywhere(graph, node.inputs[1]);
  if (pointwise->op == ScalarOp::BitAnd) return second && *second >= 0 && *second <= 15;
  return pointwise->op == ScalarOp::ShiftRight && graph.type(node.inputs[0]).dtype == DType::U8 && second && *second >= 4 && *second < 8;
}

// Which values are made of numbers of four bits; each is asked about once, however many ways lead to it.
class Finder {
 public:
  Finder(const Graph& graph, bool may_round) : graph_(graph), may_round_(may_round) {}

  bool holds(ValueId id) {
    const auto [known, is_new] = known_.try_emplace(id, false);
    if (is_new) known_[id] = find(behind_views(graph_, id));
    return known_[id];
  }

  // The operand of a sum, difference or product that has the numbers.
  std::optional<size_t> operand_with_numbers(const Node& node) {
    const auto* pointwise = std::get_if<Pointwise>(&node.op);
    if (pointwise == nullptr) return std::nullopt;
    if (pointwise->op != ScalarOp::Add && pointwise->op != ScalarOp::Sub && pointwise->op != ScalarOp::Mul) return std::nullopt;
    const DType dtype = graph_.type(node.outputs[0]).dtype;
    if (dtype == DType::F64 || is_complex(dtype)) return std::nullopt;
    for (const size_t i : {0, 1}) {
      if (!holds(node.inputs[i])) continue;
      if (is_floating(dtype)) return i;
      // One sum of integers with a sign, so that nothing wraps.
      const std::optional<int64_t> other = number_everywhere(graph_, node.inputs[1 - i]);
      const bool is_sum = pointwise->op != ScalarOp::Mul && is_signed(dtype) && are_four_bits(graph_, node.inputs[i]);
      if (is_sum && other && *other >= 0 && *other <= 16) return i;
    }
    return std::nullopt;
  }

 private:
  bool find(ValueId id) {
    const Node& node = graph_.producer(id);
    if (are_four_bits(graph_, id)) return true;
    if (keeps_rounding(graph_, node)) return holds(node.inputs[0]);
    if (!std::holds_alternative<Cast>(node.op)) return operand_with_numbers(node).has_value();
    const DType from = graph_.type(node.inputs[0]).dtype, to = graph_.type(id).dtype;
    const bool keeps_integer = is_integral(from) && is_integral(to) && is_signed(to), rounds = is_reduced_float(to) && is_floating(from);
    const bool makes_float = (to == DType::F32 || is_reduced_float(to)) && from != DType::F64 && (may_round_ || !rounds);
    return (keeps_integer || makes_float) && holds(node.inputs[0]);
  }

  const Graph& graph_;
  const bool may_round_;
  std::map<ValueId, bool> known_;
};

}  // namespace

bool holds_int4(const Graph& graph, ValueId id, bool may_round) { return Finder(graph, may_round).holds(id); }

Int4Element int4_element(const Graph& graph, loop::ExprTable& exprs, const ElementAt& at, ValueId id, bool may_round,
                         const std::vector<sym::Expr>& index) {
  const Node& node = graph.producer(id);
  if (is_view(node.op)) {
    const std::vector<sym::Expr> before = view_index(node.op, graph.type(node.inputs[0]).sizes, graph.type(id).sizes, index);
    return int4_element(graph, exprs, at, node.inputs[0], may_round, before);
  }
  const auto literal = [&](double value) { return exprs.literal(Scalar(value), DType::F32); };
  if (are_four_bits(graph, id)) return {at(id, index), literal(1), literal(0)};
  if (std::holds_alternative<Cast>(node.op) || keeps_rounding(graph, node))
    return int4_element(graph, exprs, at, node.inputs[0], may_round, index);
  const std::optional<size_t> operand = Finder(graph, may_round).operand_with_numbers(node);
  TOROID_CHECK(operand, "the value has no numbers of four bits");
  const Int4Element x = int4_element(graph, exprs, at, node.inputs[*operand], may_round, index);
  const loop::ExprId other = exprs.convert(at(node.inputs[1 - *operand], index), DType::F32);
  const ScalarOp op = std::get<Pointwise>(node.op).op;
  if (op == ScalarOp::Mul) return {x.number, exprs.compute(op, {x.scale, other}), exprs.compute(op, {x.zero, other})};
  if (op == ScalarOp::Sub && *operand == 1) return {x.number, exprs.compute(ScalarOp::Neg, {x.scale}), exprs.compute(op, {other, x.zero})};
  return {x.number, x.scale, exprs.compute(op, {x.zero, other})};
}

}  // namespace toroid
