#include "graph/graph.h"

#include <set>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid {

std::vector<sym::Expr> contiguous_strides(std::span<const sym::Expr> sizes) {
  std::vector<sym::Expr> strides(sizes.size());
  sym::Expr stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride = stride * sym::max(sizes[d], 1);
  }
  return strides;
}

std::string to_string(const Provenance& provenance) {
  std::string text = provenance.name;
  if (!provenance.op.empty() && provenance.op != provenance.name) text += fmt::format(" ({})", provenance.op);
  if (!provenance.module.empty()) text += fmt::format(" in {}", provenance.module);
  if (!provenance.source.empty()) text += fmt::format(", from {}", provenance.source);
  return text;
}

Graph::Graph() { provenances_.emplace_back(); }
Graph::Graph(const Graph&) = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(const Graph&) = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

Program::Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

NodeId Graph::add_node(Op op, std::vector<ValueId> inputs, std::vector<TensorType> output_types, ProvenanceId provenance,
                       std::vector<std::string> output_names) {
  const NodeId id{static_cast<uint32_t>(nodes_.size())};
  Node node{std::move(op), std::move(inputs), {}, provenance};
  for (ValueId input : node.inputs) {
    TOROID_CHECK(static_cast<size_t>(input) < values_.size(), "a node uses a value that does not exist");
  }
  for (size_t i = 0; i < output_types.size(); ++i) {
    const ValueId value{static_cast<uint32_t>(values_.size())};
    std::string name = i < output_names.size() ? std::move(output_names[i]) : std::string("t");
    values_.push_back({unique_name(std::move(name)), std::move(output_types[i]), id, static_cast<uint32_t>(i)});
    node.outputs.push_back(value);
  }
  nodes_.push_back(std::move(node));
  return id;
}

ProvenanceId Graph::add_provenance(Provenance provenance) {
  provenances_.push_back(std::move(provenance));
  return ProvenanceId{static_cast<uint32_t>(provenances_.size() - 1)};
}

std::string Graph::unique_name(std::string base) {
  if (base.empty()) base = "t";
  for (;;) {
    const uint32_t count = names_[base]++;
    if (count == 0) return base;
    std::string candidate = fmt::format("{}_{}", base, count);
    if (names_.try_emplace(candidate, 1).second) return candidate;
  }
}

ConstantId Program::add_constant(ConstantData data) {
  constants.push_back(std::move(data));
  return ConstantId{static_cast<uint32_t>(constants.size() - 1)};
}

bool is_returned(const OutputSpec& output) {
  return output.kind == OutputKind::User || output.kind == OutputKind::Loss || output.kind == OutputKind::Gradient;
}

std::vector<std::string> output_names(const Program& program) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  size_t returned = 0;
  for (const OutputSpec& output : program.outputs) {
    std::string name = output.name;
    if (is_returned(output)) {
      if (name.empty() && output.kind == OutputKind::Gradient) name = output.target + ".grad";
      if (name.empty()) name = output.kind == OutputKind::Loss ? "loss" : fmt::format("out{}", returned);
      if (!taken.insert(name).second) {
        int n = 2;
        while (!taken.insert(fmt::format("{}_{}", name, n)).second) ++n;
        name = fmt::format("{}_{}", name, n);
      }
      ++returned;
    } else {
      name = output.target;
    }
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace toroid
