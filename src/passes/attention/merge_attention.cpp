#include "passes/attention/merge_attention.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/nn/attention.h"
#include "graph/builder.h"
#include "passes/attention/fold_masks.h"
#include "passes/attention/softmax_pattern.h"
#include "passes/graph_copy.h"
#include "passes/uses.h"

namespace toroid {
namespace {

// What happens to scores between the product and the softmax.
struct Change {
  enum Kind : uint8_t { Factor, Sum, Hidden } kind;
  double number = 0;    // the factor, or what hidden scores are
  ValueId tensor = {};  // that is added, or the condition
  bool hides_true = false;
};

struct WrittenAttention {
  ValueId q{}, k{}, v{};          // k as [.., E, S]
  std::vector<Change> changes{};  // the first follows the product
};

class AttentionMatcher {
 public:
  explicit AttentionMatcher(const Graph& graph) : graph_(graph), uses_(graph) {}

  // The attention whose result this product is.
  std::optional<WrittenAttention> match(const Node& node) const {
    if (!std::holds_alternative<Matmul>(node.op) || node.inputs.size() != 2) return std::nullopt;
    const TensorType &out = graph_.type(node.outputs[0]), &v = graph_.type(node.inputs[1]);
    if (!is_reduced_float(out.dtype) || v.dtype != out.dtype || out.sizes.size() < 3) return std::nullopt;
    const auto scores = softmax_operand(graph_, uses_, behind_casts(node.inputs[0]));
    if (!scores) return std::nullopt;
    WrittenAttention found{.v = node.inputs[1]};
    if (!match_scores(*scores, found)) return std::nullopt;
    const TensorType &q = graph_.type(found.q), &k = graph_.type(found.k);
    const bool is_of_one =
        q.dtype == out.dtype && k.dtype == out.dtype && q.sizes.size() == out.sizes.size() && k.sizes.size() == out.sizes.size();
    return is_of_one ? std::optional(found) : std::nullopt;
  }

 private:
  const Node& producer(ValueId id) const { return graph_.producer(id); }
  std::optional<double> number(ValueId id) const { return number_of(graph_, id); }
  bool is_cast(const Node& node) const { return is_float_cast(graph_, node); }
  ValueId behind_casts(ValueId id) const {
    while (is_cast(producer(id)) && uses_.only_user(id)) id = producer(id).inputs[0];
    return id;
  }

  // From the softmax up to the product: the first value has two readers, others one.
  bool match_scores(ValueId id, WrittenAttention& found) const {
    std::vector<Change> changes;
    for (bool is_first = true;; is_first = false) {
      if (!is_first && !uses_.only_user(id)) return false;
      const Node& node = producer(id);
      if (std::holds_alternative<Matmul>(node.op) && node.inputs.size() == 2) {
        found.q = node.inputs[0], found.k = node.inputs[1];
        break;
      }
      if (is_cast(node)) {
        id = node.inputs[0];
        continue;
      }
      const auto* op = std::get_if<Pointwise>(&node.op);
      if (op == nullptr) return false;
      std::optional<std::pair<Change, ValueId>> step = change_of(*op, node);
      if (!step) return false;
      changes.push_back(step->first);
      id = step->second;
    }
    std::ranges::reverse(changes);
    found.changes = std::move(changes);
    return true;
  }

  std::optional<std::pair<Change, ValueId>> change_of(const Pointwise& op, const Node& node) const {
    const auto by = [&](size_t i, bool divides) -> std::optional<std::pair<Change, ValueId>> {
      const auto factor = number(node.inputs[i]);
      if (!factor || !std::isfinite(*factor) || *factor == 0) return std::nullopt;
      return std::pair(Change{.kind = Change::Factor, .number = divides ? 1 / *factor : *factor}, node.inputs[1 - i]);
    };
    switch (op.op) {
      case ScalarOp::Mul: {
        const auto found = by(1, false);
        return found ? found : by(0, false);
      }
      case ScalarOp::Div: return by(1, true);
      case ScalarOp::Add: {
        const bool first = leads_to_product(node.inputs[0]), second = leads_to_product(node.inputs[1]);
        if (first == second) return std::nullopt;
        return std::pair(Change{.kind = Change::Sum, .tensor = node.inputs[first ? 1 : 0]}, node.inputs[first ? 0 : 1]);
      }
      case ScalarOp::Where: {
        for (const size_t i : {size_t{1}, size_t{2}}) {
          const auto value = number(node.inputs[i]);
          if (value && *value <= kHides)
            return std::pair(Change{.kind = Change::Hidden, .number = *value, .tensor = node.inputs[0], .hides_true = i == 1},
                             node.inputs[3 - i]);
        }
        return std::nullopt;
      }
      default: return std::nullopt;
    }
  }

  // Is it what becomes of a product, read by nobody else? Masks begin elsewhere.
  bool leads_to_product(ValueId id) const {
    for (int depth = 0; depth < 16; ++depth) {
      if (!uses_.only_user(id)) return false;
      const Node& node = producer(id);
      if (std::holds_alternative<Matmul>(node.op)) return true;
      if (is_cast(node)) {
        id = node.inputs[0];
        continue;
      }
      const auto* op = std::get_if<Pointwise>(&node.op);
      if (op == nullptr) return false;
      const auto step = change_of(*op, node);
      if (!step) return false;
      id = step->second;
    }
    return false;
  }

