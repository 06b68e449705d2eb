// How shardings go through a graph, given what begins them (plan.h).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "passes/shard/plan.h"

namespace toroid::shard {

// Sets of values that are sharded together.
class Regions {
 public:
  struct Region {
    double saved_s = 0, communication_s = 0;
    std::vector<NodeId> products;  // that began it
    std::vector<NodeId> behind;    // other products by weights
    std::vector<ConstantId> buffers;
    bool has_attention = false;  // what follows from activations is multiplied by other such
  };

  size_t add();
  size_t join(size_t a, size_t b);
  Region& of(size_t id) { return regions_[find(id)]; }
  size_t size() const { return parent_.size(); }
  bool is_root(size_t id) const { return parent_[id] == id; }

 private:
  size_t find(size_t id);

  std::vector<size_t> parent_;
  std::vector<Region> regions_;
};

struct Start {
  bool is_by_rows = false;
  std::vector<int64_t> segments = {};
};
// What is sharded where the first dim of some inputs is, and nothing else begins.
struct Batch {
  std::vector<bool> inputs;
  std::vector<Sharding> values;
};
struct Starts {
  std::map<NodeId, Start> products;
  std::map<ConstantId, Sharding> buffers;
  std::optional<Batch> batch;
  std::set<NodeId> whole;  // products that each process does for all of the batch
};

Batch batch_through(const Graph& graph, std::vector<bool> inputs, int64_t processes);

// The i-th output as the caller wants it, `of_caller`, or the buffer that it updates.
Sharding output_sharding(const Program& program, size_t i, const Sharding& of_caller, const Starts& starts);

// One way through the graph.
class Propagation {
 public:
  // by_weights: all products by weights. All must live as long.
  Propagation(const Program& program, int64_t processes, const Costs& costs, const Starts& starts, const std::set<NodeId>& by_weights,
              Plan& plan);

  // Fills in the plan, but for its inputs, outputs, buffers and products.
  void run();

  Regions& regions() { return regions_; }

 private:
  void visit(NodeId id);
  NodeSharding begin(NodeId id, std::span<const Sharding> held, size_t& region);
  NodeSharding begin_at_input(const Node& node, const Input& input, size_t& region);
  Sharding of_batch(ValueId value) const { return starts_.batch ? starts_.batch->values[static_cast<size_t>(value)] : Sharding(); }
  size_t take(ValueId value, const Sharding& wanted);
  void count(NodeId id, const NodeSharding& sharding, Regions::Region& region);
  double part_seconds(const Node& node, const NodeSharding& sharding) const;

  const Program& program_;
  const Graph& graph_;
  const int64_t processes_;
  const Costs& costs_;
  const Starts& starts_;
  const std::set<NodeId>& by_weights_;
  Plan& plan_;
  Regions regions_;
  std::vector<size_t> region_of_;  // of sharded values
  std::vector<bool> is_gathered_;
};

}  // namespace toroid::shard
