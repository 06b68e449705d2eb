#include "passes/attention/merge_gradient.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "graph/builder.h"
#include "passes/attention/softmax_pattern.h"
#include "passes/graph_copy.h"
#include "passes/uses.h"

namespace toroid {
namespace {

// Which weights stay, and what they are multiplied by.
struct DropoutParts {
  ValueId kept;  // Bool: which weights stay
  ValueId key, call;
  int64_t limit;
  double factor = 0;
};

struct GradientParts {
  ValueId q, k, v, out, grad;   // as they are read; `out` is computed where only the forward pass is matched
  ValueId of_q, of_k, of_v;     // what is computed
  std::optional<ValueId> mask;  // [B, H, L, S], what is added to scores
  bool causal;
  double scale;
  std::optional<DropoutParts> dropout;
  std::optional<ValueId> stacked;  // all of the three, and nothing else is made of them
};

class GradientMatcher {
 public:
  explicit GradientMatcher(const Graph& graph) : graph_(graph), uses_(graph) {}

  // The gradient whose scores' gradient `node` multiplies: P * (grad v^T - sum(grad * out)).
  std::optional<GradientParts> match(const Node& node) const {
    if (!is_pointwise(node, ScalarOp::Mul)) return std::nullopt;
    const Node& weights = producer(node.inputs[0]);
    const Node& difference = producer(node.inputs[1]);
    if (!is_pointwise(weights, ScalarOp::ExpNormal) || !is_pointwise(difference, ScalarOp::Sub)) return std::nullopt;
    const Node& centred = producer(weights.inputs[0]);
    if (!is_pointwise(centred, ScalarOp::Sub)) return std::nullopt;
    const ValueId scores = centred.inputs[0];
    if (!are_log_sums(behind_expand(centred.inputs[1]), scores)) return std::nullopt;
    GradientParts parts{};
    if (!match_scores(scores, parts) || !match_difference(difference, parts)) return std::nullopt;
    if (parts.mask && uses_.of(node.outputs[0]).size() != 1) return std::nullopt;  // who wants the mask's gradient has it in memory
    const auto scaled = user(node.outputs[0], [&](const Node& each) {
      return is_pointwise(each, ScalarOp::Mul) && each.inputs[0] == node.outputs[0] && number(each.inputs[1]) == parts.scale;
    });
    if (!scaled) return std::nullopt;
    const auto of_scores = rounded(*scaled), kept_weights = parts.dropout ? what_stays(weights.outputs[0], parts) : weights.outputs[0],
               of_weights = kept_weights ? rounded(*kept_weights) : std::nullopt;
    if (!of_scores || !of_weights) return std::nullopt;
    const auto across = transposed_user(*of_scores), of_weights_across = transposed_user(*of_weights);
    if (!across || !of_weights_across) return std::nullopt;
    const auto of_q = narrowed_product(*of_scores, parts.k), of_k = narrowed_product(*across, parts.q),
               of_v = narrowed_product(*of_weights_across, parts.grad);
    if (!of_q || !of_k || !of_v) return std::nullopt;
    parts.of_q = *of_q, parts.of_k = *of_k, parts.of_v = *of_v;
    parts.stacked = stacked(parts);
    return parts;
  }

  // The attention with dropout that ends in this product, which is rounded to `out`.
  std::optional<GradientParts> match_dropped(const Node& node) const {
    if (!std::holds_alternative<Matmul>(node.op)) return std::nullopt;
    GradientParts parts{};
    const auto v = before_cast(node.inputs[1]), weights = before_cast(node.inputs[0]);
    const auto out = uses_.only_user(node.outputs[0]);
    if (!v || !weights || !out || !is<Cast>(graph_.node(*out).outputs[0]) || !is<Cast>(*weights)) return std::nullopt;
    parts.v = *v, parts.out = graph_.node(*out).outputs[0];
    if (graph_.type(parts.out).dtype != graph_.type(*v).dtype || !uses_.only_user(node.inputs[0]) || !uses_.only_user(*weights))
      return std::nullopt;
    const auto scaled = behind_dropout(producer(*weights).inputs[0], parts);
    if (!scaled || !uses_.only_user(*scaled)) return std::nullopt;
    // Rows that see nothing have zeros there, and where the operation computes them.
    const Node& seen = producer(*scaled);
    if (!is_pointwise(seen, ScalarOp::Where) || number(behind_expand(seen.inputs[1])) != 0.0) return std::nullopt;
    const auto scores = softmax_operand(graph_, uses_, seen.inputs[2]);
    if (!scores || !is_lowest(producer(behind_expand(seen.inputs[0])), *scores) || !match_scores(*scores, parts)) return std::nullopt;
    return parts;
  }

