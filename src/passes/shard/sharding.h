// How an operation is done by several processes that hold parts of its operands.
//
// The idea and its words are those of GSPMD (Xu et al., "GSPMD: General and Scalable Parallelization for ML Computation Graphs", 2021),
// on one row of processes: a tensor is *replicated*, each process having all of it, or *sharded* along one dim, of which process r has
// the r-th of equal parts. An operation on sharded operands gives a sharded result, or *partial sums*, which the processes add.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/builder.h"

namespace toroid::shard {

struct Sharding {
  int dim = -1;  // -1: replicated
  // A dim that holds several things after each other, as queries, keys and values in one product, has parts of each: the lengths of these
  // segments, which add up to its size. A process has its part of the first, then its part of the second, … Empty: one segment.
  std::vector<int64_t> segments = {};

  bool is_sharded() const { return dim >= 0; }
  auto operator<=>(const Sharding&) const = default;
};

// Can the tensor be sharded so: is its size a number, and do the processes divide it, or each segment?
bool can_shard(const TensorType& type, const Sharding& sharding, int64_t processes);

// How `to` is sharded where `from`, of which it is a reshape, is sharded so; none where no dim of it has the same parts. They are the same
// elements where the dims before have the same product.
std::optional<Sharding> reshaped(const TensorType& from, const Sharding& sharding, const TensorType& to, int64_t processes);

// The sharding of a dim with these segments; a single one is none.
Sharding in_segments(int dim, std::vector<int64_t> segments);

// The dim of `index` along which it counts 0, 1, 2, …; none where it is not known to.
std::optional<int> counted_dim(const Graph& graph, ValueId index);

struct NodeSharding {
  std::vector<Sharding> operands;  // as the operation takes them
  Sharding result;                 // of all its results
  bool is_partial = false;         // the results are addends: of the whole, or, where `result` is sharded, of each process's part
  // An operand whose numbers count along the sharded dim of the tensor that it indexes; a process counts in its part.
  std::optional<size_t> local_index = {};
};

// How to do a node whose operands are held like this. An operand may be wanted otherwise than it is held: replicated ones are cut for
// free, and sharded ones gathered. An operation that has no rule wants all of its operands replicated.
NodeSharding shard_node(const Graph& graph, const Node& node, std::span<const Sharding> held, int64_t processes);

// A product whose right side is sharded by columns, in these segments, or both sides along the depth.
NodeSharding product_by_columns(const Graph& graph, const Node& product, std::vector<int64_t> segments = {});
NodeSharding product_by_rows(const Graph& graph, const Node& product, std::vector<int64_t> segments = {});

// ---- to make a part

// Of a value that is sharded so.
TensorType part_type(TensorType type, const Sharding& sharding, int64_t processes);

// Positions along the whole dim, of the node's local_index, become those in part `rank`, which begins at its turn.
void count_in_part(Builder& b, const Graph& graph, const Node& node, const NodeSharding& sharding, std::vector<Tensor>& operands,
                   int64_t processes, int64_t rank);

// The node of `graph` in the builder's graph, whose operands and results are parts.
std::vector<Tensor> add_part(Builder& b, const Graph& graph, const Node& node, const std::vector<Tensor>& operands, const Sharding& result,
                             int64_t processes);

}  // namespace toroid::shard
