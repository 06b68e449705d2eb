#include "passes/channels.h"

#include "passes/fold_constants.h"

namespace toroid {

std::optional<ValueId> constant_of_channels(const Graph& graph, const std::vector<Constancy>& constancy, ValueId id, size_t channel) {
  if (std::holds_alternative<Expand>(graph.producer(id).op)) id = graph.producer(id).inputs[0];
  const Node& node = graph.producer(id);
  if (std::holds_alternative<Full>(node.op)) return has_fixed_attributes(node.op) ? std::optional(id) : std::nullopt;
  if (constancy[static_cast<size_t>(id)] == Constancy::None) return std::nullopt;
  const Sizes& sizes = graph.type(id).sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d != channel && !sizes[d].is_const(1)) return std::nullopt;
  }
  return id;
}

}  // namespace toroid
