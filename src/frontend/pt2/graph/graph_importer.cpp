#include "frontend/pt2/graph/graph_importer.h"

#include <array>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "frontend/pt2/call_tree.h"
#include "frontend/pt2/provenance.h"
#include "graph/builder.h"
#include "graph/type_rules.h"
#include "symbolic/real.h"

namespace toroid::pt2 {

GraphImporter::GraphImporter(Import& import, Graph& graph, const JsonValue& json, const Autocast& autocast, GraphImporter* around)
    : import_(import), graph_(graph), json_(json), autocast_(autocast), around_(around) {
  for (const JsonMember& member : json.at("tensor_values").members()) types_.emplace(member.key, &member.value);
  for (const JsonMember& member : json.at("sym_int_values").members()) integers_.emplace(member.key, &member.value);
  for (const JsonMember& member : json.at("sym_bool_values").members()) booleans_.emplace(member.key, &member.value);
  if (const JsonValue* floats = json.find_value("sym_float_values")) {
    for (const JsonMember& member : floats->members()) floats_.emplace(member.key, &member.value);
  }
}

void GraphImporter::import_main(const JsonValue& module) {
  const JsonValue& signature = module.at("signature");
  import_inputs(signature.at("input_specs"));
  import_nodes(json_.at("nodes").elements());
  import_outputs(signature.at("output_specs"), module);
  import_.program.call_tree = call_tree(module, json_);
}

ExprList GraphImporter::import_body() {
  ExprList numbers;
  for (const JsonValue& input : json_.at("inputs").elements()) {
    const JsonMember& member = read_union(input);
    if (member.key == "as_tensor") {
      add_input(member.value.at("name"));
    } else if (member.key == "as_int") {
      numbers.emplace_back(member.value.as_integer());
    } else if (member.key == "as_sym_int" && read_union(member.value).key == "as_name") {
      numbers.push_back(integer(read_union(member.value).value));
    } else {
      input.fail(fmt::format("a subgraph cannot take an input of kind '{}'", member.key.substr(0, 40)));
    }
  }
  import_nodes(json_.at("nodes").elements());
  for (const JsonValue& output : json_.at("outputs").elements()) {
    if (const std::optional<ValueId> value = output_value(output)) graph_.outputs.push_back(*value);
  }
  return numbers;
}

std::vector<ValueId> GraphImporter::import_inlined(std::span<const ValueId> operands) {
  size_t next = 0;
  for (const JsonValue& input : json_.at("inputs").elements()) {
    const JsonMember& member = read_union(input);
    if (member.key != "as_tensor") continue;
    if (next == operands.size()) input.fail("a body has more inputs than it is given");
    define(member.value.at("name"), operands[next++]);
  }
  import_nodes(json_.at("nodes").elements());
  std::vector<ValueId> results;
  for (const JsonValue& output : json_.at("outputs").elements()) {
    if (const std::optional<ValueId> value = output_value(output)) results.push_back(*value);
  }
  return results;
}

ValueId GraphImporter::tensor(const JsonValue& name) {
  const auto found = values_.find(name.as_string());
  if (found != values_.end()) return found->second;
  if (around_ == nullptr) name.fail(fmt::format("'{}' is used before anything defines it", name.as_string()));
  captured_.push_back(around_->tensor(name));
  add_input(name);
  return values_.at(name.as_string());
}

ValueId GraphImporter::complex_number(double real, double imaginary) {
  const auto parts = std::make_shared<std::array<double, 2>>(std::array{real, imaginary});
  ConstantData data;
  data.type.dtype = DType::C128;
  data.bytes = std::as_bytes(std::span(*parts));
  data.owner = parts;
  TensorType type = data.type;
  return add_single(Constant{import_.program.add_constant(std::move(data))}, std::move(type), "number");
}

sym::Expr GraphImporter::integer(const JsonValue& name) {
  if (const auto found = integers_.find(name.as_string()); found != integers_.end()) {
    return import_.sizes.read_int(*found->second);
  }
  if (const auto found = booleans_.find(name.as_string()); found != booleans_.end()) {
    return import_.sizes.read_bool(*found->second);
  }
  name.fail(fmt::format("the symbolic value '{}' is not defined", name.as_string()));
}

sym::Expr GraphImporter::real(const JsonValue& name) {
  const auto found = floats_.find(name.as_string());
  if (found == floats_.end()) name.fail(fmt::format("the symbolic float '{}' is not defined", name.as_string()));
  return import_.sizes.read_real(*found->second);
}

uint32_t GraphImporter::subgraph(const JsonValue& graph_argument) {
  Graph body;
  ExprList numbers = GraphImporter(import_, body, graph_argument.at("graph"), autocast_).import_body();
  import_.program.subgraphs.push_back(std::move(body));
  import_.body_numbers.push_back(std::move(numbers));
  return static_cast<uint32_t>(import_.program.subgraphs.size() - 1);
}

TensorType GraphImporter::type_of(const JsonValue& name) {
  const auto found = types_.find(name.as_string());
  if (found == types_.end()) name.fail(fmt::format("the tensor '{}' has no metadata", name.as_string()));
  return import_.sizes.read_type(*found->second);
}

void GraphImporter::define(const JsonValue& name, ValueId value) {
  if (!values_.emplace(name.as_string(), value).second) {
    name.fail(fmt::format("'{}' is defined twice", name.as_string()));
  }
}

ValueId GraphImporter::add_single(Op op, TensorType type, std::string_view name, std::vector<ValueId> inputs) {
  std::vector<TensorType> types;
  types.push_back(std::move(type));
  const NodeId node = graph_.add_node(std::move(op), std::move(inputs), std::move(types), {}, {value_name(name)});
  return graph_.node(node).outputs[0];
}

void GraphImporter::bind_real(const JsonValue& name, ValueId value) {
  const sym::Expr number = real(name);
  if (number.kind() != sym::Kind::Real || sym::function_of(number) != sym::RealFunction::Value) {
    name.fail(fmt::format("the float '{}' is no symbol", name.as_string()));
  }
  TensorType type = graph_.type(value);
  type.dtype = DType::F64;
  const ValueId wide = graph_.type(value).dtype == DType::F64 ? value : add_single(Cast{}, type, "number", {value});
  type.dtype = DType::I64;
  graph_.bindings.push_back({number.operands()[1], add_single(Bitcast{}, type, "number", {wide})});
}

ValueId GraphImporter::add_input(std::string_view name, TensorType type) {
  const ValueId value = add_single(Input{static_cast<uint32_t>(graph_.inputs.size())}, std::move(type), name);
  graph_.inputs.push_back(value);
  return value;
}

void GraphImporter::require_known_memory(std::string_view op, std::span<const ValueId> arguments) {
  if (!has_other_strides_ || !contains(kMemoryViews, op)) return;
  for (ValueId argument : arguments) {
    const auto* view = std::get_if<Aten>(&graph_.producer(argument).op);
    if (view == nullptr || !view->schema->is_view()) continue;
    throw Error(ErrorKind::Unsupported,
                fmt::format("{} of a view, in a model whose example input has strides that overlap or leave gaps", op))
        .help("export with an example input that is contiguous");
  }
}

void GraphImporter::import_nodes(std::span<const JsonValue> nodes) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string_view target = nodes[i].at("target").as_string();
    if (target != kVmapBegins) {
      if (target != kVmapLoads) import_node(nodes[i]);
      continue;
    }
    const size_t begin = i;
    for (size_t open = 1; open > 0;) {
      if (++i == nodes.size()) nodes[begin].fail("a vmap that nothing ends");
      const std::string_view inner = nodes[i].at("target").as_string();
      open += inner == kVmapBegins ? 1 : 0;
      open -= inner == kVmapEnds ? 1 : 0;
    }
    import_vmap(nodes[begin], nodes.subspan(begin + 1, i - begin - 1));
  }
}

