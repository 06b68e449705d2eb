// Rebuilds a graph node by node, for passes that drop or replace nodes: a graph's table only grows.
//
//   GraphCopy copy(old);
//   for each node of old: copy.node(id), or copy.forward(its output, an input of it): readers then take that, or copy.substitute(its output, a node
//                         without operands)
//   graph = copy.finish();
//
// Names, provenance, inputs, outputs and symbols' definitions carry over.
#pragma once

#include "graph/graph.h"

namespace toroid {

class GraphCopy {
 public:
  explicit GraphCopy(const Graph& source);

  // The copy of a node, with its operands translated.
  NodeId node(NodeId id);
  // A node of another kind in the place of the one that gives `value`, with its type and name.
  void substitute(ValueId value, Op op);
  // Uses of `value` become uses of `other`. Both are ids of the old graph; `other` was copied or forwarded before.
  void forward(ValueId value, ValueId other) { new_id(value) = new_id(other); }

  // For new nodes with operands: they are added to the new graph, to what stands there for a value of the old one, and their result takes
  // the place of a value, with its name.
  Graph& target() { return target_; }
  ValueId copied(ValueId value) const { return new_ids_[static_cast<size_t>(value)]; }
  void replace(ValueId value, ValueId made);

  // Outputs must have been copied or replaced.
  Graph finish();

 private:
  ValueId& new_id(ValueId old) { return new_ids_[static_cast<size_t>(old)]; }
  std::vector<ValueId> translate(const std::vector<ValueId>& values);

  const Graph& source_;
  Graph target_;
  std::vector<ValueId> new_ids_;
};

}  // namespace toroid
