#include "lower/attention/written_scores.h"

#include <span>

#include "lower/cost.h"
#include "lower/index_map.h"
#include "support/match.h"

namespace toroid {
namespace {

using loop::ExprId;
using Places = std::vector<sym::Expr>;

constexpr size_t kMostMade = 256;  // elements of values: masks are short formulas, and what is longer has its own memory

class ScoresWriter {
 public:
  ScoresWriter(const Graph& graph, loop::ExprTable& exprs, const std::vector<bool>& of_product,
               const std::function<ExprId(ValueId, const Places&)>& from_memory)
      : graph_(graph), exprs_(exprs), of_product_(of_product), from_memory_(from_memory) {}

  ExprId at(ValueId id, const Places& index) {
    for (const Made& each : made_) {
      if (each.id == id && each.index == index) return each.value;
    }
    const ExprId value = make(id, index);
    made_.push_back({id, index, value});
    return value;
  }

 private:
  struct Made {
    ValueId id;
    Places index;
    ExprId value;
  };

  const std::vector<sym::Expr>& sizes(ValueId id) const { return graph_.type(id).sizes; }

  ExprId make(ValueId id, const Places& index) {
    const Node& node = graph_.producer(id);
    const DType dtype = graph_.type(id).dtype;
    return match(
        node.op,
        [&](const Library& op) {
          if (op.name == kAttentionProduct) return exprs_.add(loop::Accumulated{loop::AccumulatorId{0}}, DType::F32);
          return from_memory_(id, index);
        },
        [&](const Pointwise& op) {
          const bool is_dear = is_transcendental(op.op) || op.op == ScalarOp::Nextafter;
          if ((is_dear || made_.size() > kMostMade) && !of_product_[static_cast<size_t>(id)]) return from_memory_(id, index);
          std::vector<ExprId> operands;
          for (ValueId input : node.inputs) operands.push_back(at(input, index));
          if (const auto place = place_of(op.op, operands)) return exprs_.index(*place, dtype);
          return exprs_.compute(op.op, std::move(operands));
        },
        [&](const Cast&) { return exprs_.convert(at(node.inputs[0], index), dtype); },
        [&](const Full& op) { return exprs_.literal(op.value, dtype); },
        [&](const Iota& op) { return exprs_.index(index[static_cast<size_t>(op.dim)], dtype); },
        [&](const Gather&) {
          const ValueId from = node.inputs[0];
          Places places;
          for (size_t d = 0; d + 1 < node.inputs.size(); ++d)
            places.push_back(exprs_.as_index(at(node.inputs[d + 1], index), sizes(from)[d]));
          return at(from, places);
        },
        [&](const auto&) {
          if (!is_view(node.op)) return from_memory_(id, index);
          return at(node.inputs[0], view_index(node.op, sizes(node.inputs[0]), sizes(id), index));
        });
  }

  // Of positions and numbers, one that is an index too: its bounds are known.
  std::optional<sym::Expr> place_of(ScalarOp op, std::span<const ExprId> operands) const {
    if (operands.size() != 2 || exprs_.dtype(operands[0]) != DType::I64) return std::nullopt;
    const auto place = [&](ExprId id) -> std::optional<sym::Expr> {
      if (const auto* index = std::get_if<loop::Index>(&exprs_.node(id).op)) return index->value;
      const auto* number = exprs_.literal_as<sym::Expr>(id);
      return number == nullptr ? std::nullopt : std::optional(*number);
    };
    const auto a = place(operands[0]), b = place(operands[1]);
    if (!a || !b) return std::nullopt;
    switch (op) {
      case ScalarOp::Add: return *a + *b;
      case ScalarOp::Sub: return *a - *b;
      case ScalarOp::Max: return sym::max(*a, *b);
      case ScalarOp::Min: return sym::min(*a, *b);
      default: return std::nullopt;
    }
  }

  const Graph& graph_;
  loop::ExprTable& exprs_;
  const std::vector<bool>& of_product_;
  const std::function<ExprId(ValueId, const Places&)>& from_memory_;
  std::vector<Made> made_;
};

}  // namespace

ExprId written_scores(const Graph& graph, loop::ExprTable& exprs, ValueId scores, const Places& index, const std::vector<bool>& of_product,
                      const std::function<ExprId(ValueId, const Places&)>& from_memory) {
  return ScoresWriter(graph, exprs, of_product, from_memory).at(scores, index);
}

}  // namespace toroid