  const Graph& graph_;
  Uses uses_;
};

// Builds the operation in the copy.
class AttentionBuilder {
 public:
  AttentionBuilder(const Program& program, GraphCopy& copy, Builder& builder) : program_(program), copy_(copy), b_(builder) {}

  // Undefined where the operation has no kernel, or its mask no form without a loss.
  std::optional<ValueId> build(const WrittenAttention& written,
                               const std::function<bool(const TensorType&, const TensorType&)>& has_kernel) {
    const Tensor q = taken(written.q), k = b_.transpose(taken(written.k), -1, -2), v = taken(written.v);
    Sizes batch = q.sizes().without_last(2);
    if (!(batch == k.sizes().without_last(2)) || !(batch == v.sizes().without_last(2))) return std::nullopt;
    const DType dtype = q.dtype();
    double scale = 1;
    Tensor mask;
    bool may_hide_rows = false;
    for (const Change& change : written.changes) {
      switch (change.kind) {
        case Change::Factor:
          scale *= change.number;
          if (mask.defined()) mask = mask * change.number;
          break;
        case Change::Sum: {
          const Tensor added = narrowed(taken(change.tensor), dtype);
          if (!added.defined()) return std::nullopt;
          mask = mask.defined() ? mask + added : added;
          may_hide_rows = true;
          break;
        }
        case Change::Hidden: {
          const Tensor condition = taken(change.tensor), hidden = b_.scalar(dtype, change.number);
          const Tensor seen = mask.defined() ? mask : b_.scalar(dtype, 0.0);
          mask = b_.where(change.hides_true ? b_.unary(ScalarOp::BitNot, condition) : condition, seen, hidden);
          may_hide_rows = may_hide_rows || std::isinf(change.number);
          break;
        }
      }
    }
    if (scale <= 0) return std::nullopt;
    formula::AttentionOperands in{.q = formula::to_four_dims(q, batch),
                                  .k = formula::to_four_dims(k, batch),
                                  .v = formula::to_four_dims(v, batch),
                                  .mask = {},
                                  .causal = false,
                                  .scale = scale,
                                  .batch = batch};
    if (!has_kernel({.dtype = dtype, .sizes = in.q.sizes()}, {.dtype = dtype, .sizes = in.v.sizes()})) return std::nullopt;
    if (mask.defined()) {
      Sizes sizes = batch;
      sizes.insert(sizes.end(), {q.size(-2), k.size(-2)});
      in.mask = formula::to_four_dims(b_.expand(mask, sizes), batch);
    }
    const Tensor result = formula::attend(in);
    if (!may_hide_rows || shows_each_row_a_key(program_, b_.graph(), mask.id())) return result.id();
    const Tensor most = reduce_keeping(ReduceOp::Max, mask, {-1});
    return b_.where(eq(most, -kInfinity), b_.scalar(dtype, std::nan("")), result).id();
  }

 private:
  Tensor taken(ValueId id) { return b_.wrap(copy_.copied(id)); }
  // In 16 bits, if it was so before; undefined else.
  Tensor narrowed(Tensor x, DType dtype) {
    if (x.dtype() == dtype) return x;
    const Node& node = b_.graph().producer(x.id());
    if (std::holds_alternative<Expand>(node.op)) return narrowed(b_.wrap(node.inputs[0]), dtype);
    if (!std::holds_alternative<Cast>(node.op)) return {};
    const Tensor before = b_.wrap(node.inputs[0]);
    return before.dtype() == dtype ? before : Tensor();
  }

  const Program& program_;
  GraphCopy& copy_;
  Builder& b_;
};

}  // namespace

bool merge_attention(Program& program, const std::function<bool(const TensorType& q, const TensorType& v)>& has_kernel) {
  bool changed = false;
  const auto merge = [&](Graph& graph) {
    std::unordered_map<size_t, WrittenAttention> found;  // by the node of the last product
    const AttentionMatcher matcher(graph);
    for (size_t i = 0; i < graph.num_nodes(); ++i) {
      if (auto written = matcher.match(graph.node(NodeId{static_cast<uint32_t>(i)}))) found.emplace(i, std::move(*written));
    }
    if (found.empty()) return;
    GraphCopy copy(graph);
    Builder builder(copy.target(), *program.symbols, &program.guards);
    for (size_t i = 0; i < graph.num_nodes(); ++i) {
      const NodeId id{static_cast<uint32_t>(i)};
      const auto written = found.find(i);
      std::optional<ValueId> made;
      if (written != found.end()) {
        builder.set_provenance(graph.node(id).provenance, graph.value(graph.node(id).outputs[0]).name + "_t");
        made = AttentionBuilder(program, copy, builder).build(written->second, has_kernel);
      }
      if (made) {
        copy.replace(graph.node(id).outputs[0], *made);
        changed = true;
      } else {
        copy.node(id);
      }
    }
    graph = copy.finish();
  };
  merge(program.graph);
  for (Graph& graph : program.subgraphs) merge(graph);
  return changed;
}

}  // namespace toroid
