#include "passes/attention/write_scores.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "formula/basics/precision.h"
#include "formula/nn/attention.h"
#include "graph/builder.h"
#include "passes/attention/fold_masks.h"
#include "passes/attention/softmax_pattern.h"
#include "passes/graph_copy.h"

namespace toroid {
namespace {

constexpr int kMostParts = 64;           // of a mask, or between the products
constexpr size_t kMostVisited = 512;     // around it
constexpr int64_t kFewQueries = 32;      // from here on blocks of threads have rows enough
constexpr int64_t kSmallerThanMask = 8;  // tensors that a mask is made of, in elements

// What a model writes out: softmax(scores of q k^T) v.
struct WrittenScores {
  ValueId q{}, k{}, v{};  // k as [.., E, S]
  ValueId product{}, scores{};
  std::vector<ValueId> steps{};  // from behind the product to the scores, in the graph's order
};

class ScoresMatcher {
 public:
  ScoresMatcher(const Program& program, const Graph& graph) : program_(program), graph_(graph), uses_(graph) {}

  // An attention whose mask is computed of smaller things.
  bool has_formula(const Node& node) const {
    if (!std::holds_alternative<Attention>(node.op) || node.inputs.size() < 4 || graph_.type(node.inputs[0]).rank() != 4) return false;
    if (is_reduced_to_few(node.inputs[0])) return false;
    return is_formula(node.inputs[3]);
  }

  // The attention whose result this product is.
  std::optional<WrittenScores> match(const Node& node) const {
    if (!std::holds_alternative<Matmul>(node.op) || node.inputs.size() != 2) return std::nullopt;
    const TensorType& out = graph_.type(node.outputs[0]);
    if (!is_reduced_float(out.dtype) || graph_.type(node.inputs[1]).dtype != out.dtype || out.sizes.size() < 3) return std::nullopt;
    ValueId weights = node.inputs[0];
    while (is_float_cast(graph_, graph_.producer(weights)) && uses_.only_user(weights)) weights = graph_.producer(weights).inputs[0];
    const auto scores = softmax_operand(graph_, uses_, weights);
    if (!scores) return std::nullopt;
    WrittenScores found{.v = node.inputs[1], .scores = *scores};
    Walk walk;
    const std::optional<ValueId> product = product_below(*scores, walk);
    const std::unordered_set<ValueId>& path = walk.path;
    if (!product || walk.is_refused || path.size() > kMostParts) return std::nullopt;
    const Node& before = graph_.producer(*product);
    found.product = *product, found.q = before.inputs[0], found.k = before.inputs[1];
    for (ValueId id : path) {
      if (id != *product) found.steps.push_back(id);
    }
    std::sort(found.steps.begin(), found.steps.end());
    const TensorType &q = graph_.type(found.q), &k = graph_.type(found.k);
    const bool is_of_one =
        q.dtype == out.dtype && k.dtype == out.dtype && q.sizes.size() == out.sizes.size() && k.sizes.size() == out.sizes.size();
    if (!is_of_one || is_reduced_to_few(found.q) || !is_worth_it(found, path)) return std::nullopt;
    return found;
  }

 private:
  bool is_reduced_to_few(ValueId q) const {
    const Sizes& sizes = graph_.type(q).sizes;
    return sym::evaluate_hint(sizes[sizes.size() - 2]) < kFewQueries;
  }

  // What the scores are computed of, element by element, as far as it leads to products.
  struct Walk {
    std::unordered_map<ValueId, std::optional<ValueId>> found = {};  // the product that a value depends on
    std::unordered_set<ValueId> path = {};                           // those that do
    bool is_refused = false;                                         // several products, or too much of it
  };
  std::optional<ValueId> product_below(ValueId id, Walk& walk) const {
    if (const auto known = walk.found.find(id); known != walk.found.end()) return known->second;
    if (walk.found.size() > kMostVisited) walk.is_refused = true;
    if (walk.is_refused) return std::nullopt;
    const Node& node = graph_.producer(id);
    std::optional<ValueId> found;
    if (std::holds_alternative<Matmul>(node.op)) {
      if (node.inputs.size() == 2) found = id;
    } else if (is_step(node, id)) {
      for (ValueId input : node.inputs) {
        const std::optional<ValueId> below = product_below(input, walk);
        if (found && below && *found != *below) walk.is_refused = true;
        if (below) found = below;
      }
    }
    if (found) walk.path.insert(id);
    walk.found.emplace(id, found);
    return found;
  }
  bool is_step(const Node& node, ValueId id) const {
    const bool is_view = std::holds_alternative<Reshape>(node.op) && keeps_matrices(graph_.type(node.inputs[0]), graph_.type(id));
    return is_view || std::holds_alternative<Pointwise>(node.op) || is_float_cast(graph_, node);
  }
  static bool keeps_matrices(const TensorType& from, const TensorType& to) {
    const size_t a = from.sizes.size(), b = to.sizes.size();
    return a >= 2 && b >= 2 && sym::known_eq(from.sizes[a - 1], to.sizes[b - 1]) && sym::known_eq(from.sizes[a - 2], to.sizes[b - 2]);
  }