const JsonMember& GraphImporter::argument(const JsonValue& node, size_t position) {
  const std::span<const JsonValue> inputs = node.at("inputs").elements();
  if (position >= inputs.size()) node.fail("too few arguments");
  return read_union(inputs[position].at("arg"));
}

const JsonValue& GraphImporter::tensor_argument(const JsonValue& node, size_t position) {
  const JsonMember& member = argument(node, position);
  if (member.key != "as_tensor") node.fail("expected a tensor");
  return member.value.at("name");
}

int64_t GraphImporter::integer_argument(const JsonValue& node, size_t position) {
  const JsonMember& member = argument(node, position);
  if (member.key != "as_int") node.fail("expected an integer");
  return member.value.as_integer();
}

const JsonValue& GraphImporter::only_output(const JsonValue& node) {
  const std::vector<const JsonValue*> names = output_names(node);
  if (names.size() != 1 || names[0] == nullptr) node.fail("expected one tensor as the result");
  return *names[0];
}

void GraphImporter::import_node(const JsonValue& node) {
  const std::string op = operator_name(node.at("target").as_string());
  ErrorContext context("importing node '{}' ({})", name_of_node(node).substr(0, 200), std::string_view(op).substr(0, 200));
  if (has_only_symbolic_outputs(node)) {
    if (contains(kReadsElement, op)) read_element(node, op);
    return;
  }
  if (contains(kRangeStatements, op) || op == kDualsBegin || op == kDualsEnd) return;
  if (op == kJvpBegins || op == kJvpEnds) {
    open_jvps_ += op == kJvpBegins ? 1 : -1;
    return;
  }
  const ProvenanceId place = graph_.add_provenance(read_provenance(op, name_of_node(node), node.find_value("metadata")));
  if (op.starts_with(kHigherOrder)) {
    import_higher_order(node, std::string_view(op).substr(kHigherOrder.size()), place);
    return;
  }
  if (op == kMakesDual) return add_dual(node, "aten::_make_dual", 2, place);
  if (op == kUnpacksDual) return add_dual(node, "aten::_unpack_dual", 1, place);
  if (op == kLeavesLevel) return define(only_output(node), tensor(tensor_argument(node, 0)));
  const Schema* schema = import_.schema_of(op);
  if (!schema) {
    add_unsupported(node, place, false);
    return;
  }
  if (!import_.is_supported(*schema)) {
    import_.unsupported.add(graph_.provenance(place), true);
  }
  NodeArguments arguments = read_arguments(node.at("inputs").elements(), node.at("inputs"), *schema, *this);
  // The ranges of symbols, which the program checks where they are defined, already imply many assertions.
  if (op == "aten::_assert_scalar" && arguments.arguments[0] == Argument(sym::Expr(1))) return;
  require_known_memory(op, arguments.inputs);
  const bool converts = autocast_.cpu.enabled || autocast_.cuda.enabled;
  if (converts) convert_for_autocast(node, *schema, arguments, place);
  add_outputs(node, Aten{schema, std::move(arguments.arguments)}, std::move(arguments.inputs), place);
  if (converts && !schema->is_view() && !schema->mutates()) round_for_autocast(node, place);
}

