#include "fuzz/one_operator.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/text/text.h"
#include "passes/decompose/complex/complex.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/engine/storage_types.h"

namespace toroid::fuzz {

OneOperator one_operator(const OperatorContext& context, const Operands& operands, const std::string& call, size_t results) {
  std::string text;
  for (const Symbol& symbol : context.symbols) {
    text += fmt::format("sym {} in [{}, {}]{}\n", symbol.name, symbol.least, symbol.most, symbol.from_data ? " from data" : "");
  }
  std::string inputs;
  for (const auto& [name, type] : operands) inputs += fmt::format("{}{}: {}", inputs.empty() ? "" : ", ", name, type);
  std::string names;
  for (size_t i = 0; i < results; ++i) {
    names += fmt::format("{}r{}: {}", i > 0 ? ", " : "", i, i < context.declared.size() ? context.declared[i] : "f32[]");
  }
  const std::string returned = results > 0 ? "r0" : operands.empty() ? "" : operands[0].first;
  text += fmt::format("graph({}) {{\n  {}{}{}\n  return {}\n}}\n", inputs, names, results == 0 ? "" : " = ", call, returned);

  OneOperator one;
  one.program = parse_text(text);
  const toroid::Node& node = one.program.graph.nodes().back();
  const Aten& aten = std::get<Aten>(node.op);
  one.schema = aten.schema;
  const bool is_complex_node = has_complex_values(one.program.graph, node);
  const Decomposition function = is_complex_node ? find_complex_decomposition(*aten.schema) : find_decomposition(*aten.schema);
  if (function == nullptr) throw Error(ErrorKind::Unsupported, fmt::format("{} is not supported", aten.schema->name));
  Graph core;
  std::vector<sym::Expr> guards;
  Builder builder(core, *one.program.symbols, &guards);
  std::vector<toroid::Tensor> inputs_by_place(one.program.graph.num_values());
  for (size_t i = 0; i < one.program.graph.inputs.size(); ++i) {
    const ValueId id = one.program.graph.inputs[i];
    const toroid::Tensor tensor = builder.emit(toroid::Input{static_cast<uint32_t>(i)}, {}, {type_held(one.program.graph.type(id))})[0];
    core.inputs.push_back(tensor.id());
    inputs_by_place[static_cast<size_t>(id)] = tensor;
  }
  std::vector<toroid::Tensor> inputs_of_node;
  for (ValueId input : node.inputs) inputs_of_node.push_back(inputs_by_place[static_cast<size_t>(input)]);
  Decomposer decomposer{builder, one.program, {}, {}, context.streams};
  for (ValueId input : node.inputs) decomposer.argument_types.push_back(one.program.graph.type(input));
  if (!context.declared.empty()) {
    for (ValueId output : node.outputs) decomposer.recorded.push_back(one.program.graph.type(output));
  }
  const std::vector<toroid::Tensor> tensors = function(decomposer, Args(builder, *aten.schema, aten.arguments, std::move(inputs_of_node)));
  if (!decomposer.writes.empty()) throw Error(ErrorKind::InvalidInput, fmt::format("{} writes in secret", call));
  const size_t wanted = results == 0 ? tensors.size() : std::min(results, tensors.size());
  for (size_t i = 0; i < wanted; ++i) {
    if (!tensors[i].defined()) throw Error(ErrorKind::InvalidInput, fmt::format("{} leaves a result undefined", call));
    core.outputs.push_back(tensors[i].id());
    const bool is_pairs = i < decomposer.recorded.size() && is_complex(decomposer.recorded[i].dtype);
    one.types.push_back(is_pairs ? decomposer.recorded[i] : TensorType{.dtype = tensors[i].dtype(), .sizes = tensors[i].sizes()});
  }
  one.has_guards = !guards.empty() || !one.program.guards.empty();
  one.program.graph = std::move(core);
  one.program.outputs.assign(one.types.size(), {});
  return one;
}

std::shared_ptr<const OneOperator> OperatorCache::get(const OperatorContext& context, const Operands& operands, const std::string& call,
                                                      size_t results) {
  std::string key = fmt::format("{} = {};", results, call);
  for (const auto& [name, type] : operands) key += fmt::format(" {}: {};", name, type);
  key += fmt::format(" {};", fmt::join(context.declared, ";"));
  for (const Symbol& symbol : context.symbols) key += fmt::format(" {} in [{}, {}]", symbol.name, symbol.least, symbol.most);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  auto made = std::make_shared<const OneOperator>(one_operator(context, operands, call, results));
  const std::span<const toroid::Node> nodes = made->program.graph.nodes();
  const bool draws =
      std::any_of(nodes.begin(), nodes.end(), [](const toroid::Node& node) { return std::holds_alternative<RandomState>(node.op); });
  if (!draws) known_.emplace(std::move(key), made);
  return made;
}

bool writes_to_list(std::string_view call) { return call.find("::_foreach_") != std::string_view::npos && is_in_place(call); }

std::vector<std::string> result_types(const OperatorContext& context, const Operands& operands, const std::string& call) {
  const size_t most = writes_to_list(call) ? 0 : context.declared.empty() ? 16 : context.declared.size();
  const OneOperator one = one_operator(context, operands, call, most);
  if (one.has_guards) return {};
  std::vector<std::string> types;
  for (const TensorType& type : one.types) types.push_back(to_string(type));
  return types;
}

}  // namespace toroid::fuzz
