#include "passes/shard/sharding.h"

#include <algorithm>
#include <numeric>

#include "graph/builder.h"
#include "support/match.h"

namespace toroid::shard {
namespace {

// All operands and results sharded alike.
NodeSharding along(size_t operands, const Sharding& sharding) {
  return {.operands = std::vector<Sharding>(operands, sharding), .result = sharding};
}

NodeSharding replicated(size_t operands) { return {.operands = std::vector<Sharding>(operands), .result = {}}; }

std::optional<size_t> first_sharded(std::span<const Sharding> held) {
  const auto found = std::find_if(held.begin(), held.end(), [](const Sharding& each) { return each.is_sharded(); });
  return found == held.end() ? std::nullopt : std::optional(static_cast<size_t>(found - held.begin()));
}

Sharding moved(Sharding sharding, int64_t dim) {
  sharding.dim = static_cast<int>(dim);
  return sharding;
}

class Rules {
 public:
  Rules(const Graph& graph, const Node& node, std::span<const Sharding> held, int64_t processes)
      : graph_(graph), node_(node), held_(held), processes_(processes) {}

  NodeSharding run() const {
    const std::optional<size_t> first = first_sharded(held_);
    if (!first) return replicated(held_.size());
    const Sharding& sharding = held_[*first];
    const auto unless_along = [&](int dim) { return dim == sharding.dim ? std::nullopt : std::optional(along(held_.size(), sharding)); };
    std::optional<NodeSharding> found = match(
        node_.op,                                                                                 //
        [&](const Pointwise&) { return std::optional(along(held_.size(), sharding)); },           //
        [&](const Cast&) { return std::optional(along(1, sharding)); },                           //
        [&](const Bitcast&) { return std::optional(along(1, sharding)); },                        //
        [&](const Expand&) { return kept_size(sharding); },                                       //
        [&](const Permute& op) { return permuted(op, sharding); },                                //
        [&](const Reshape&) { return reshaped_here(sharding); },                                  //
        [&](const Slice& op) { return sliced(op, sharding); },                                    //
        [&](const Pad& op) { return padded(op, sharding); },                                      //
        [&](const Cat& op) { return op.dim == sharding.dim ? joined() : unless_along(op.dim); },  //
        [&](const Gather&) { return gathered(); },                                                //
        [&](const Scatter&) { return scattered(); },                                              //
        [&](const Reduce& op) { return reduced(op, sharding); },                                  //
        [&](const Scan& op) { return unless_along(op.dim); },                                     //
        [&](const Sort& op) { return unless_along(op.dim); },                                     //
        [&](const Matmul&) { return product(); },                                                 //
        [&](const Attention&) { return attention(); },                                            //
        [&](const Library& op) { return library(op); },                                           //
        [&](const auto&) { return std::optional<NodeSharding>(); });
    return found ? std::move(*found) : replicated(held_.size());
  }

 private:
  const TensorType& operand(size_t i) const { return graph_.type(node_.inputs[i]); }
  const TensorType& result() const { return graph_.type(node_.outputs[0]); }

  // Where operand and result have the same elements along the dim.
  std::optional<NodeSharding> kept_size(const Sharding& sharding) const {
    const auto d = static_cast<size_t>(sharding.dim);
    if (!sym::known_eq(operand(0).sizes[d], result().sizes[d])) return std::nullopt;
    return along(1, sharding);
  }

  std::optional<NodeSharding> permuted(const Permute& op, const Sharding& sharding) const {
    const auto found = std::find(op.dims.begin(), op.dims.end(), sharding.dim);
    return NodeSharding{.operands = {sharding}, .result = moved(sharding, found - op.dims.begin())};
  }

  std::optional<NodeSharding> reshaped_here(const Sharding& sharding) const {
    std::optional<Sharding> to = reshaped(operand(0), sharding, result(), processes_);
    if (!to) return std::nullopt;
    return NodeSharding{.operands = {sharding}, .result = std::move(*to)};
  }

  // All of the dim, or some of its segments.
  std::optional<NodeSharding> sliced(const Slice& op, const Sharding& sharding) const {
    const auto d = static_cast<size_t>(sharding.dim);
    if (!op.steps[d].is_const(1) || !op.starts[d].is_const()) return std::nullopt;
    if (op.starts[d].is_const(0) && sym::known_eq(operand(0).sizes[d], result().sizes[d])) return along(1, sharding);
    if (!result().sizes[d].is_const()) return std::nullopt;
    const int64_t first = op.starts[d].value(), last = first + result().sizes[d].value();
    std::vector<int64_t> taken;
    int64_t at = 0;
    for (int64_t length : sharding.segments) {
      if (at >= first && at + length <= last) taken.push_back(length);
      at += length;
    }
    if (std::accumulate(taken.begin(), taken.end(), int64_t{0}) != last - first) return std::nullopt;
    return NodeSharding{.operands = {sharding}, .result = in_segments(sharding.dim, std::move(taken))};
  }