 private:
  const Node& producer(ValueId id) const { return graph_.producer(id); }
  static bool is_pointwise(const Node& node, ScalarOp op) {
    const auto* pointwise = std::get_if<Pointwise>(&node.op);
    return pointwise != nullptr && pointwise->op == op;
  }
  template <class Op>
  bool is(ValueId id) const {
    return std::holds_alternative<Op>(producer(id).op);
  }
  std::optional<double> number(ValueId id) const {
    const auto* full = std::get_if<Full>(&producer(id).op);
    const auto* value = full == nullptr ? nullptr : std::get_if<double>(&full->value);
    return value == nullptr ? std::nullopt : std::optional(*value);
  }
  // What was cast to F32 from 16 bits.
  std::optional<ValueId> before_cast(ValueId id) const {
    if (!is<Cast>(id) || graph_.type(id).dtype != DType::F32) return std::nullopt;
    const ValueId input = producer(id).inputs[0];
    return is_reduced_float(graph_.type(input).dtype) ? std::optional(input) : std::nullopt;
  }
  ValueId behind_expand(ValueId id) const {
    while (is<Expand>(id) || is<Reshape>(id)) id = producer(id).inputs[0];
    return id;
  }
  bool is_across(ValueId id) const {
    const auto* permute = std::get_if<Permute>(&producer(id).op);
    return permute != nullptr && permute->dims == std::vector<int>{0, 1, 3, 2};
  }
  bool is_reduction(const Node& node, ReduceOp op) const {
    const auto* reduce = std::get_if<Reduce>(&node.op);
    return reduce != nullptr && reduce->op == op && reduce->dims == std::vector<int>{3};
  }

  // log(sum(exp(scores - max))) + max
  bool are_log_sums(ValueId id, ValueId scores) const {
    const Node& sum = producer(id);
    if (!is_pointwise(sum, ScalarOp::Add)) return false;
    const ValueId largest = behind_expand(sum.inputs[1]);
    const Node& logarithm = producer(sum.inputs[0]);
    if (!is_reduction(producer(largest), ReduceOp::Max) || producer(largest).inputs[0] != scores || !is_pointwise(logarithm, ScalarOp::Log))
      return false;
    const Node& total = producer(logarithm.inputs[0]);
    if (!is_reduction(total, ReduceOp::Sum) || !is_pointwise(producer(total.inputs[0]), ScalarOp::ExpNormal)) return false;
    const Node& centred = producer(producer(total.inputs[0]).inputs[0]);
    return is_pointwise(centred, ScalarOp::Sub) && centred.inputs[0] == scores && behind_expand(centred.inputs[1]) == largest;
  }

  // q k^T * scale, perhaps with a mask added to it, and -inf where a key comes after its query if causal.
  bool match_scores(ValueId scores, GradientParts& parts) const {
    const Node* node = &producer(scores);
    if (is_pointwise(*node, ScalarOp::Where)) {
      const Node& visible = producer(node->inputs[0]);
      const auto hidden = number(node->inputs[2]);
      if (!is_pointwise(visible, ScalarOp::Le) || !hidden || !std::isinf(*hidden) || *hidden > 0) return false;
      const auto *column = std::get_if<Iota>(&producer(visible.inputs[0]).op), *row = std::get_if<Iota>(&producer(visible.inputs[1]).op);
      if (column == nullptr || row == nullptr || column->dim != 3 || row->dim != 2) return false;
      parts.causal = true;
      node = &producer(node->inputs[1]);
    }
    if (is_pointwise(*node, ScalarOp::Add)) {
      parts.mask = before_cast(node->inputs[1]).value_or(node->inputs[1]);
      node = &producer(node->inputs[0]);
    }
    const auto scale = is_pointwise(*node, ScalarOp::Mul) ? number(node->inputs[1]) : std::nullopt;
    if (!scale || *scale <= 0) return false;
    parts.scale = *scale;
    const auto factors = factors_of(node->inputs[0]);
    if (!factors) return false;
    std::tie(parts.q, parts.k) = *factors;
    return true;
  }

