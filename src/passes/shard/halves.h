// Values that one process computes in two halves along a dim: of a batch (micro_batches.h), or its own rows and another process's
// (swap_rows.h). Which can be is told by the rules of sharding.h, here for two halves in one process in the place of two processes; where a
// rule is missing, halves are joined.
#pragma once

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "passes/shard/sharding.h"

namespace toroid::shard {

inline constexpr int64_t kHalves = 2;

struct Halves {
  std::vector<NodeSharding> nodes;
  std::vector<Sharding> values;
};

// How a node other than a collective operation has halves, given how its operands have them. What would have to be added has none.
NodeSharding halve_node(const Graph& graph, const Node& node, std::span<const Sharding> held);

// Builds the graph of a program anew, with halves.
class HalvesBuilder {
 public:
  HalvesBuilder(Program& program, const Halves& halves);

  const Graph& old() const { return old_; }
  Builder& builder() { return builder_; }
  bool has_halves(size_t node) const { return halves_.nodes[node].result.is_sharded(); }

  // This half of a node other than a collective operation; in the turn of any half all of one that has none.
  void add(size_t node, int64_t half);
  void give(ValueId value, Tensor whole);
  void give(ValueId value, int64_t half, Tensor part);
  Tensor as(ValueId value, const Sharding& wanted, int64_t half);
  Tensor whole(ValueId value);

  // Nodes from `begin` on that one half may go through before the other one begins: to the first collective operation, or to what needs
  // both halves of one of them.
  size_t end_of_stretch(size_t begin) const;

  void finish();

 private:
  struct Held {
    Tensor whole;
    std::array<Tensor, kHalves> own;                      // as its node gave them
    std::map<std::pair<Sharding, int64_t>, Tensor> cuts;  // of the whole
  };
  Held& held(ValueId value) { return held_[static_cast<size_t>(value)]; }

  Program& program_;
  const Graph old_;
  const Halves& halves_;
  Graph graph_;
  Builder builder_;
  std::vector<Held> held_;  // by old value
};

}  // namespace toroid::shard
