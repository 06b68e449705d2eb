#include "passes/shard/costs.h"

#include <algorithm>

namespace toroid::shard {
namespace {

double elements(const TensorType& type) { return static_cast<double>(sym::evaluate_hint(type.numel())); }

}  // namespace

bool is_product(const Op& op) { return std::holds_alternative<Matmul>(op) || is_library(op, "products.grouped"); }

double bytes(const TensorType& type) { return elements(type) * static_cast<double>(size_bytes(type.dtype)); }

double seconds(const Graph& graph, const Node& node, const Costs& costs, int64_t parts) {
  double operations = 0;
  if (is_product(node.op)) {
    operations =
        2 * elements(graph.type(node.outputs[0])) * static_cast<double>(sym::evaluate_hint(graph.type(node.inputs[0]).sizes.back()));
  } else if (std::holds_alternative<Attention>(node.op)) {
    const Sizes& keys = graph.type(node.inputs[1]).sizes;
    operations = 4 * elements(graph.type(node.inputs[0])) * static_cast<double>(sym::evaluate_hint(keys[keys.size() - 2]));
  } else {
    return 0;
  }
  const auto n = static_cast<double>(parts);
  double moved = bytes(graph.type(node.outputs[0])) / n;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool is_whole = is_product(node.op) && i > 0;
    moved += bytes(graph.type(node.inputs[i])) / (is_whole ? 1 : n);
  }
  return costs.start_s + std::max(operations / n / costs.operations_per_s, moved / costs.memory_bytes_per_s);
}

double gather_seconds(double bytes, int64_t processes, const Costs& costs) {
  const auto n = static_cast<double>(processes);
  return costs.latency_s + bytes * (n - 1) / n / costs.link_bytes_per_s;
}

}  // namespace toroid::shard