  // Is it max(scores) == -inf?
  bool is_lowest(const Node& node, ValueId scores) const {
    if (!is_pointwise(node, ScalarOp::Eq)) return false;
    const Node& most = producer(behind_expand(node.inputs[0]));
    const auto lowest = number(behind_expand(node.inputs[1]));
    return is_reduction(most, ReduceOp::Max) && most.inputs[0] == scores && lowest && std::isinf(*lowest) && *lowest < 0;
  }

  std::optional<int64_t> integer(ValueId id) const {
    const auto* full = std::get_if<Full>(&producer(id).op);
    const auto* value = full == nullptr ? nullptr : std::get_if<sym::Expr>(&full->value);
    return value != nullptr && value->is_const() ? std::optional(value->value()) : std::nullopt;
  }
  // x of what applies an operation to it and this number
  std::optional<ValueId> applied_to(ValueId id, ScalarOp op, int64_t value) const {
    const Node& node = producer(id);
    return is_pointwise(node, op) && integer(behind_expand(node.inputs[1])) == value ? std::optional(node.inputs[0]) : std::nullopt;
  }
  // These bits of a weight's place along a dim of [B, H, L, S].
  bool are_bits_of_place(ValueId id, int dim, int64_t bits) const {
    const auto place = applied_to(id, ScalarOp::BitAnd, bits);
    const auto* iota = place ? std::get_if<Iota>(&producer(*place).op) : nullptr;
    return iota != nullptr && iota->dim == dim && graph_.type(*place).rank() == 4;
  }
  // The place in [B, H, L, S] of the first weight that the same block decides about.
  bool is_place_of_block(ValueId id) const {
    const Node& difference = producer(id);
    if (!is_pointwise(difference, ScalarOp::Sub)) return false;
    const ValueId place = difference.inputs[0];
    const Node& behind = producer(difference.inputs[1]);
    if (!is<Reshape>(place) || !is<Iota>(producer(place).inputs[0]) || graph_.type(producer(place).inputs[0]).rank() != 1 ||
        !is_pointwise(behind, ScalarOp::Add) || !are_bits_of_place(behind.inputs[1], 3, 9))
      return false;
    const Node& of_rows = producer(behind.inputs[0]);
    if (!is_pointwise(of_rows, ScalarOp::Mul) || !are_bits_of_place(of_rows.inputs[0], 2, 8)) return false;
    const auto* keys = std::get_if<Full>(&producer(behind_expand(of_rows.inputs[1])).op);
    const auto* count = keys == nullptr ? nullptr : std::get_if<sym::Expr>(&keys->value);
    return count != nullptr && *count == graph_.type(id).sizes[3];
  }
  // Where its word of two begins, and its half of that.
  bool is_place_in_words(ValueId id) const {
    const Node& sum = producer(id);
    if (!is_pointwise(sum, ScalarOp::Add)) return false;
    const auto word = applied_to(sum.inputs[0], ScalarOp::Mul, 4), half = applied_to(sum.inputs[1], ScalarOp::Mul, 16);
    return word && half && are_bits_of_place(*word, 3, 8) && are_bits_of_place(*half, 3, 1);
  }
  // passes/decompose/nn/attention_dropout.h
  std::optional<DropoutParts> drawn(ValueId id) const {
    const Node& below = producer(id);
    if (!is_pointwise(below, ScalarOp::Lt)) return std::nullopt;
    const auto limit = integer(behind_expand(below.inputs[1]));
    const auto shifted = applied_to(below.inputs[0], ScalarOp::BitAnd, 0xffff);
    if (!limit || !shifted || !is_pointwise(producer(*shifted), ScalarOp::ShiftRight) || !is_place_in_words(producer(*shifted).inputs[1]))
      return std::nullopt;
    const Node& words = producer(producer(*shifted).inputs[0]);
    if (!is_pointwise(words, ScalarOp::Where)) return std::nullopt;
    const auto later_query = applied_to(words.inputs[0], ScalarOp::Eq, 0);
    const Node &low = producer(words.inputs[1]), &high = producer(words.inputs[2]);
    if (!later_query || !are_bits_of_place(*later_query, 2, 8) || !is_pointwise(low, ScalarOp::PhiloxLow) ||
        !is_pointwise(high, ScalarOp::PhiloxHigh) || low.inputs != high.inputs || !is_place_of_block(low.inputs[0]))
      return std::nullopt;
    const DropoutParts parts{.kept = id, .key = behind_expand(low.inputs[1]), .call = behind_expand(low.inputs[2]), .limit = *limit};
    const auto is_one = [&](ValueId value) {
      return graph_.type(value).dtype == DType::I64 && graph_.type(value).numel().is_const(1) && !is<Full>(value);
    };
    return is_one(parts.key) && is_one(parts.call) ? std::optional(parts) : std::nullopt;
  }
  // x of where(kept, x * factor, 0): of what was matched before the same.
  std::optional<ValueId> behind_dropout(ValueId id, GradientParts& parts) const {
    const Node& node = producer(id);
    if (!is_pointwise(node, ScalarOp::Where) || number(behind_expand(node.inputs[2])) != 0.0) return std::nullopt;
    const Node& scaled = producer(node.inputs[1]);
    const auto factor = is_pointwise(scaled, ScalarOp::Mul) ? number(scaled.inputs[1]) : std::nullopt;
    const auto drawing = drawn(node.inputs[0]);
    if (!factor || *factor <= 0 || !drawing) return std::nullopt;
    if (parts.dropout && (parts.dropout->kept != drawing->kept || parts.dropout->factor != *factor)) return std::nullopt;
    parts.dropout = drawing;
    parts.dropout->factor = *factor;
    return scaled.inputs[0];
  }
  // where(kept, x * factor, 0), by the same condition and factor
  std::optional<ValueId> what_stays(ValueId x, GradientParts& parts) const {
    const auto is_scaled = [&](const Node& node) {
      return is_pointwise(node, ScalarOp::Mul) && node.inputs[0] == x && number(node.inputs[1]) == parts.dropout->factor;
    };
    const auto scaled = user(x, is_scaled);
    return scaled ? user(*scaled, [&](const Node& node) { return behind_dropout(node.outputs[0], parts) == x; }) : std::nullopt;
  }