void GraphImporter::convert_for_autocast(const JsonValue& node, const Schema& schema, NodeArguments& arguments, ProvenanceId place) {
  std::vector<TensorType> inputs, results;
  for (ValueId input : arguments.inputs) inputs.push_back(graph_.type(input));
  for (const JsonValue* name : output_names(node)) {
    if (name) results.push_back(type_of(*name));
  }
  const std::vector<DType> dtypes = autocast_inputs(autocast_, schema, arguments.arguments, inputs, results);
  for (size_t i = 0; i < dtypes.size(); ++i) {
    if (dtypes[i] != inputs[i].dtype) arguments.inputs[i] = converted(arguments.inputs[i], dtypes[i], place);
  }
}

void GraphImporter::round_for_autocast(const JsonValue& node, ProvenanceId place) {
  for (const JsonValue* name : output_names(node)) {
    if (!name) continue;
    ValueId& value = values_.at(name->as_string());
    const TensorType type = graph_.type(value);
    const Autocast::Region& region = autocast_.of(type.device.type);
    if (!region.enabled || type.dtype != region.dtype) continue;
    const NodeId rounded = graph_.add_node(Bitcast{}, {value}, {type}, place, {fmt::format("{}_rounded", graph_.value(value).name)});
    value = graph_.node(rounded).outputs[0];
  }
}

ValueId GraphImporter::converted(ValueId value, DType dtype, ProvenanceId place) {
  const Schema* schema = find_schema("aten::_to_copy");
  TOROID_CHECK(schema != nullptr, "aten::_to_copy has a schema");
  std::vector<Argument> arguments;
  for (const Parameter& parameter : schema->parameters) arguments.push_back(parameter.default_value.value_or(None{}));
  arguments[0] = InputRef{0};
  arguments[1] = dtype;
  TensorType type = graph_.type(value);
  type.dtype = dtype;
  type.storage_offset = {};
  const std::string name = fmt::format("{}_{}", graph_.value(value).name, to_string(dtype));
  const NodeId node = graph_.add_node(Aten{schema, std::move(arguments)}, {value}, {std::move(type)}, place, {name});
  return graph_.node(node).outputs[0];
}

