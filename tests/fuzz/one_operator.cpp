#include "fuzz/one_operator.h"

#include <algorithm>

#include "graph/builder.h"
#include "graph/text.h"
#include "passes/decompose/decompose.h"
#include "support/error.h"

namespace toroid::fuzz {

OneOperator one_operator(const OperatorContext& context, const Operands& operands, const std::string& call,
                         size_t results) {
  std::string text;
  for (const Symbol& symbol : context.symbols) {
    text += fmt::format("sym {} in [{}, {}]{}\n", symbol.name, symbol.least, symbol.most,
                        symbol.from_data ? " from data" : "");
  }
  std::string inputs;
  for (const auto& [name, type] : operands) inputs += fmt::format("{}{}: {}", inputs.empty() ? "" : ", ", name, type);
  std::string names;
  for (size_t i = 0; i < results; ++i) {
    names += fmt::format("{}r{}: {}", i > 0 ? ", " : "", i, i < context.declared.size() ? context.declared[i] : "f32[]");
  }
  text += fmt::format("graph({}) {{\n  {} = {}\n  return r0\n}}\n", inputs, names, call);

  OneOperator one;
  one.program = parse_text(text);
  const toroid::Node& node = one.program.graph.nodes().back();
  const Aten& aten = std::get<Aten>(node.op);
  one.schema = aten.schema;
  const Decomposition function = find_decomposition(*aten.schema);
  if (function == nullptr) throw Error(ErrorKind::Unsupported, fmt::format("{} is not supported", aten.schema->name));
  Graph core;
  std::vector<sym::Expr> guards;
  Builder builder(core, *one.program.symbols, &guards);
  std::vector<toroid::Tensor> inputs_by_place(one.program.graph.num_values());
  for (size_t i = 0; i < one.program.graph.inputs.size(); ++i) {
    const ValueId id = one.program.graph.inputs[i];
    const toroid::Tensor tensor =
        builder.emit(toroid::Input{static_cast<uint32_t>(i)}, {}, {one.program.graph.type(id)})[0];
    core.inputs.push_back(tensor.id());
    inputs_by_place[static_cast<size_t>(id)] = tensor;
  }
  std::vector<toroid::Tensor> inputs_of_node;
  for (ValueId input : node.inputs) inputs_of_node.push_back(inputs_by_place[static_cast<size_t>(input)]);
  Decomposer decomposer{builder, one.program, {}, {}, context.streams};
  if (!context.declared.empty()) {
    for (ValueId output : node.outputs) decomposer.recorded.push_back(one.program.graph.type(output));
  }
  const std::vector<toroid::Tensor> tensors =
      function(decomposer, Args(builder, *aten.schema, aten.arguments, std::move(inputs_of_node)));
  if (!decomposer.writes.empty()) throw Error(ErrorKind::InvalidInput, fmt::format("{} writes in secret", call));
  for (size_t i = 0; i < std::min(results, tensors.size()); ++i) {
    if (!tensors[i].defined()) throw Error(ErrorKind::InvalidInput, fmt::format("{} leaves a result undefined", call));
    core.outputs.push_back(tensors[i].id());
    one.types.push_back({.dtype = tensors[i].dtype(), .sizes = tensors[i].sizes()});
  }
  one.has_guards = !guards.empty() || !one.program.guards.empty();
  one.program.graph = std::move(core);
  one.program.outputs.assign(one.types.size(), {});
  return one;
}

std::vector<std::string> result_types(const OperatorContext& context, const Operands& operands,
                                      const std::string& call) {
  const OneOperator one =
      one_operator(context, operands, call, context.declared.empty() ? 16 : context.declared.size());
  if (one.has_guards) return {};
  std::vector<std::string> types;
  for (const TensorType& type : one.types) types.push_back(to_string(type));
  return types;
}

}  // namespace toroid::fuzz