  // grad v^T - sum(grad * out), the first perhaps with dropout
  bool match_difference(const Node& difference, GradientParts& parts) const {
    const auto product = behind_dropout(difference.inputs[0], parts);
    const auto factors = factors_of(product.value_or(difference.inputs[0]));
    const Node& sum = producer(behind_expand(difference.inputs[1]));
    if (!factors || !is_reduction(sum, ReduceOp::Sum)) return false;
    std::tie(parts.grad, parts.v) = *factors;
    const Node& of_out = producer(sum.inputs[0]);
    if (!is_pointwise(of_out, ScalarOp::Mul) || before_cast(of_out.inputs[0]) != parts.grad) return false;
    const auto out = before_cast(of_out.inputs[1]);
    if (!out) return false;
    parts.out = *out;
    return true;
  }

  // Of a product a b^T of widened tensors.
  std::optional<std::pair<ValueId, ValueId>> factors_of(ValueId id) const {
    const Node& node = producer(id);
    if (!std::holds_alternative<Matmul>(node.op) || !is_across(node.inputs[1])) return std::nullopt;
    const auto a = before_cast(node.inputs[0]), b = before_cast(producer(node.inputs[1]).inputs[0]);
    return a && b ? std::optional(std::pair(*a, *b)) : std::nullopt;
  }