  std::optional<NodeSharding> padded(const Pad& op, const Sharding& sharding) const {
    return op.low[static_cast<size_t>(sharding.dim)].is_const(0) ? kept_size(sharding) : std::nullopt;
  }

  // Tensors that are sharded along the dim in which they follow each other: its segments. Replicated ones are cut.
  std::optional<NodeSharding> joined() const {
    const int dim = held_[*first_sharded(held_)].dim;
    NodeSharding sharding{.operands = {held_.begin(), held_.end()}, .result = {}};
    std::vector<int64_t> segments;
    for (size_t i = 0; i < held_.size(); ++i) {
      Sharding& each = sharding.operands[i];
      if (!each.is_sharded()) each = {dim};
      if (each.dim != dim || !can_shard(operand(i), each, processes_)) return std::nullopt;
      if (each.segments.empty()) {
        segments.push_back(operand(i).sizes[static_cast<size_t>(dim)].value());
      } else {
        segments.insert(segments.end(), each.segments.begin(), each.segments.end());
      }
    }
    sharding.result = in_segments(dim, std::move(segments));
    return sharding;
  }

  std::optional<NodeSharding> reduced(const Reduce& op, const Sharding& sharding) const {
    if (std::find(op.dims.begin(), op.dims.end(), sharding.dim) != op.dims.end()) {
      if (op.op != ReduceOp::Sum || !is_floating(result().dtype)) return std::nullopt;
      return NodeSharding{.operands = {sharding}, .result = {}, .is_partial = true};
    }
    const auto before = std::count_if(op.dims.begin(), op.dims.end(), [&](int reduced) { return reduced < sharding.dim; });
    return NodeSharding{.operands = {sharding}, .result = moved(sharding, sharding.dim - before)};
  }

  // Rows of a table that all processes have, or of one of which each has a part along a dim that is not looked up.
  std::optional<NodeSharding> gathered() const {
    NodeSharding sharding;
    if (!held_[0].is_sharded()) {
      sharding = along(held_.size(), held_[*first_sharded(held_)]);
      sharding.operands[0] = {};
      return sharding;
    }
    const size_t index = 1 + static_cast<size_t>(held_[0].dim);
    const std::optional<int> dim = counted_dim(graph_, node_.inputs[index]);
    if (!dim || !held_[0].segments.empty() || !same_extent(held_[0].dim, *dim, result())) return std::nullopt;
    sharding = along(held_.size(), {*dim});
    sharding.operands[0] = held_[0];
    sharding.local_index = index;
    return sharding;
  }

  // Values written into a part: those whose places are in it. Values that arrive sharded make the tensor that they are written into so.
  std::optional<NodeSharding> scattered() const {
    const int rank = static_cast<int>(operand(0).rank());
    for (int d = 0; d < rank; ++d) {
      if (held_[0].is_sharded() && held_[0] != Sharding{d}) continue;
      const size_t index = 2 + static_cast<size_t>(d);
      const std::optional<int> dim = counted_dim(graph_, node_.inputs[index]);
      const bool is_wanted = held_[0].is_sharded() || (dim && held_[1] == Sharding{*dim});
      if (!dim || !is_wanted || !same_extent(d, *dim, operand(1))) continue;
      NodeSharding sharding = along(held_.size(), {*dim});
      sharding.operands[0] = sharding.result = {d};
      sharding.local_index = index;
      return sharding;
    }
    return std::nullopt;
  }
  bool same_extent(int table_dim, int dim, const TensorType& counted) const {
    return sym::known_eq(operand(0).sizes[static_cast<size_t>(table_dim)], counted.sizes[static_cast<size_t>(dim)]);
  }

  std::optional<NodeSharding> product() const {
    const int rank = static_cast<int>(result().rank()), rows = rank - 2, columns = rank - 1;
    const Sharding &a = held_[0], &b = held_[1];
    if (a.is_sharded() && a.dim < rows) return along(2, a);
    if (b.is_sharded() && b.dim < rows) return along(2, b);
    if (a.dim == columns) return product_by_rows(graph_, node_, a.segments);
    if (b.dim == rows) return product_by_rows(graph_, node_, b.segments);
    if (a.dim == rows) return NodeSharding{.operands = {a, {}}, .result = a};
    return product_by_columns(graph_, node_, b.segments);
  }