  // Scales, hidden scores and tensors in memory are merge_attention's. Nothing else reads what depends on the product.
  bool is_worth_it(const WrittenScores& found, const std::unordered_set<ValueId>& path) const {
    for (ValueId id : path) {
      if (uses_.is_kept(id)) return false;
      for (NodeId user : uses_.of(id)) {
        const bool is_inside = path.contains(graph_.node(user).outputs[0]) || id == found.scores;
        if (!is_inside) return false;
      }
    }
    return std::any_of(found.steps.begin(), found.steps.end(), [&](ValueId id) { return is_beyond_masks(id, path); });
  }
  bool is_beyond_masks(ValueId id, const std::unordered_set<ValueId>& path) const {
    const Node& node = graph_.producer(id);
    const auto* pointwise = std::get_if<Pointwise>(&node.op);
    if (pointwise == nullptr) return false;
    const auto other = [&]() -> std::optional<ValueId> {
      const auto at = std::find_if(node.inputs.begin(), node.inputs.end(), [&](ValueId each) { return !path.contains(each); });
      return at == node.inputs.end() ? std::nullopt : std::optional(*at);
    };
    switch (pointwise->op) {
      case ScalarOp::Mul:
      case ScalarOp::Div: return !other() || !number_of(graph_, *other());
      case ScalarOp::Add:
      case ScalarOp::Sub: return !other() || graph_.type(*other()).dtype == DType::F32 || is_formula(*other());
      case ScalarOp::Where: {
        const bool hides_true = path.contains(node.inputs[2]);
        return path.contains(node.inputs[0]) ||
               (is_formula(node.inputs[0]) && !shows_each_row_a_key(program_, graph_, node.inputs[0], hides_true));
      }
      default: return true;
    }
  }
  // Made of positions and of tensors with few elements, and not the same for all queries.
  bool is_formula(ValueId mask) const {
    const TensorType& type = graph_.type(mask);
    const size_t rank = type.sizes.size();
    if (rank < 2) return false;
    const int64_t least = sym::evaluate_hint(type.sizes[rank - 1] * type.sizes[rank - 2]);
    std::vector<ValueId> waiting = {mask};
    std::unordered_set<ValueId> seen;
    bool is_computed = false;
    while (!waiting.empty()) {
      const ValueId id = waiting.back();
      waiting.pop_back();
      if (!seen.insert(id).second) continue;
      if (seen.size() > kMostParts) return false;
      const Node& node = graph_.producer(id);
      const int64_t elements = sym::evaluate_hint(graph_.type(id).numel());
      const bool is_pointwise = std::holds_alternative<Pointwise>(node.op);
      const bool is_inside = is_pointwise || std::holds_alternative<Cast>(node.op) || std::holds_alternative<Expand>(node.op) ||
                             std::holds_alternative<Permute>(node.op) || std::holds_alternative<Reshape>(node.op) ||
                             std::holds_alternative<Slice>(node.op) || std::holds_alternative<Gather>(node.op);
      is_computed = is_computed || (elements >= least && (is_pointwise || std::holds_alternative<Gather>(node.op)));
      if (is_inside) {
        waiting.insert(waiting.end(), node.inputs.begin(), node.inputs.end());
      } else if (!std::holds_alternative<Full>(node.op) && !std::holds_alternative<Iota>(node.op) && elements > least / kSmallerThanMask) {
        return false;
      }
    }
    return is_computed;
  }

  const Program& program_;
  const Graph& graph_;
  Uses uses_;
};

class ScoresBuilder {
 public:
  ScoresBuilder(GraphCopy& copy, Builder& builder) : copy_(copy), b_(builder) {}

  ValueId of_attention(const Node& node) {
    const auto& op = std::get<Attention>(node.op);
    const Tensor q = taken(node.inputs[0]), k = taken(node.inputs[1]), v = taken(node.inputs[2]);
    Tensor scores = product(q, k);
    const Sizes sizes = scores.sizes();
    scores = scores * op.scale + b_.expand(wide(taken(node.inputs[3])), sizes);
    if (op.causal) {
      const Tensor visible = b_.binary(ScalarOp::Le, b_.iota(sizes, 3), b_.iota(sizes, 2));
      scores = b_.where(visible, scores, b_.scalar(scores.dtype(), -HUGE_VAL));
    }
    return result(q, k, v, scores, false).id();
  }