  // [B, H, L, E] as [B, L, 1, H, E], and then the three along that dim.
  std::optional<ValueId> stacked(const GradientParts& parts) const {
    std::vector<ValueId> unsqueezed;
    std::optional<NodeId> cat;
    for (ValueId id : {parts.of_q, parts.of_k, parts.of_v}) {
      const std::vector<sym::Expr>& sizes = graph_.type(id).sizes;
      const auto permuted = uses_.only_user(id);
      const auto* permute = permuted ? std::get_if<Permute>(&graph_.node(*permuted).op) : nullptr;
      if (permute == nullptr || permute->dims != std::vector<int>{0, 2, 1, 3}) return std::nullopt;
      const auto reshaped = uses_.only_user(graph_.node(*permuted).outputs[0]);
      if (!reshaped || !std::holds_alternative<Reshape>(graph_.node(*reshaped).op)) return std::nullopt;
      unsqueezed.push_back(graph_.node(*reshaped).outputs[0]);
      if (graph_.type(unsqueezed.back()).sizes != std::vector<sym::Expr>{sizes[0], sizes[2], 1, sizes[1], sizes[3]}) return std::nullopt;
      cat = uses_.only_user(unsqueezed.back());
    }
    const auto* along = cat ? std::get_if<Cat>(&graph_.node(*cat).op) : nullptr;
    if (along == nullptr || along->dim != 2 || graph_.node(*cat).inputs != unsqueezed) return std::nullopt;
    return graph_.node(*cat).outputs[0];
  }

  template <class Is>
  std::optional<ValueId> user(ValueId value, const Is& is) const {
    for (NodeId id : uses_.of(value)) {
      if (is(graph_.node(id))) return graph_.node(id).outputs[0];
    }
    return std::nullopt;
  }
  // The value rounded to 16 bits, and widened again.
  std::optional<ValueId> rounded(ValueId value) const {
    const auto is_cast = [](const Node& node) { return std::holds_alternative<Cast>(node.op); };
    const auto narrow =
        user(value, [&](const Node& node) { return is_cast(node) && is_reduced_float(graph_.type(node.outputs[0]).dtype); });
    return narrow ? user(*narrow, [&](const Node& node) { return is_cast(node) && graph_.type(node.outputs[0]).dtype == DType::F32; })
                  : std::nullopt;
  }
  std::optional<ValueId> transposed_user(ValueId value) const {
    return user(value, [&](const Node& node) { return is_across(node.outputs[0]); });
  }
  // The product of a value and a widened tensor, rounded.
  std::optional<ValueId> narrowed_product(ValueId left, ValueId right) const {
    const auto product = user(left, [&](const Node& node) {
      return std::holds_alternative<Matmul>(node.op) && node.inputs[0] == left && before_cast(node.inputs[1]) == right;
    });
    return product ? user(*product,
                          [&](const Node& node) {
                            return std::holds_alternative<Cast>(node.op) && graph_.type(node.outputs[0]).dtype == graph_.type(right).dtype;
                          })
                   : std::nullopt;
  }

