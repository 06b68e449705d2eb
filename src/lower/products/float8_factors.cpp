#include "lower/products/float8_factors.h"

namespace toroid {
namespace {

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph) {}

  const Node* pointwise(ValueId id, ScalarOp op) const {
    const auto* found = std::get_if<Pointwise>(&graph_.producer(id).op);
    return found != nullptr && found->op == op ? &graph_.producer(id) : nullptr;
  }
  template <class Op>
  std::optional<ValueId> input_of(ValueId id, DType dtype) const {
    const Node& node = graph_.producer(id);
    if (!std::holds_alternative<Op>(node.op) || graph_.type(node.inputs[0]).dtype != dtype) return std::nullopt;
    return node.inputs[0];
  }
  bool is_number(ValueId id, int64_t number) const {
    const auto* full = std::get_if<Full>(&graph_.producer(id).op);
    const auto* value = full == nullptr ? nullptr : std::get_if<sym::Expr>(&full->value);
    return value != nullptr && value->is_const(number);
  }
  // What the operator and this number are applied to.
  std::optional<ValueId> left_of(ValueId id, ScalarOp op, int64_t number) const {
    const Node* node = pointwise(id, op);
    return node != nullptr && is_number(node->inputs[1], number) ? std::optional(node->inputs[0]) : std::nullopt;
  }

 private:
  const Graph& graph_;
};

}  // namespace

std::optional<Float8Factor> as_float8_factor(const Graph& graph, ValueId factor) {
  const Matcher match(graph);
  const auto half = match.input_of<Cast>(factor, DType::F16);
  const auto bits = half ? match.input_of<Bitcast>(*half, DType::I16) : std::nullopt;
  if (!bits) return std::nullopt;
  if (const auto wide = match.left_of(*bits, ScalarOp::ShiftLeft, 8)) {
    const auto own = match.input_of<Cast>(*wide, DType::U8);
    return own ? std::optional(Float8Factor{*own, DType::F8E5M2, 1}) : std::nullopt;
  }
  const Node* where = match.pointwise(*bits, ScalarOp::Where);
  if (where == nullptr || !match.is_number(where->inputs[1], 0x7e00)) return std::nullopt;
  const auto magnitude = match.left_of(where->inputs[0], ScalarOp::Eq, 0x7f);
  const Node* both = match.pointwise(where->inputs[2], ScalarOp::BitOr);
  if (!magnitude || both == nullptr || match.left_of(both->inputs[0], ScalarOp::ShiftLeft, 7) != magnitude) return std::nullopt;
  const auto wide = match.left_of(*magnitude, ScalarOp::BitAnd, 0x7f);
  const auto sign = match.left_of(both->inputs[1], ScalarOp::ShiftLeft, 8);
  if (!wide || !sign || match.left_of(*sign, ScalarOp::BitAnd, 0x80) != wide) return std::nullopt;
  const auto own = match.input_of<Cast>(*wide, DType::U8);
  return own ? std::optional(Float8Factor{*own, DType::F8E4M3FN, 1.0 / 256}) : std::nullopt;
}

}  // namespace toroid
