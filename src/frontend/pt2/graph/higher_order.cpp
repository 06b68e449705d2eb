#include <fmt/format.h>

#include "base/error.h"
#include "frontend/pt2/graph/graph_importer.h"
#include "frontend/pt2/provenance.h"
#include "frontend/pt2/triton_node.h"
#include "graph/builder.h"
#include "graph/control_flow.h"
#include "graph/type_rules.h"

namespace toroid::pt2 {

void GraphImporter::import_higher_order(const JsonValue& node, std::string_view name, ProvenanceId place) {
  const JsonValue& inputs = node.at("inputs");
  if (name == kGradientRegion && inputs.elements().size() >= 2) {
    inline_region(node, 1, autocast_);
    return;
  }
  if (name == kAutocastRegion && inputs.elements().size() >= 5) {
    inline_region(node, 4, read_autocast(inputs.elements()));
    return;
  }
  if (name == kWithEffects && inputs.elements().size() >= 2) {
    import_effect(node);
    return;
  }
  if (name == kFunctionalized && !inputs.elements().empty()) {
    import_functionalized(node);
    return;
  }
  if (name == kTritonKernel) {
    import_triton(node);
    return;
  }
  if (!contains(kControlFlow, name)) {
    add_unsupported(node, place, false);
    return;
  }
  NodeArguments arguments = read_arguments(inputs, *this);
  const HigherOrder op{std::string(name), std::move(arguments.arguments)};
  std::vector<TensorType> types = types_of_control_flow(op, arguments.inputs);
  check_numbers(node, op);
  const std::vector<const JsonValue*> names = tensor_results(node);
  if (names.size() != types.size()) {
    node.at("outputs").fail(fmt::format("{} gives {} tensors, and the model records {}", name, types.size(), names.size()));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (names[i] == nullptr) continue;
    TensorType recorded = type_of(*names[i]);
    if (!may_agree(types[i], recorded)) {
      names[i]->fail(fmt::format("{} gives {} as result {}, '{}', and the model records {}", name, to_string(types[i]), i,
                                 names[i]->as_string().substr(0, 200),
                                 to_string(TensorType{.dtype = recorded.dtype, .sizes = recorded.sizes})));
    }
    types[i] = std::move(recorded);
  }
  add_results(names, op, std::move(arguments.inputs), std::move(types), place);
}

void GraphImporter::import_effect(const JsonValue& node) {
  const std::span<const JsonValue> inputs = node.at("inputs").elements(), outputs = node.at("outputs").elements();
  const std::string op = effect_of(node);
  const ProvenanceId place = graph_.add_provenance(read_provenance(op, name_of_node(node), node.find_value("metadata")));
  if (outputs.empty() || read_union(outputs[0]).key != "as_tensor") node.fail("an effect gives no token");
  define(read_union(outputs[0]).value.at("name"), tensor(tensor_argument(node, 0)));
  const Schema* schema = import_.schema_of(op);
  const bool is_supported = schema != nullptr && import_.is_supported(*schema);
  if (!is_supported) return import_.unsupported.add(graph_.provenance(place), schema != nullptr);
  NodeArguments arguments = read_arguments(inputs.subspan(2), node.at("inputs"), *schema, *this);
  const std::vector<const JsonValue*> names = output_names(outputs.subspan(1));
  std::vector<TensorType> types;
  for (const JsonValue* name : names) types.push_back(name ? type_of(*name) : TensorType{});
  add_results(names, Aten{schema, std::move(arguments.arguments)}, std::move(arguments.inputs), std::move(types), place);
}

void GraphImporter::import_functionalized(const JsonValue& node) {
  const std::span<const JsonValue> inputs = node.at("inputs").elements();
  if (read_union(inputs[0].at("arg")).key != "as_operator") inputs[0].fail("expected an operator");
  const std::string op = operator_name(read_union(inputs[0].at("arg")).value.as_string());
  const ProvenanceId place = graph_.add_provenance(read_provenance(op, name_of_node(node), node.find_value("metadata")));
  const Schema* schema = import_.schema_of(op);
  if (schema == nullptr || !import_.is_supported(*schema)) {
    add_unsupported(node, place, schema != nullptr);
    return;
  }
  Schema others = *schema;
  std::erase_if(others.parameters, [](const Parameter& parameter) { return parameter.mutated; });
  std::vector<JsonValue> given;
  std::unordered_map<std::string_view, const JsonMember*> about_bases;
  for (const JsonValue& input : inputs.subspan(1)) {
    const std::string_view name = input.at("name").as_string();
    const bool is_given =
        std::any_of(others.parameters.begin(), others.parameters.end(), [&](const Parameter& p) { return p.name == name; });
    if (is_given || !name.starts_with('_')) {
      given.push_back(input);
    } else {
      about_bases.emplace(name, &read_union(input.at("arg")));
    }
  }
  NodeArguments arguments = read_arguments(given, node.at("inputs"), others, *this);
  std::vector<ValueId> copies;
  if (const auto bases = about_bases.find("_all_bases"); bases != about_bases.end() && bases->second->key == "as_tensors") {
    for (const JsonValue& base : bases->second->value.elements()) copies.push_back(copied(tensor(base.at("name")), place));
  }
  std::vector<Argument> all;
  for (size_t next = 0; const Parameter& parameter : schema->parameters) {
    if (!parameter.mutated) {
      all.push_back(std::move(arguments.arguments[next++]));
      continue;
    }
    arguments.inputs.push_back(copies[base_of(node, parameter.name, about_bases, copies.size())]);
    all.push_back(InputRef{static_cast<uint32_t>(arguments.inputs.size() - 1)});
  }
  const std::vector<const JsonValue*> names = output_names(node);
  const size_t results = schema->results.size(), before = std::max<size_t>(results, 1);
  if (names.size() != before + copies.size()) node.at("outputs").fail(fmt::format("expected {} results", before + copies.size()));
  std::vector<TensorType> types;
  for (size_t i = 0; i < results; ++i) types.push_back(names[i] ? type_of(*names[i]) : TensorType{});
  add_results({names.begin(), names.begin() + static_cast<ptrdiff_t>(results)}, Aten{schema, std::move(all)}, std::move(arguments.inputs),
              std::move(types), place);
  for (size_t i = 0; i < copies.size(); ++i) {
    if (names[before + i]) define(*names[before + i], copies[i]);
  }
}

void GraphImporter::import_triton(const JsonValue& node) {
  const std::string op = triton_operator(node);
  const ProvenanceId place = graph_.add_provenance(read_provenance(op, name_of_node(node), node.find_value("metadata")));
  const Schema* schema = import_.schema_of(op);
  if (schema == nullptr || !import_.is_supported(*schema)) {
    add_unsupported(node, place, schema != nullptr);
    return;
  }
  const TritonNode read = read_triton_node(node, *schema);
  NodeArguments arguments = read_arguments(read.arguments, node.at("inputs"), *schema, *this);
  std::vector<ValueId> after;  // of the arguments that the model takes for written to
  for (const size_t position : read.written) {
    const auto* input = position < arguments.arguments.size() ? std::get_if<InputRef>(&arguments.arguments[position]) : nullptr;
    if (input == nullptr) node.fail(fmt::format("argument {} is written to and is no tensor", position));
    ValueId& value = arguments.inputs[input->index];
    if (schema->parameters[position].mutated) value = copied(value, place);
    after.push_back(value);
  }
  const std::vector<const JsonValue*> names = output_names(node);
  if (names.size() != after.size()) node.at("outputs").fail(fmt::format("expected {} results", after.size()));
  add_results({}, Aten{schema, std::move(arguments.arguments)}, std::move(arguments.inputs), {}, place);
  for (size_t i = 0; i < after.size(); ++i) {
    if (names[i]) define(*names[i], after[i]);
  }
}

size_t GraphImporter::base_of(const JsonValue& node, std::string_view parameter,
                              const std::unordered_map<std::string_view, const JsonMember*>& about_bases, size_t count) {
  const auto about = [&](std::string_view what) -> const JsonMember* {
    const auto found = about_bases.find(fmt::format("_{}_{}", parameter, what));
    return found == about_bases.end() ? nullptr : found->second;
  };
  if (about("size") != nullptr || about("slice_dim") != nullptr) {
    throw Error(ErrorKind::Unsupported,
                fmt::format("an operator that writes to a view as '{}', in a model after run_decompositions()", parameter))
        .help("export the model without run_decompositions()");
  }
  const JsonMember* index = about("base_index");
  if (index == nullptr || index->key != "as_int") node.fail(fmt::format("expected the base of '{}'", parameter));
  const int64_t base = index->value.as_integer();
  if (base < 0 || static_cast<size_t>(base) >= count) node.fail(fmt::format("there is no base {}", base));
  return static_cast<size_t>(base);
}

ValueId GraphImporter::copied(ValueId value, ProvenanceId place) {
  const Schema* schema = find_schema("aten::clone");
  TOROID_CHECK(schema != nullptr, "aten::clone has a schema");
  TensorType type = graph_.type(value);
  type.storage_offset = {};
  const NodeId node = graph_.add_node(Aten{schema, {InputRef{0}, None{}}}, {value}, {std::move(type)}, place,
                                      {fmt::format("{}_copy", graph_.value(value).name)});
  return graph_.node(node).outputs[0];
}

std::vector<TensorType> GraphImporter::types_of_control_flow(const HigherOrder& op, const std::vector<ValueId>& inputs) const {
  std::vector<const TensorType*> operands;
  for (ValueId input : inputs) operands.push_back(&graph_.type(input));
  return control_flow_types(op, operands, import_.program.subgraphs, nullptr);
}

void GraphImporter::check_numbers(const JsonValue& node, const HigherOrder& op) {
  ExprList given;
  for (const Argument& argument : op.arguments) {
    if (const auto* numbers = std::get_if<ExprList>(&argument)) given.insert(given.end(), numbers->begin(), numbers->end());
  }
  for (const Argument& argument : op.arguments) {
    const auto* body = std::get_if<SubgraphRef>(&argument);
    if (body == nullptr || import_.body_numbers[body->index] == given) continue;
    node.fail(fmt::format("{} gives a subgraph other numbers than it takes", op.name));
  }
}

Autocast GraphImporter::read_autocast(std::span<const JsonValue> inputs) const {
  const JsonMember& device = read_union(inputs[0].at("arg"));
  const JsonMember& dtype = read_union(inputs[1].at("arg"));
  const JsonMember& enabled = read_union(inputs[2].at("arg"));
  const bool is_cpu = device.key == "as_string" && device.value.as_string() == "cpu";
  if (!is_cpu && !(device.key == "as_string" && device.value.as_string() == "cuda")) {
    inputs[0].fail("autocast is for a device of type cpu or cuda");
  }
  if (enabled.key != "as_bool") inputs[2].fail("expected a bool");
  Autocast autocast = autocast_;
  Autocast::Region& region = autocast.of(is_cpu ? Device::Type::Cpu : Device::Type::Cuda);
  region = Autocast{}.of(is_cpu ? Device::Type::Cpu : Device::Type::Cuda);
  region.enabled = enabled.value.as_bool();
  if (dtype.key == "as_scalar_type") region.dtype = read_dtype(dtype.value);
  if (region.enabled && !is_reduced_float(region.dtype)) inputs[1].fail("autocast converts to float16 or bfloat16");
  return autocast;
}

void GraphImporter::inline_region(const JsonValue& node, size_t graph, const Autocast& autocast) {
  const std::span<const JsonValue> inputs = node.at("inputs").elements();
  const JsonMember& body = read_union(inputs[graph].at("arg"));
  if (body.key != "as_graph") inputs[graph].fail("expected a graph");
  std::vector<ValueId> operands;
  for (const JsonValue& input : inputs.subspan(graph + 1)) {
    const JsonMember& argument = read_union(input.at("arg"));
    if (argument.key == "as_tensor") operands.push_back(tensor(argument.value.at("name")));
  }
  const std::vector<ValueId> results = GraphImporter(import_, graph_, body.value.at("graph"), autocast).import_inlined(operands);
  const std::vector<const JsonValue*> names = output_names(node);
  if (names.size() != results.size()) node.fail(fmt::format("{} results of a region for {} names", results.size(), names.size()));
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i]) define(*names[i], results[i]);
  }
}

}  // namespace toroid::pt2