void GraphImporter::read_element(const JsonValue& node, std::string_view op) {
  const JsonMember& output = read_union(node.at("outputs").elements()[0]);
  const JsonMember& value = read_union(output.value);
  const Schema* schema = find_schema(op);
  if (value.key != "as_name" || !schema) node.fail("item() gives a number that has no name");
  const ProvenanceId place = graph_.add_provenance(read_provenance(std::string(op), name_of_node(node), node.find_value("metadata")));
  NodeArguments arguments = read_arguments(node.at("inputs").elements(), node.at("inputs"), *schema, *this);
  if (arguments.inputs.size() != 1) node.fail("item() takes one tensor");
  TensorType type;
  type.dtype = graph_.type(arguments.inputs[0]).dtype;
  type.device = graph_.type(arguments.inputs[0]).device;
  const NodeId id = graph_.add_node(Aten{schema, std::move(arguments.arguments)}, std::move(arguments.inputs), {type}, place,
                                    {value_name(value.value.as_string())});
  if (output.key == "as_sym_float") return bind_real(value.value, graph_.node(id).outputs[0]);
  if (!is_integral(type.dtype) && type.dtype != DType::Bool) {
    node.fail(fmt::format("'{}' is an integer, and is read from {}", value.value.as_string().substr(0, 80), to_string(type)));
  }
  graph_.bindings.push_back({integer(value.value), graph_.node(id).outputs[0]});
}

void GraphImporter::add_unsupported(const JsonValue& node, ProvenanceId place, bool is_known) {
  import_.unsupported.add(graph_.provenance(place), is_known);
  add_outputs(node, HigherOrder{graph_.provenance(place).op, {}}, {}, place);
}

std::vector<const JsonValue*> GraphImporter::output_names(std::span<const JsonValue> outputs) {
  std::vector<const JsonValue*> names;
  for (const JsonValue& output : outputs) {
    const JsonMember& member = read_union(output);
    if (member.key == "as_tensor") {
      names.push_back(&member.value.at("name"));
    } else if (member.key == "as_tensors") {
      for (const JsonValue& tensor : member.value.elements()) names.push_back(&tensor.at("name"));
    } else if (member.key == "as_optional_tensors") {
      for (const JsonValue& element : member.value.elements()) {
        const JsonMember& tensor = read_union(element);
        names.push_back(tensor.key == "as_tensor" ? &tensor.value.at("name") : nullptr);
      }
    } else if (member.key == "as_optional_tensor") {
      const JsonMember& tensor = read_union(member.value);
      names.push_back(tensor.key == "as_tensor" ? &tensor.value.at("name") : nullptr);
    } else if (member.key == "as_none" || is_symbolic(member.key)) {
      names.push_back(nullptr);
    } else {
      output.fail(fmt::format("a node's result cannot be of kind '{}'", member.key.substr(0, 40)));
    }
  }
  return names;
}

std::vector<const JsonValue*> GraphImporter::tensor_results(const JsonValue& node) {
  std::vector<const JsonValue*> names;
  for (const JsonValue& output : node.at("outputs").elements()) {
    const JsonMember& member = read_union(output);
    if (member.key == "as_none") continue;
    const std::vector<const JsonValue*> more = output_names(std::span(&output, 1));
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

void GraphImporter::add_outputs(const JsonValue& node, Op op, std::vector<ValueId> inputs, ProvenanceId place) {
  const std::vector<const JsonValue*> names = output_names(node);
  std::vector<TensorType> types;
  // A result that is no tensor keeps its position with a stand-in that nothing can name.
  for (const JsonValue* name : names) types.push_back(name ? type_of(*name) : TensorType{});
  add_results(names, std::move(op), std::move(inputs), std::move(types), place);
}

void GraphImporter::add_results(const std::vector<const JsonValue*>& names, Op op, std::vector<ValueId> inputs,
                                std::vector<TensorType> types, ProvenanceId place) {
  std::vector<std::string> texts;
  for (const JsonValue* name : names) texts.push_back(value_name(name ? name->as_string() : "none"));
  const NodeId id = graph_.add_node(std::move(op), std::move(inputs), std::move(types), place, std::move(texts));
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i]) define(*names[i], graph_.node(id).outputs[i]);
  }
}

}  // namespace toroid::pt2
