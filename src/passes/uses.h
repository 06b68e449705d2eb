// Who reads each value of a graph.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace toroid {

class Uses {
 public:
  explicit Uses(const Graph& graph) : users_(graph.num_values()), is_kept_(graph.num_values()) {
    for (size_t i = 0; i < graph.num_nodes(); ++i) {
      const NodeId id{static_cast<uint32_t>(i)};
      for (ValueId input : graph.node(id).inputs) users_[static_cast<size_t>(input)].push_back(id);
    }
    for (ValueId output : graph.outputs) is_kept_[static_cast<size_t>(output)] = true;
    for (const SymbolBinding& binding : graph.bindings) is_kept_[static_cast<size_t>(binding.value)] = true;
  }

  // The nodes that read the value, once for each operand.
  const std::vector<NodeId>& of(ValueId value) const { return users_[static_cast<size_t>(value)]; }
  // Is it an output, or does it define a size?
  bool is_kept(ValueId value) const { return is_kept_[static_cast<size_t>(value)]; }
  // The one node that reads the value, as one operand; none where it is kept.
  std::optional<NodeId> only_user(ValueId value) const {
    return of(value).size() == 1 && !is_kept(value) ? std::optional(of(value)[0]) : std::nullopt;
  }

 private:
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_kept_;
};

}  // namespace toroid