  const Graph& graph_;
  Uses uses_;
};

// `is_gradient`: else of the forward pass.
std::vector<ValueId> operands_of(const GradientParts& parts, bool is_gradient) {
  std::vector<ValueId> operands = {parts.q, parts.k, parts.v};
  if (is_gradient) operands.insert(operands.end(), {parts.out, parts.grad});
  if (parts.mask) operands.push_back(*parts.mask);
  if (parts.dropout) operands.insert(operands.end(), {parts.dropout->key, parts.dropout->call});
  return operands;
}
std::vector<Scalar> attributes_of(const GradientParts& parts) {
  std::vector<Scalar> attributes = {parts.causal, parts.scale};
  if (parts.dropout) attributes.insert(attributes.end(), {parts.dropout->factor, sym::Expr(parts.dropout->limit)});
  return attributes;
}

// The Bools of a mask that is made of them, 0 and -inf: then nothing has to be made.
Tensor as_truth(Builder& builder, Tensor mask) {
  const Graph& graph = builder.graph();
  ValueId id = mask.id();
  while (std::holds_alternative<Expand>(graph.producer(id).op)) id = graph.producer(id).inputs[0];
  const Node& node = graph.producer(id);
  const auto* pointwise = std::get_if<Pointwise>(&node.op);
  if (pointwise == nullptr || pointwise->op != ScalarOp::Where) return mask;
  const auto seen = number_of(graph, node.inputs[1]), hidden = number_of(graph, node.inputs[2]);
  const bool is_truth = seen == 0.0 && hidden && std::isinf(*hidden) && *hidden < 0;
  return is_truth ? builder.expand(builder.wrap(node.inputs[0]), mask.sizes()) : mask;
}

std::vector<Tensor> operands_in(Builder& builder, const GraphCopy& copy, const GradientParts& parts, bool is_gradient) {
  std::vector<Tensor> operands;
  for (ValueId operand : operands_of(parts, is_gradient)) operands.push_back(builder.wrap(copy.copied(operand)));
  if (parts.mask) {
    Tensor& mask = operands[is_gradient ? kGradientOperands : kDroppedOperands];
    mask = as_truth(builder, mask);
  }
  return operands;
}

size_t place_of(const Graph& graph, ValueId id) { return static_cast<size_t>(graph.value(id).producer); }

}  // namespace

bool merge_attention_gradients(Program& program, const std::function<bool(const TensorType& q, const TensorType& v)>& has_kernel) {
  const Graph& graph = program.graph;
  std::vector<std::pair<size_t, GradientParts>> found;  // by the first node whose result they replace
  const GradientMatcher matcher(graph);
  for (const Node& node : graph.nodes()) {
    const auto parts = matcher.match(node);
    if (!parts || !has_kernel(graph.type(parts->q), graph.type(parts->v))) continue;
    const size_t first = std::min({place_of(graph, parts->of_q), place_of(graph, parts->of_k), place_of(graph, parts->of_v)});
    const std::vector<ValueId> operands = operands_of(*parts, true);
    if (std::all_of(operands.begin(), operands.end(), [&](ValueId id) { return place_of(graph, id) < first; }))
      found.emplace_back(first, *parts);
  }
  if (found.empty()) return false;
  GraphCopy copy(graph);
  Builder builder(copy.target(), *program.symbols, &program.guards);
  std::vector<std::pair<ValueId, ValueId>> made;
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    const NodeId id{static_cast<uint32_t>(i)};
    for (const auto& [first, parts] : found) {
      if (first != i) continue;
      builder.set_provenance(graph.node(id).provenance, graph.value(parts.of_q).name + "_t");
      const auto type = [&](ValueId of) { return TensorType{.dtype = graph.type(of).dtype, .sizes = graph.type(of).sizes}; };
      TensorType statistics = type(parts.q);
      statistics.dtype = DType::F32;
      statistics.sizes.back() = 3;
      const std::vector<TensorType> types = parts.stacked
                                                ? std::vector<TensorType>{type(*parts.stacked), statistics}
                                                : std::vector<TensorType>{type(parts.q), type(parts.k), type(parts.v), statistics};
      const std::vector<Tensor> results =
          builder.library(std::string(kAttentionGradient), operands_in(builder, copy, parts, true), types, attributes_of(parts));
      if (parts.stacked) {
        made.emplace_back(*parts.stacked, results[0].id());
        continue;
      }
      made.insert(made.end(), {{parts.of_q, results[0].id()}, {parts.of_k, results[1].id()}, {parts.of_v, results[2].id()}});
    }
    const auto replaced = std::find_if(made.begin(), made.end(), [&](const auto& each) { return each.first == graph.node(id).outputs[0]; });
    if (replaced == made.end()) {
      copy.node(id);
    } else {
      copy.replace(replaced->first, replaced->second);
    }
  }
  program.graph = copy.finish();
  return true;
}

bool merge_dropped_attention(Program& program, const std::function<bool(const TensorType& q, const TensorType& v)>& has_kernel) {
  const Graph& graph = program.graph;
  std::vector<GradientParts> found;
  const GradientMatcher matcher(graph);
  for (const Node& node : graph.nodes()) {
    const auto parts = matcher.match_dropped(node);
    if (parts && has_kernel(graph.type(parts->q), graph.type(parts->v))) found.push_back(*parts);
  }
  if (found.empty()) return false;
  GraphCopy copy(graph);
  Builder builder(copy.target(), *program.symbols, &program.guards);
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    const NodeId id{static_cast<uint32_t>(i)};
    const auto parts = std::find_if(found.begin(), found.end(), [&](const auto& each) { return graph.value(each.out).producer == id; });
    if (parts == found.end()) {
      copy.node(id);
      continue;
    }
    builder.set_provenance(graph.node(id).provenance, graph.value(parts->out).name + "_t");
    const TensorType type{.dtype = graph.type(parts->out).dtype, .sizes = graph.type(parts->out).sizes};
    const std::vector<Tensor> results =
        builder.library(std::string(kDroppedAttention), operands_in(builder, copy, *parts, false), {type}, attributes_of(*parts));
    copy.replace(parts->out, results[0].id());
  }
  program.graph = copy.finish();
  return true;
}

}  // namespace toroid