  // By heads, or by what stands before them. Heads of keys that serve several of queries are divided, too.
  std::optional<NodeSharding> attention() const {
    const int heads = static_cast<int>(result().rank()) - 3;
    const Sharding& first = held_[*first_sharded(held_)];
    if (first_sharded(held_) > 2 || first.dim > heads || !first.segments.empty()) return std::nullopt;
    NodeSharding sharding = along(held_.size(), first);
    for (size_t i = 0; i < 3; ++i) {
      if (!can_shard(operand(i), first, processes_)) return std::nullopt;
    }
    if (held_.size() == 4) {
      const TensorType& mask = operand(3);
      if (mask.rank() != result().rank()) return std::nullopt;
      if (mask.sizes[static_cast<size_t>(first.dim)].is_const(1)) {
        sharding.operands[3] = {};
      } else if (!can_shard(mask, first, processes_)) {
        return std::nullopt;
      }
    }
    return sharding;
  }

  // Of products by groups of rows, whose right sides [G, K, N] are sharded as those of other products.
  std::optional<NodeSharding> library(const Library& op) const {
    if (op.name != "products.grouped" || operand(0).rank() != 2 || operand(1).rank() != 3) return std::nullopt;
    const Sharding &a = held_[0], &b = held_[1];
    if (held_[2].is_sharded() || a.dim == 0 || b.dim == 0) return std::nullopt;
    if (a.dim == 1) return product_by_rows(graph_, node_, a.segments);
    if (b.dim == 1) return product_by_rows(graph_, node_, b.segments);
    return product_by_columns(graph_, node_, b.segments);
  }

