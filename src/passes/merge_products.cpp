#include "passes/merge_products.h"

#include <algorithm>
#include <map>

#include "graph/builder.h"
#include "passes/channels.h"
#include "passes/constant_values.h"
#include "passes/graph_copy.h"
#include "passes/uses.h"

namespace toroid {
namespace {

// What merging must save, of the time of the products that it joins: the joined weights are in memory besides.
constexpr double kLeastSaved = 0.05;

// A product that may join others.
struct Member {
  NodeId product;
  ValueId weights;                   // [k, n], or [n, k] if by_columns
  std::optional<ValueId> bias = {};  // [.., n] with all else 1
  ValueId result;                    // the product, or with the bias, perhaps in another shape
};

// What members must have in common: the left side, the dtype, how weights lie, and the result's shape but for the columns.
struct Key {
  ValueId left;
  DType dtype;
  bool by_columns, has_bias;
  std::vector<sym::Expr> rows;

  bool operator==(const Key&) const = default;
};

struct Merge {
  Key key;
  std::vector<Member> members;
};

class MergeFinder {
 public:
  MergeFinder(const Program& program, const PassCosts& costs)
      : graph_(program.graph), costs_(costs), constancy_(constant_values(program)), uses_(graph_) {}

  std::vector<Merge> run() const {
    std::vector<Merge> merges;
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      const NodeId id{static_cast<uint32_t>(i)};
      if (!std::holds_alternative<Matmul>(graph_.node(id).op)) continue;
      auto [key, member] = examine(id);
      if (!member || needs_a_pass(member->result)) continue;
      const auto known = std::find_if(merges.begin(), merges.end(), [&key = key](const Merge& merge) { return merge.key == key; });
      if (known != merges.end()) {
        known->members.push_back(*member);
      } else {
        merges.push_back({std::move(key), {*member}});
      }
    }
    std::erase_if(merges, [&](const Merge& merge) { return merge.members.size() < 2 || !pays(merge); });
    return merges;
  }

 private:
  const Sizes& sizes(ValueId id) const { return graph_.type(id).sizes; }

  std::pair<Key, std::optional<Member>> examine(NodeId id) const {
    const Node& node = graph_.node(id);
    const ValueId left = node.inputs[0], right = node.inputs[1], product = node.outputs[0];
    const auto* permute = std::get_if<Permute>(&graph_.producer(right).op);
    const ValueId weights = permute != nullptr ? graph_.producer(right).inputs[0] : right;
    Key key = {left, graph_.type(product).dtype, permute != nullptr, false, {}};
    if (sizes(product).size() != 2 || !are_weights(weights)) return {std::move(key), std::nullopt};
    Member member = {id, weights, {}, product};
    take_bias(member);
    key.has_bias = member.bias.has_value();
    const Sizes& shape = sizes(member.result);
    key.rows.assign(shape.begin(), shape.end() - 1);
    return {std::move(key), member};
  }

  // Tensors of the model, perhaps scaled; what else is computed, as from int4, the product may want to read before.
  bool are_weights(ValueId id) const {
    const Op& op = graph_.producer(id).op;
    return constancy_[static_cast<size_t>(id)] == Constancy::Weights &&
           (std::holds_alternative<Constant>(op) || std::holds_alternative<Library>(op));
  }

  // A reshape that keeps the columns may stand before the addition.
  void take_bias(Member& member) const {
    ValueId value = member.result;
    std::optional<NodeId> user = uses_.only_user(value);
    if (user && std::holds_alternative<Reshape>(graph_.node(*user).op)) {
      const ValueId shaped = graph_.node(*user).outputs[0];
      if (sizes(shaped).empty() || !sym::known_eq(sizes(shaped).back(), sizes(value).back())) return;
      value = shaped;
      user = uses_.only_user(value);
    }
    const auto* sum = user ? std::get_if<Pointwise>(&graph_.node(*user).op) : nullptr;
    if (sum == nullptr || sum->op != ScalarOp::Add) return;
    const Node& node = graph_.node(*user);
    const ValueId other = node.inputs[node.inputs[0] == value ? 1 : 0];
    member.bias = constant_of_channels(graph_, constancy_, other, sizes(value).size() - 1);
    // One number for all columns is no bias of them.
    if (member.bias && !sym::known_eq(graph_.type(*member.bias).numel(), sizes(value).back())) member.bias.reset();
    if (member.bias) member.result = node.outputs[0];
  }

  // Would a slice of a product cost another pass over it? A result that element-wise work alone reads is not stored now, and some calls
  // want their operands contiguous.
  bool needs_a_pass(ValueId value) const { return is_copied(value) || is_elementwise(value); }

  static bool is_view(const Node& node) { return std::holds_alternative<Reshape>(node.op) || std::holds_alternative<Permute>(node.op); }

  static bool wants_contiguous(const Node& node, ValueId value) {
    if (std::holds_alternative<Scatter>(node.op)) return node.inputs[0] == value;  // the base; its values are read where they are
    return std::holds_alternative<Library>(node.op) || std::holds_alternative<Convolution>(node.op) ||
           std::holds_alternative<HigherOrder>(node.op) || std::holds_alternative<Sort>(node.op);
  }

  bool is_copied(ValueId value) const {
    const std::vector<NodeId>& users = uses_.of(value);
    return uses_.is_kept(value) || std::any_of(users.begin(), users.end(), [&](NodeId user) {
             const Node& node = graph_.node(user);
             return wants_contiguous(node, value) || (is_view(node) && is_copied(node.outputs[0]));
           });
  }