  // None where there is no kernel.
  std::optional<ValueId> of_products(const Graph& graph, const WrittenScores& written,
                                     const std::function<bool(const TensorType&, const TensorType&)>& has_kernel) {
    const Tensor q = taken(written.q), k = transposed(graph, written.k), v = taken(written.v);
    const Sizes batch = q.sizes().without_last(2);
    if (!(batch == k.sizes().without_last(2)) || !(batch == v.sizes().without_last(2))) return std::nullopt;
    const formula::AttentionOperands in = formula::with_shared_heads({.q = formula::to_four_dims(q, batch),
                                                                      .k = formula::to_four_dims(k, batch),
                                                                      .v = formula::to_four_dims(v, batch),
                                                                      .mask = {},
                                                                      .causal = false,
                                                                      .scale = 1,
                                                                      .batch = batch});
    if (!has_kernel({.dtype = q.dtype(), .sizes = in.q.sizes()}, {.dtype = q.dtype(), .sizes = in.v.sizes()})) return std::nullopt;
    const Tensor of_heads = product(in.q, in.k);
    std::unordered_map<ValueId, Tensor> made;
    Sizes as_written = batch;
    as_written.append(of_heads.sizes().last(2));
    made.emplace(written.product, b_.reshape(of_heads, as_written));
    for (ValueId id : written.steps) made.emplace(id, step(graph, id, made));
    const Tensor scores = b_.reshape(wide(made.at(written.scores)), of_heads.sizes());
    return formula::from_four_dims(result(in.q, in.k, in.v, scores, true), batch).id();
  }

 private:
  Tensor taken(ValueId id) { return b_.wrap(copy_.copied(id)); }
  // Of matrices; of some that are so already, what they were before: keys that are repeated for heads are known by that.
  Tensor transposed(const Graph& graph, ValueId id) {
    const Node& node = graph.producer(id);
    const auto* permute = std::get_if<Permute>(&node.op);
    const int64_t rank = graph.type(id).rank();
    bool swaps = permute != nullptr;
    for (int64_t d = 0; swaps && d < rank; ++d) {
      const int64_t wanted = d + 2 < rank ? d : d + 2 == rank ? rank - 1 : rank - 2;
      swaps = permute->dims[static_cast<size_t>(d)] == wanted;
    }
    return swaps ? taken(node.inputs[0]) : b_.transpose(taken(id), -1, -2);
  }
  // In float32 where the model has 16 bits: the kernel rounds no scores.
  Tensor step(const Graph& graph, ValueId id, const std::unordered_map<ValueId, Tensor>& made) {
    const Node& node = graph.producer(id);
    std::vector<Tensor> inputs;
    for (ValueId input : node.inputs) {
      const auto found = made.find(input);
      const Tensor its = found == made.end() ? taken(input) : found->second;
      inputs.push_back(is_reduced_float(its.dtype()) ? wide(its) : its);
    }
    if (std::holds_alternative<Reshape>(node.op)) return b_.reshape(inputs[0], graph.type(id).sizes);
    if (const auto* pointwise = std::get_if<Pointwise>(&node.op)) return b_.pointwise(pointwise->op, std::move(inputs));
    const DType dtype = graph.type(id).dtype;
    return b_.cast(inputs[0], is_reduced_float(dtype) ? DType::F32 : dtype);
  }
  Tensor product(Tensor q, Tensor k) {
    Sizes sizes = q.sizes().without_last(1);
    sizes.push_back(k.size(-2));
    return b_.library(std::string(kAttentionProduct), {q, k}, {{.dtype = DType::F32, .sizes = sizes}})[0];
  }
  Tensor result(Tensor q, Tensor k, Tensor v, Tensor scores, bool is_nan_of_nothing) {
    Sizes sizes = q.sizes().without_last(1);
    sizes.push_back(v.size(-1));
    return b_.library(std::string(kAttentionOfScores), {q, k, v, scores}, {{.dtype = q.dtype(), .sizes = sizes}}, {is_nan_of_nothing})[0];
  }

  GraphCopy& copy_;
  Builder& b_;
};

}  // namespace

bool write_scores(Program& program, const std::function<bool(const TensorType& q, const TensorType& v)>& has_kernel) {
  bool changed = false;
  const auto write = [&](Graph& graph) {
    const ScoresMatcher matcher(program, graph);
    std::unordered_map<size_t, WrittenScores> written;
    std::unordered_set<size_t> masked;
    for (size_t i = 0; i < graph.num_nodes(); ++i) {
      const Node& node = graph.node(NodeId{static_cast<uint32_t>(i)});
      if (auto found = matcher.match(node)) written.emplace(i, std::move(*found));
      if (matcher.has_formula(node) && has_kernel(graph.type(node.inputs[0]), graph.type(node.inputs[2]))) masked.insert(i);
    }
    if (written.empty() && masked.empty()) return;
    GraphCopy copy(graph);
    Builder builder(copy.target(), *program.symbols, &program.guards);
    for (size_t i = 0; i < graph.num_nodes(); ++i) {
      const NodeId id{static_cast<uint32_t>(i)};
      const Node& node = graph.node(id);
      std::optional<ValueId> made;
      const auto found = written.find(i);
      if (found != written.end() || masked.contains(i)) {
        builder.set_provenance(node.provenance, graph.value(node.outputs[0]).name + "_t");
        ScoresBuilder scores(copy, builder);
        made = masked.contains(i) ? scores.of_attention(node) : scores.of_products(graph, found->second, has_kernel);
      }
      if (made) {
        copy.replace(node.outputs[0], *made);
        changed = true;
      } else {
        copy.node(id);
      }
    }
    graph = copy.finish();
  };
  write(program.graph);
  for (Graph& graph : program.subgraphs) write(graph);
  return changed;
}

}  // namespace toroid