  const Graph& graph_;
  const Node& node_;
  const std::span<const Sharding> held_;
  const int64_t processes_;
};

}  // namespace

Sharding in_segments(int dim, std::vector<int64_t> segments) {
  if (segments.size() == 1) segments.clear();
  return {dim, std::move(segments)};
}

bool can_shard(const TensorType& type, const Sharding& sharding, int64_t processes) {
  const sym::Expr size = type.sizes[static_cast<size_t>(sharding.dim)];
  if (!size.is_const() || size.value() <= 0 || size.value() % processes != 0) return false;
  if (sharding.segments.empty()) return true;
  return std::accumulate(sharding.segments.begin(), sharding.segments.end(), int64_t{0}) == size.value() &&
         std::all_of(sharding.segments.begin(), sharding.segments.end(), [&](int64_t length) { return length % processes == 0; });
}

std::optional<Sharding> reshaped(const TensorType& from, const Sharding& sharding, const TensorType& to, int64_t processes) {
  const sym::Expr before = sym::product(std::span(from.sizes).first(static_cast<size_t>(sharding.dim)));
  const sym::Expr size = from.sizes[static_cast<size_t>(sharding.dim)];
  const std::vector<int64_t>& segments = sharding.segments;
  sym::Expr passed = 1;
  for (int d = 0; d < to.rank(); ++d) {
    const sym::Expr here = to.sizes[static_cast<size_t>(d)];
    if (sym::known_eq(passed, before) && here.is_const() && here.value() > 1) {
      Sharding candidate{d, segments};
      const int64_t more = here.value(), whole = size.value();
      const bool has_equal_segments = std::all_of(segments.begin(), segments.end(), [&](int64_t length) { return length == segments[0]; });
      // A dim that numbers the segments: the next one has their elements.
      if (!segments.empty() && has_equal_segments && static_cast<size_t>(more) == segments.size() && d + 1 < to.rank()) {
        candidate = {d + 1};
      } else if (more >= whole && more % whole == 0) {
        for (int64_t& length : candidate.segments) length *= more / whole;
      } else if (whole % more == 0) {
        const int64_t unit = whole / more;
        if (std::any_of(segments.begin(), segments.end(), [&](int64_t length) { return length % unit != 0; })) return std::nullopt;
        for (int64_t& length : candidate.segments) length /= unit;
      } else if (!segments.empty()) {
        return std::nullopt;
      }
      return can_shard(to, candidate, processes) ? std::optional(std::move(candidate)) : std::nullopt;
    }
    passed *= here;
  }
  return std::nullopt;
}

std::optional<int> counted_dim(const Graph& graph, ValueId index) {
  const Node& node = graph.producer(index);
  if (const auto* iota = std::get_if<Iota>(&node.op)) return iota->dim;
  const bool keeps_numbers = std::holds_alternative<Expand>(node.op) || std::holds_alternative<Reshape>(node.op) ||
                             std::holds_alternative<Cast>(node.op) || std::holds_alternative<Permute>(node.op);
  if (!keeps_numbers) return std::nullopt;
  const std::optional<int> inner = counted_dim(graph, node.inputs[0]);
  if (!inner) return std::nullopt;
  const TensorType& from = graph.type(node.inputs[0]);
  const TensorType& to = graph.type(index);
  const sym::Expr count = from.sizes[static_cast<size_t>(*inner)];
  if (const auto* permute = std::get_if<Permute>(&node.op)) {
    return static_cast<int>(std::find(permute->dims.begin(), permute->dims.end(), *inner) - permute->dims.begin());
  }
  if (!std::holds_alternative<Reshape>(node.op)) {  // the same dims
    return sym::known_eq(to.sizes[static_cast<size_t>(*inner)], count) ? inner : std::nullopt;
  }
  // Sizes of 1 come and go.
  sym::Expr passed = 1;
  const sym::Expr before = sym::product(std::span(from.sizes).first(static_cast<size_t>(*inner)));
  for (int d = 0; d < to.rank(); ++d) {
    const sym::Expr size = to.sizes[static_cast<size_t>(d)];
    if (sym::known_eq(passed, before) && sym::known_eq(size, count)) return d;
    passed *= size;
  }
  return std::nullopt;
}

NodeSharding shard_node(const Graph& graph, const Node& node, std::span<const Sharding> held, int64_t processes) {
  return Rules(graph, node, held, processes).run();
}

NodeSharding product_by_columns(const Graph& graph, const Node& product, std::vector<int64_t> segments) {
  const int right = static_cast<int>(graph.type(product.inputs[1]).rank()) - 1;
  const int result = static_cast<int>(graph.type(product.outputs[0]).rank()) - 1;
  NodeSharding sharding = replicated(product.inputs.size());
  sharding.operands[1] = {right, segments};
  sharding.result = {result, std::move(segments)};
  return sharding;
}

NodeSharding product_by_rows(const Graph& graph, const Node& product, std::vector<int64_t> segments) {
  NodeSharding sharding = replicated(product.inputs.size());
  sharding.operands[0] = {static_cast<int>(graph.type(product.inputs[0]).rank()) - 1, segments};
  sharding.operands[1] = {static_cast<int>(graph.type(product.inputs[1]).rank()) - 2, std::move(segments)};
  sharding.is_partial = true;
  return sharding;
}

TensorType part_type(TensorType type, const Sharding& sharding, int64_t processes) {
  if (!sharding.is_sharded()) return type;
  type.strides.clear();
  sym::Expr& size = type.sizes[static_cast<size_t>(sharding.dim)];
  size = sym::floor_div(size, processes);
  return type;
}

void count_in_part(Builder& b, const Graph& graph, const Node& node, const NodeSharding& sharding, std::vector<Tensor>& operands,
                   int64_t processes, int64_t rank) {
  if (!sharding.local_index) return;
  Tensor& index = operands[*sharding.local_index];
  const Sharding& table = sharding.operands[0];
  const sym::Expr part = part_type(graph.type(node.inputs[0]), table, processes).sizes[static_cast<size_t>(table.dim)];
  index = b.binary(ScalarOp::Sub, index, Scalar(part * rank));
}

std::vector<Tensor> add_part(Builder& b, const Graph& graph, const Node& node, const std::vector<Tensor>& operands, const Sharding& result,
                             int64_t processes) {
  std::vector<TensorType> types;
  for (ValueId output : node.outputs) types.push_back(part_type(graph.type(output), result, processes));
  std::vector<ValueId> inputs;
  for (const Tensor& operand : operands) inputs.push_back(operand.id());
  Op op = node.op;
  // Some segments of those there are: each has as many times less in front of it.
  if (auto* slice = std::get_if<Slice>(&op); slice != nullptr && result.is_sharded()) {
    sym::Expr& start = slice->starts[static_cast<size_t>(result.dim)];
    start = sym::floor_div(start, processes);
  }
  const NodeId made = b.graph().add_node(std::move(op), std::move(inputs), std::move(types), node.provenance);
  std::vector<Tensor> results;
  for (ValueId output : b.graph().node(made).outputs) results.push_back(b.wrap(output));
  return results;
}

}  // namespace toroid::shard