  bool is_elementwise(ValueId value) const {
    const std::vector<NodeId>& users = uses_.of(value);
    return std::all_of(users.begin(), users.end(), [&](NodeId user) {
      const Node& node = graph_.node(user);
      return std::holds_alternative<Pointwise>(node.op) || std::holds_alternative<Cast>(node.op) ||
             (is_view(node) && is_elementwise(node.outputs[0]));
    });
  }

  bool pays(const Merge& merge) const {
    const int64_t rows = sizes(merge.key.left)[0].range().min;  // not the hint, which is no part of a program's key
    const int64_t depth = sizes(merge.members[0].weights)[merge.key.by_columns ? 1 : 0].value();
    ProductToEstimate all = {
        .dtype = merge.key.dtype, .m = std::max<int64_t>(rows, 1), .n = 0, .k = depth, .by_columns = merge.key.by_columns};
    double apart_s = 0;
    for (const Member& member : merge.members) {
      ProductToEstimate one = all;
      one.n = sizes(graph_.node(member.product).outputs[0])[1].value();
      all.n += one.n;
      apart_s += costs_.product_s(one);
    }
    return apart_s - costs_.product_s(all) >= kLeastSaved * apart_s;
  }

  const Graph& graph_;
  const PassCosts& costs_;
  const std::vector<Constancy> constancy_;
  const Uses uses_;
};

class Merger {
 public:
  Merger(Program& program, std::vector<Merge> merges)
      : graph_(program.graph), merges_(std::move(merges)), copy_(graph_), builder_(copy_.target(), *program.symbols, &program.guards) {}

  Graph run() {
    is_done_.resize(graph_.num_nodes());
    std::vector<const Merge*> first(graph_.num_nodes());
    for (const Merge& merge : merges_) {
      first[static_cast<size_t>(merge.members[0].product)] = &merge;
      for (const Member& member : merge.members) leave_out(member);
    }
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      if (first[i] != nullptr) join(*first[i]);
      copy(NodeId{static_cast<uint32_t>(i)});
    }
    return copy_.finish();
  }

 private:
  // The nodes from the product to its result.
  void leave_out(const Member& member) {
    for (ValueId value = member.result;;) {
      const NodeId id = graph_.value(value).producer;
      is_done_[static_cast<size_t>(id)] = true;
      if (id == member.product) return;
      const Node& node = graph_.node(id);
      value = node.inputs[0];
      if (node.inputs.size() == 2 && !leads_to(value, member.product)) value = node.inputs[1];
    }
  }
  bool leads_to(ValueId value, NodeId product) const {
    const NodeId id = graph_.value(value).producer;
    return id == product ||
           (std::holds_alternative<Reshape>(graph_.node(id).op) && graph_.value(graph_.node(id).inputs[0]).producer == product);
  }

  void copy(NodeId id) {
    if (is_done_[static_cast<size_t>(id)]) return;
    is_done_[static_cast<size_t>(id)] = true;
    copy_.node(id);
  }

  // What a constant follows from may stand behind the first product.
  Tensor constant(ValueId id) {
    copy_with_operands(graph_.value(id).producer);
    return builder_.wrap(copy_.copied(id));
  }
  void copy_with_operands(NodeId id) {
    if (is_done_[static_cast<size_t>(id)]) return;
    for (ValueId input : graph_.node(id).inputs) copy_with_operands(graph_.value(input).producer);
    copy(id);
  }

  Tensor joined(const std::vector<Tensor>& parts, int64_t dim) {
    Sizes sizes = parts[0].sizes();
    for (size_t i = 1; i < parts.size(); ++i) sizes[static_cast<size_t>(dim)] = sizes[static_cast<size_t>(dim)] + parts[i].size(dim);
    return builder_.library("weights.join", parts, {{.dtype = parts[0].dtype(), .sizes = sizes}}, {sym::Expr(dim)})[0];
  }

  void join(const Merge& merge) {
    const Member& first = merge.members[0];
    const Node& product = graph_.node(first.product);
    builder_.set_provenance(product.provenance, graph_.value(product.outputs[0]).name + "_t");
    std::vector<Tensor> weights, biases;
    for (const Member& member : merge.members) {
      weights.push_back(constant(member.weights));
      if (member.bias) biases.push_back(builder_.reshape(constant(*member.bias), {-1}));
    }
    Tensor right = joined(weights, merge.key.by_columns ? 0 : 1);
    if (merge.key.by_columns) right = builder_.transpose(right, 0, 1);
    Tensor all = builder_.matmul(builder_.wrap(copy_.copied(merge.key.left)), right);
    if (merge.key.has_bias) {
      Sizes sizes(merge.key.rows.begin(), merge.key.rows.end());
      sizes.push_back(all.size(1));
      all = builder_.reshape(all, sizes) + joined(biases, 0);
    }
    sym::Expr start = 0;
    for (const Member& member : merge.members) {
      const Node& node = graph_.producer(member.result);
      builder_.set_provenance(node.provenance, graph_.value(member.result).name + "_t");
      const sym::Expr columns = graph_.type(member.result).sizes.back();
      copy_.replace(member.result, builder_.slice(all, -1, start, columns).id());
      start = start + columns;
    }
  }

  const Graph& graph_;
  const std::vector<Merge> merges_;
  GraphCopy copy_;
  Builder builder_;
  std::vector<bool> is_done_;  // by node: copied, or no longer needed
};

}  // namespace

bool merge_products(Program& program, const PassCosts& costs) {
  if (!costs.product_s || returns_gradients(program)) return false;
  std::vector<Merge> merges = MergeFinder(program, costs).run();
  if (merges.empty()) return false;
  program.graph = Merger(program, std::move(merges)).run();
  return true;
}

}  // namespace toroid
