#include "passes/constant_values.h"

#include <algorithm>

#include "passes/fold_constants.h"

namespace toroid {

std::optional<uint32_t> update_of(const Program& program, ConstantId id) {
  const ConstantData& data = program.constant(id);
  std::optional<uint32_t> found;
  for (uint32_t i = 0; data.is_buffer && i < program.outputs.size(); ++i) {
    if (program.outputs[i].kind == OutputKind::BufferMutation && program.outputs[i].target == data.name) found = i;
  }
  return found;
}
bool is_written(const Program& program, ConstantId id) { return update_of(program, id).has_value(); }

std::set<ConstantId> used_constants(const Program& program) {
  std::set<ConstantId> used;
  const auto add = [&](const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      if (const auto* constant = std::get_if<Constant>(&node.op)) used.insert(constant->id);
    }
  };
  add(program.graph);
  for (const Graph& graph : program.subgraphs) add(graph);
  return used;
}

bool returns_gradients(const Program& program) {
  return std::any_of(program.outputs.begin(), program.outputs.end(), [](const OutputSpec& output) {
    return output.kind == OutputKind::Gradient || output.kind == OutputKind::Loss || output.kind == OutputKind::ParameterMutation;
  });
}

std::vector<Constancy> constant_values(const Program& program) {
  const Graph& graph = program.graph;
  std::vector<Constancy> result(graph.num_values(), Constancy::None);
  for (const Node& node : graph.nodes()) {
    Constancy constancy = Constancy::Positions;
    if (const auto* constant = std::get_if<Constant>(&node.op)) {
      constancy = is_written(program, constant->id) ? Constancy::None : Constancy::Weights;
    }
    if (std::holds_alternative<Input>(node.op) || std::holds_alternative<RandomState>(node.op) ||
        std::holds_alternative<HigherOrder>(node.op) || !has_fixed_attributes(node.op)) {
      constancy = Constancy::None;
    }
    for (ValueId input : node.inputs) {
      const Constancy of_input = result[static_cast<size_t>(input)];
      if (of_input == Constancy::None || constancy == Constancy::None) {
        constancy = Constancy::None;
      } else {
        constancy = std::max(constancy, of_input);
      }
    }
    for (ValueId output : node.outputs) {
      const auto& sizes = graph.type(output).sizes;
      const bool is_fixed = std::all_of(sizes.begin(), sizes.end(), [](sym::Expr size) { return size.is_const(); });
      result[static_cast<size_t>(output)] = is_fixed ? constancy : Constancy::None;
    }
  }
  return result;
}

}  // namespace toroid
