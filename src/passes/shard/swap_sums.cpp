#include "passes/shard/swap_sums.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graph/builder.h"
#include "library/collectives/mpi.h"
#include "passes/collective.h"
#include "passes/graph_copy.h"
#include "passes/shard/costs.h"

namespace toroid {
namespace {

// Its attributes: the reduction, then how many processes (library/collectives/collectives.h).
bool is_sum_of_two(const Graph& graph, const Node& node, double least_bytes) {
  if (!is_library(node.op, "collectives.all_reduce")) return false;
  const auto& op = std::get<Library>(node.op);
  const TensorType& type = graph.type(node.inputs[0]);
  return known_attribute(op, 0) == static_cast<int64_t>(collectives::Reduction::Sum) && known_attribute(op, 1) == 2 &&
         is_floating(type.dtype) && shard::bytes(type) >= least_bytes;
}

class Swapper {
 public:
  Swapper(Program& program, double least_bytes)
      : graph_(program.graph), least_bytes_(least_bytes), copy_(graph_), builder_(copy_.target(), *program.symbols, &program.guards) {}

  Graph run() {
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      const NodeId id{static_cast<uint32_t>(i)};
      const Node& node = graph_.node(id);
      for (ValueId input : node.inputs) add(input);
      const NodeId copied = copy_.node(id);
      if (is_sum_of_two(graph_, node, least_bytes_)) swap(node, copied);
    }
    for (ValueId output : graph_.outputs) add(output);
    for (const SymbolBinding& binding : graph_.bindings) add(binding.value);
    return copy_.finish();
  }

 private:
  void swap(const Node& node, NodeId copied) {
    Node& made = copy_.target().node(copied);
    auto& op = std::get<Library>(made.op);
    op.name = "collectives.swap";
    op.attributes.erase(op.attributes.begin());
    waiting_.emplace(node.outputs[0], made.inputs[0]);
  }

  // Where the sum is first read: what stands before that runs beside the swap.
  void add(ValueId sum) {
    const auto found = waiting_.find(sum);
    if (found == waiting_.end()) return;
    const Node& node = graph_.producer(sum);
    builder_.set_provenance(node.provenance, graph_.value(sum).name);
    const Tensor own = builder_.wrap(found->second), other = builder_.wrap(copy_.copied(sum));
    copy_.target().rename(other.id(), graph_.value(sum).name + "_swapped");
    copy_.replace(sum, builder_.binary(ScalarOp::Add, own, other).id());
    waiting_.erase(found);
  }

  const Graph& graph_;
  const double least_bytes_;
  GraphCopy copy_;
  Builder builder_;
  std::map<ValueId, ValueId> waiting_;  // sums that nobody has read yet, and what is added, in the copy
};

}  // namespace

bool swap_sums(Program& program, const PassCosts& costs) {
  const std::vector<Node>& nodes = program.graph.nodes();
  const auto is_one = [&](const Node& node) { return is_sum_of_two(program.graph, node, costs.swapped_from_bytes); };
  if (std::none_of(nodes.begin(), nodes.end(), is_one)) return false;
  program.graph = Swapper(program, costs.swapped_from_bytes).run();
  return true;
}

}  // namespace toroid
