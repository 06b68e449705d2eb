#include "frontend/pt2/import.h"

#include <array>
#include <memory>
#include <span>
#include <unordered_map>

#include <fmt/format.h>

#include "base/error.h"
#include "frontend/pt2/archive.h"
#include "frontend/pt2/arguments.h"
#include "frontend/pt2/autocast.h"
#include "frontend/pt2/guards.h"
#include "frontend/pt2/output_names.h"
#include "frontend/pt2/provenance.h"
#include "frontend/pt2/triton_node.h"
#include "frontend/pt2/types.h"
#include "graph/builder.h"
#include "graph/control_flow.h"
#include "graph/custom/custom_operators.h"
#include "graph/type_rules.h"
#include "symbolic/real.h"

namespace toroid {
namespace pt2 {
namespace {

constexpr int64_t kSchemaMajor = 8;
constexpr std::string_view kTorchOps = "torch.ops.";
constexpr std::string_view kHigherOrder = "higher_order::";

// Control flow that the graph keeps as it is.
constexpr std::string_view kControlFlow[] = {"cond", "while_loop", "map_impl", "scan", "associative_scan"};
// A body that computes the same without its wrapper; (mode, body, operands…).
constexpr std::string_view kGradientRegion = "wrap_with_set_grad_enabled";
// A body whose operators convert their inputs; (device type, dtype, enabled, cache enabled, body, operands…).
constexpr std::string_view kAutocastRegion = "wrap_with_autocast";
// An operator whose effects are in order: (token, operator, its arguments…) gives a token, then the operator's results. Tokens hold
// nothing.
constexpr std::string_view kWithEffects = "with_effects";
// An operator that writes to its arguments, as run_decompositions() records it: (operator, its other arguments by name, for each x that it
// writes to _x_base_index, _all_bases) gives the operator's results, or None without any, and then the new value of each base.
constexpr std::string_view kFunctionalized = "auto_functionalized_v2";
// torch.vmap as export records it: between these two, values are slices of what was mapped. vmap(body, mapped, others,
// randomness) computes the body for each slice of the mapped tensors along their first dim, as map_impl does, in any order or all at
// once; with the randomness "same" all slices draw the same numbers.
constexpr std::string_view kVmapBegins = "torch._functorch.predispatch._vmap_increment_nesting";
constexpr std::string_view kVmapEnds = "torch._functorch.predispatch._vmap_decrement_nesting";
constexpr std::string_view kMapped = "torch._functorch.predispatch._add_batch_dim";      // (x, dim, level): a slice of x
constexpr std::string_view kStacked = "torch._functorch.predispatch._remove_batch_dim";  // (x, level, size, dim): all slices
constexpr std::string_view kVmapLoads = "torch._functorch.predispatch.lazy_load_decompositions";
// torch.func.jvp and torch.autograd.forward_ad: operators of dual tensors, which have a level. That of a tensor is how many jvps are open.
constexpr std::string_view kJvpBegins = "torch._functorch.predispatch._jvp_increment_nesting";
constexpr std::string_view kJvpEnds = "torch._functorch.predispatch._jvp_decrement_nesting";
constexpr std::string_view kDualsBegin = "torch._functorch.predispatch._enter_dual_level";
constexpr std::string_view kDualsEnd = "torch._functorch.predispatch._exit_dual_level";
constexpr std::string_view kMakesDual = "torch._functorch.predispatch._make_dual";          // (primal, tangent)
constexpr std::string_view kUnpacksDual = "torch._functorch.predispatch._unpack_dual";      // (x)
constexpr std::string_view kLeavesLevel = "torch._functorch.predispatch._unwrap_for_grad";  // (x): itself
constexpr std::string_view kTransforms[] = {kVmapBegins, kVmapEnds,   kMapped,   kStacked,   kVmapLoads,   kJvpBegins,
                                            kJvpEnds,    kDualsBegin, kDualsEnd, kMakesDual, kUnpacksDual, kLeavesLevel};
// These state ranges of symbols, which range_constraints states as well.
constexpr std::string_view kRangeStatements[] = {"aten::sym_constrain_range", "aten::sym_constrain_range_for_size"};
// These read a data-dependent integer out of a tensor.
constexpr std::string_view kReadsElement[] = {"aten::item", "aten::_local_scalar_dense"};

// These address the memory behind their argument.
constexpr std::string_view kMemoryViews[] = {"aten::as_strided", "aten::as_strided_", "aten::as_strided_copy", "aten::as_strided_scatter",
                                             "aten::slice_inverse"};

template <class List>
bool contains(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// "torch.ops.aten.add.Tensor" as "aten::add.Tensor"; the default overload has no suffix. Python's operators stay as
// they are.
std::string operator_name(std::string_view target) {
  if (!target.starts_with(kTorchOps)) return std::string(target);
  target.remove_prefix(kTorchOps.size());
  const size_t dot = target.find('.');
  if (dot == target.npos) return std::string(target);
  std::string_view op = target.substr(dot + 1);
  constexpr std::string_view kDefault = ".default";
  if (op.ends_with(kDefault)) op.remove_suffix(kDefault.size());
  return fmt::format("{}::{}", target.substr(0, dot), op);
}

std::string_view name_of_node(const JsonValue& node) {
  const JsonValue* name = node.find_value("name");
  return name ? name->as_string() : std::string_view("?");
}

// PyTorch names values by Python identifiers. Whatever else a file holds must not reach generated code.
std::string value_name(std::string_view name) {
  constexpr size_t kMaxBytes = 80;
  std::string identifier;
  for (char c : name.substr(0, kMaxBytes)) {
    const bool is_plain = c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    identifier += is_plain ? c : '_';
  }
  if (!identifier.empty() && identifier[0] >= '0' && identifier[0] <= '9') identifier.insert(0, 1, '_');
  return identifier;
}

// The operator of a node with effects.
std::string effect_of(const JsonValue& node) {
  const JsonValue& argument = node.at("inputs").elements()[1].at("arg");
  if (read_union(argument).key != "as_operator") argument.fail("expected an operator");
  return operator_name(read_union(argument).value.as_string());
}

bool is_symbolic(std::string_view kind) { return kind == "as_sym_int" || kind == "as_sym_bool" || kind == "as_sym_float"; }

// A node that computes sizes only; the file gives its results as expressions.
bool has_only_symbolic_outputs(const JsonValue& node) {
  const std::span<const JsonValue> outputs = node.at("outputs").elements();
  return !outputs.empty() &&
         std::all_of(outputs.begin(), outputs.end(), [](const JsonValue& output) { return is_symbolic(read_union(output).key); });
}

// PyTorch's, or that of an operator of the user's own; null: neither.
const Schema* known_schema(std::string_view op, const Pt2Options& options) {
  if (const Schema* schema = find_schema(op)) return schema;
  const CustomOperator* custom = options.operators != nullptr ? options.operators->find(op) : nullptr;
  return custom == nullptr ? nullptr : &custom->schema;
}

bool is_supported(const Schema& schema, const Pt2Options& options) {
  if (options.operators != nullptr && options.operators->of(schema) != nullptr) return true;
  return !options.is_supported || options.is_supported(schema);
}

// What the graphs of one program share while it is imported.
struct Import {
  Program& program;
  Archive& archive;
  SizeReader sizes;
  const Pt2Options& options;
  OperatorCounter unsupported;
  std::vector<ExprList> body_numbers = {};  // of each subgraph, its inputs that are numbers

  const Schema* schema_of(std::string_view op) const { return known_schema(op, options); }
  bool is_supported(const Schema& schema) const { return pt2::is_supported(schema, options); }
};

// Imports one graph of the file into one Graph. Its names are its own: subgraphs see nothing of the graph around them.
class GraphImporter : public ArgumentScope {
 public:
  // `around`: of the graph whose nodes this one computes slice by slice; its values may be used.
  GraphImporter(Import& import, Graph& graph, const JsonValue& json, const Autocast& autocast = {}, GraphImporter* around = nullptr)
      : import_(import), graph_(graph), json_(json), autocast_(autocast), around_(around) {
    for (const JsonMember& member : json.at("tensor_values").members()) types_.emplace(member.key, &member.value);
    for (const JsonMember& member : json.at("sym_int_values").members()) integers_.emplace(member.key, &member.value);
    for (const JsonMember& member : json.at("sym_bool_values").members()) booleans_.emplace(member.key, &member.value);
    if (const JsonValue* floats = json.find_value("sym_float_values")) {
      for (const JsonMember& member : floats->members()) floats_.emplace(member.key, &member.value);
    }
  }

  void import_main(const JsonValue& module) {
    const JsonValue& signature = module.at("signature");
    import_inputs(signature.at("input_specs"));
    import_nodes(json_.at("nodes").elements());
    import_outputs(signature.at("output_specs"), module);
  }

  // Returns the inputs that are numbers. They have no place in the graph: it knows them by their expressions.
  ExprList import_body() {
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

  // The body's values for these operands, with its nodes added to the graph around it.
  std::vector<ValueId> import_inlined(std::span<const ValueId> operands) {
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

  // ArgumentScope
  ValueId tensor(const JsonValue& name) override {
    const auto found = values_.find(name.as_string());
    if (found != values_.end()) return found->second;
    if (around_ == nullptr) name.fail(fmt::format("'{}' is used before anything defines it", name.as_string()));
    captured_.push_back(around_->tensor(name));
    add_input(name);
    return values_.at(name.as_string());
  }
  ValueId complex_number(double real, double imaginary) override {
    const auto parts = std::make_shared<std::array<double, 2>>(std::array{real, imaginary});
    ConstantData data;
    data.type.dtype = DType::C128;
    data.bytes = std::as_bytes(std::span(*parts));
    data.owner = parts;
    TensorType type = data.type;
    return add_single(Constant{import_.program.add_constant(std::move(data))}, std::move(type), "number");
  }
  sym::Expr integer(const JsonValue& name) override {
    if (const auto found = integers_.find(name.as_string()); found != integers_.end()) {
      return import_.sizes.read_int(*found->second);
    }
    if (const auto found = booleans_.find(name.as_string()); found != booleans_.end()) {
      return import_.sizes.read_bool(*found->second);
    }
    name.fail(fmt::format("the symbolic value '{}' is not defined", name.as_string()));
  }
  sym::Expr real(const JsonValue& name) override {
    const auto found = floats_.find(name.as_string());
    if (found == floats_.end()) name.fail(fmt::format("the symbolic float '{}' is not defined", name.as_string()));
    return import_.sizes.read_real(*found->second);
  }
  uint32_t subgraph(const JsonValue& graph_argument) override {
    Graph body;
    ExprList numbers = GraphImporter(import_, body, graph_argument.at("graph"), autocast_).import_body();
    import_.program.subgraphs.push_back(std::move(body));
    import_.body_numbers.push_back(std::move(numbers));
    return static_cast<uint32_t>(import_.program.subgraphs.size() - 1);
  }

 private:
  TensorType type_of(const JsonValue& name) {
    const auto found = types_.find(name.as_string());
    if (found == types_.end()) name.fail(fmt::format("the tensor '{}' has no metadata", name.as_string()));
    return import_.sizes.read_type(*found->second);
  }

  void define(const JsonValue& name, ValueId value) {
    if (!values_.emplace(name.as_string(), value).second) {
      name.fail(fmt::format("'{}' is defined twice", name.as_string()));
    }
  }

  ValueId add_single(Op op, TensorType type, std::string_view name, std::vector<ValueId> inputs = {}) {
    std::vector<TensorType> types;
    types.push_back(std::move(type));
    const NodeId node = graph_.add_node(std::move(op), std::move(inputs), std::move(types), {}, {value_name(name)});
    return graph_.node(node).outputs[0];
  }

  // The symbol that a float is called by holds the bits of the double that `value`, of rank 0, holds.
  void bind_real(const JsonValue& name, ValueId value) {
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

  ValueId add_input(std::string_view name, TensorType type) {
    const ValueId value = add_single(Input{static_cast<uint32_t>(graph_.inputs.size())}, std::move(type), name);
    graph_.inputs.push_back(value);
    return value;
  }
  void add_input(const JsonValue& name) { define(name, add_input(name.as_string(), type_of(name))); }

  // Where an input does not lie as in the example, neither do its views: what the model records of their memory is not what it is.
  void require_known_memory(std::string_view op, std::span<const ValueId> arguments) {
    if (!has_other_strides_ || !contains(kMemoryViews, op)) return;
    for (ValueId argument : arguments) {
      const auto* view = std::get_if<Aten>(&graph_.producer(argument).op);
      if (view == nullptr || !view->schema->is_view()) continue;
      throw Error(ErrorKind::Unsupported,
                  fmt::format("{} of a view, in a model whose example input has strides that overlap or leave gaps", op))
          .help("export with an example input that is contiguous");
    }
  }

  // ---- the main graph's inputs

  void import_inputs(const JsonValue& specs) {
    const std::span<const JsonValue> inputs = json_.at("inputs").elements();
    if (specs.elements().size() != inputs.size()) {
      specs.fail(fmt::format("the signature has {} inputs and the graph {}", specs.elements().size(), inputs.size()));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const JsonMember& spec = read_union(specs.elements()[i]);
      if (spec.key == "parameter") {
        import_weight(inputs[i], spec.value.at("parameter_name"));
      } else if (spec.key == "buffer") {
        import_weight(inputs[i], spec.value.at("buffer_name")).is_buffer = true;
      } else if (spec.key == "tensor_constant") {
        import_weight(inputs[i], spec.value.at("tensor_constant_name"));
      } else if (spec.key == "user_input") {
        import_user_input(inputs[i]);
      } else if (spec.key == "token") {
        import_token(inputs[i]);
      } else if (spec.key != "constant_input") {  // a constant input is part of the program already
        throw Error(ErrorKind::Unsupported, fmt::format("inputs of kind '{}' are not supported", spec.key.substr(0, 40)))
            .help("export without custom objects");
      }
    }
  }

  ConstantData& import_weight(const JsonValue& input, const JsonValue& name) {
    const JsonMember& argument = read_union(input);
    if (argument.key != "as_tensor") input.fail(fmt::format("weight '{}' is not a tensor", name.as_string()));
    const JsonValue& value_name = argument.value.at("name");
    ConstantData data = import_.archive.load(name.as_string(), type_of(value_name), import_.sizes);
    TensorType type = data.type;
    const ConstantId id = import_.program.add_constant(std::move(data));
    define(value_name, add_single(Constant{id}, std::move(type), value_name.as_string()));
    return import_.program.constants[static_cast<size_t>(id)];
  }

  void import_token(const JsonValue& input) {
    const JsonMember& argument = read_union(input);
    if (argument.key != "as_tensor") input.fail("a token is not a tensor");
    const JsonValue& name = argument.value.at("name");
    define(name, add_single(Full{0.0}, type_of(name), name.as_string()));
  }

  void import_user_input(const JsonValue& input) {
    const JsonMember& argument = read_union(input);
    if (argument.key == "as_tensor") {
      const JsonValue& name = argument.value.at("name");
      TensorType type = type_of(name);
      // The strides of the example that the model was exported with. PyTorch takes tensors with any. Those of a dense tensor are kept,
      // which spares channels-last models a copy inside; others would have the caller's elements share places, or lie far apart.
      if (!is_dense(type)) {
        type.strides.clear();
        has_other_strides_ = true;
      }
      define(name, add_input(name.as_string(), std::move(type)));
      import_.program.inputs.push_back({.name = std::string(name.as_string())});
    } else if (argument.key == "as_sym_int" && read_union(argument.value).key == "as_name") {
      // A Python integer that may change from call to call comes in as a rank-0 tensor.
      const JsonValue& name = read_union(argument.value).value;
      TensorType type;
      type.dtype = DType::I64;
      graph_.bindings.push_back({integer(name), add_input(name.as_string(), std::move(type))});
      import_.program.inputs.push_back({.name = std::string(name.as_string())});
    } else if (argument.key == "as_sym_float" && read_union(argument.value).key == "as_name") {
      const JsonValue& name = read_union(argument.value).value;
      TensorType type;
      type.dtype = DType::F64;
      bind_real(name, add_input(name.as_string(), std::move(type)));
      import_.program.inputs.push_back({.name = std::string(name.as_string())});
    } else if (argument.key == "as_custom_obj" || argument.key == "as_sym_float" || argument.key == "as_sym_bool") {
      throw Error(ErrorKind::Unsupported, fmt::format("inputs of kind '{}' are not supported", argument.key));
    }
    // Everything else is a constant that tracing has put into the nodes.
  }

  // ---- nodes

  void import_nodes(std::span<const JsonValue> nodes) {
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

  static const JsonMember& argument(const JsonValue& node, size_t position) {
    const std::span<const JsonValue> inputs = node.at("inputs").elements();
    if (position >= inputs.size()) node.fail("too few arguments");
    return read_union(inputs[position].at("arg"));
  }
  static const JsonValue& tensor_argument(const JsonValue& node, size_t position) {
    const JsonMember& member = argument(node, position);
    if (member.key != "as_tensor") node.fail("expected a tensor");
    return member.value.at("name");
  }
  static int64_t integer_argument(const JsonValue& node, size_t position) {
    const JsonMember& member = argument(node, position);
    if (member.key != "as_int") node.fail("expected an integer");
    return member.value.as_integer();
  }
  const JsonValue& only_output(const JsonValue& node) {
    const std::vector<const JsonValue*> names = output_names(node);
    if (names.size() != 1 || names[0] == nullptr) node.fail("expected one tensor as the result");
    return *names[0];
  }

  // x with dim `from` at position `to`; both in [0, rank).
  ValueId moved(ValueId x, int64_t from, int64_t to, ProvenanceId place) {
    if (from == to) return x;
    TensorType type = graph_.type(x);
    auto move = [&](std::vector<sym::Expr>& list) {
      const sym::Expr entry = list[static_cast<size_t>(from)];
      list.erase(list.begin() + from);
      list.insert(list.begin() + to, entry);
    };
    if (type.strides.empty()) type.strides = contiguous_strides(type.sizes);
    move(type.sizes);
    move(type.strides);
    const Schema* schema = find_schema("aten::movedim.int");
    TOROID_CHECK(schema != nullptr, "aten::movedim.int has a schema");
    std::vector<Argument> arguments = {InputRef{0}, sym::Expr(from), sym::Expr(to)};
    const NodeId node =
        graph_.add_node(Aten{schema, std::move(arguments)}, {x}, {std::move(type)}, place, {graph_.value(x).name + "_moved"});
    return graph_.node(node).outputs[0];
  }

  // The nodes of a vmap become a body for a slice; vmaps within it are part of the body.
  void import_vmap(const JsonValue& begin, std::span<const JsonValue> nodes) {
    ErrorContext context("importing the vmap at node '{}'", name_of_node(begin).substr(0, 200));
    const JsonMember& randomness = argument(begin, 1);
    if (randomness.key != "as_string") begin.fail("the randomness of a vmap is no string");
    const ProvenanceId place = graph_.add_provenance(read_provenance("torch::vmap", name_of_node(begin), begin.find_value("metadata")));
    Graph body;
    GraphImporter inner(import_, body, json_, autocast_, this);
    inner.open_jvps_ = open_jvps_;
    std::vector<ValueId> mapped;
    std::vector<const JsonValue*> stacked;
    // Nested ones come whole: theirs are not of this vmap.
    size_t depth = 0;
    for (const JsonValue& node : nodes) {
      const std::string_view target = node.at("target").as_string();
      depth += target == kVmapBegins ? 1 : 0;
      if (depth == 0 && target == kMapped) {
        const ValueId whole = tensor(tensor_argument(node, 0));
        const int64_t rank = graph_.type(whole).rank(), dim = integer_argument(node, 1);
        if (dim < -rank || dim >= rank) node.fail("the mapped dim is none of the tensor's");
        mapped.push_back(moved(whole, dim < 0 ? dim + rank : dim, 0, place));
        inner.add_input(only_output(node));
      }
      if (depth == 0 && target == kStacked) stacked.push_back(&node);
      depth -= target == kVmapEnds ? 1 : 0;
    }
    if (mapped.empty()) begin.fail("a vmap over no tensor");
    inner.import_vmap_body(nodes);
    std::vector<Device> devices;
    std::vector<std::string> names;
    for (const JsonValue* node : stacked) {
      body.outputs.push_back(inner.tensor(tensor_argument(*node, 0)));
      devices.push_back(body.type(body.outputs.back()).device);
      names.push_back(value_name(only_output(*node).as_string()));
    }
    import_.program.subgraphs.push_back(std::move(body));

    InputList slices, others;
    std::vector<ValueId> inputs = mapped;
    inputs.insert(inputs.end(), inner.captured_.begin(), inner.captured_.end());
    for (uint32_t i = 0; i < inputs.size(); ++i) (i < mapped.size() ? slices : others).push_back(InputRef{i});
    const auto graph = static_cast<uint32_t>(import_.program.subgraphs.size() - 1);
    const HigherOrder op{"vmap", {SubgraphRef{graph}, slices, others, std::string(randomness.value.as_string())}};
    std::vector<TensorType> types = types_of_control_flow(op, inputs);
    for (size_t i = 0; i < types.size(); ++i) types[i].device = devices[i];
    const NodeId node = graph_.add_node(op, std::move(inputs), std::move(types), place, std::move(names));
    for (size_t i = 0; i < stacked.size(); ++i) {
      const ValueId result = graph_.node(node).outputs[i];
      const int64_t rank = graph_.type(result).rank(), dim = integer_argument(*stacked[i], 3);
      if (dim < -rank || dim >= rank) stacked[i]->fail("the results' dim is none of theirs");
      define(only_output(*stacked[i]), moved(result, 0, dim < 0 ? dim + rank : dim, place));
    }
  }

  void import_vmap_body(std::span<const JsonValue> nodes) {
    size_t depth = 0, first = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const std::string_view target = nodes[i].at("target").as_string();
      depth += target == kVmapBegins ? 1 : 0;
      if (depth == 0 && (target == kMapped || target == kStacked)) {
        import_nodes(nodes.subspan(first, i - first));
        first = i + 1;
      }
      depth -= target == kVmapEnds ? 1 : 0;
    }
    import_nodes(nodes.subspan(first));
  }

  void import_node(const JsonValue& node) {
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

  // The operator of dual tensors that a step of a jvp stands for, of its first arguments and the level.
  void add_dual(const JsonValue& node, std::string_view op, uint32_t tensors, ProvenanceId place) {
    const Schema* schema = find_schema(op);
    TOROID_CHECK(schema != nullptr, "{} has a schema", op);
    std::vector<Argument> arguments;
    std::vector<ValueId> inputs;
    for (uint32_t i = 0; i < tensors; ++i) {
      arguments.emplace_back(InputRef{i});
      inputs.push_back(tensor(tensor_argument(node, i)));
    }
    arguments.emplace_back(sym::Expr(open_jvps_));
    add_outputs(node, Aten{schema, std::move(arguments)}, std::move(inputs), place);
  }

  void convert_for_autocast(const JsonValue& node, const Schema& schema, NodeArguments& arguments, ProvenanceId place) {
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

  // The lower precision is the program's own here: results are rounded to it although kernels could keep them in F32.
  void round_for_autocast(const JsonValue& node, ProvenanceId place) {
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

  ValueId converted(ValueId value, DType dtype, ProvenanceId place) {
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

  // u0 = x.item(): the node keeps the element, and the binding says that u0 is its value.
  void read_element(const JsonValue& node, std::string_view op) {
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

  void import_higher_order(const JsonValue& node, std::string_view name, ProvenanceId place) {
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

  void import_effect(const JsonValue& node) {
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

  // The operator itself, on copies of the bases.
  void import_functionalized(const JsonValue& node) {
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

  // A kernel in Triton of the model's own, on copies of what it writes to.
  void import_triton(const JsonValue& node) {
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

  // Which of the bases the operator writes to as `parameter`.
  static size_t base_of(const JsonValue& node, std::string_view parameter,
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

  ValueId copied(ValueId value, ProvenanceId place) {
    const Schema* schema = find_schema("aten::clone");
    TOROID_CHECK(schema != nullptr, "aten::clone has a schema");
    TensorType type = graph_.type(value);
    type.storage_offset = {};
    const NodeId node = graph_.add_node(Aten{schema, {InputRef{0}, None{}}}, {value}, {std::move(type)}, place,
                                        {fmt::format("{}_copy", graph_.value(value).name)});
    return graph_.node(node).outputs[0];
  }

  // What it gives; refuses subgraphs that do not fit it.
  std::vector<TensorType> types_of_control_flow(const HigherOrder& op, const std::vector<ValueId>& inputs) const {
    std::vector<const TensorType*> operands;
    for (ValueId input : inputs) operands.push_back(&graph_.type(input));
    return control_flow_types(op, operands, import_.program.subgraphs, nullptr);
  }

  // The numbers that control flow gives its subgraphs are the ones that these name.
  void check_numbers(const JsonValue& node, const HigherOrder& op) {
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

  Autocast read_autocast(std::span<const JsonValue> inputs) const {
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

  // The nodes of the graph at position `graph` among the inputs, for the operands that follow it.
  void inline_region(const JsonValue& node, size_t graph, const Autocast& autocast) {
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

  // Stands in for an operator that the final error will name, so that import goes on to find the others.
  void add_unsupported(const JsonValue& node, ProvenanceId place, bool is_known) {
    import_.unsupported.add(graph_.provenance(place), is_known);
    add_outputs(node, HigherOrder{graph_.provenance(place).op, {}}, {}, place);
  }

  static std::vector<const JsonValue*> output_names(const JsonValue& node) { return output_names(node.at("outputs").elements()); }

  // The tensors that a node defines, lists flattened; null for results that are no tensor.
  static std::vector<const JsonValue*> output_names(std::span<const JsonValue> outputs) {
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

  // Of control flow, whose subgraphs give no value for a None. Null for numbers.
  std::vector<const JsonValue*> tensor_results(const JsonValue& node) {
    std::vector<const JsonValue*> names;
    for (const JsonValue& output : node.at("outputs").elements()) {
      const JsonMember& member = read_union(output);
      if (member.key == "as_none") continue;
      const std::vector<const JsonValue*> more = output_names(std::span(&output, 1));
      names.insert(names.end(), more.begin(), more.end());
    }
    return names;
  }

  void add_outputs(const JsonValue& node, Op op, std::vector<ValueId> inputs, ProvenanceId place) {
    const std::vector<const JsonValue*> names = output_names(node);
    std::vector<TensorType> types;
    // A result that is no tensor keeps its position with a stand-in that nothing can name.
    for (const JsonValue* name : names) types.push_back(name ? type_of(*name) : TensorType{});
    add_results(names, std::move(op), std::move(inputs), std::move(types), place);
  }

  void add_results(const std::vector<const JsonValue*>& names, Op op, std::vector<ValueId> inputs, std::vector<TensorType> types,
                   ProvenanceId place) {
    std::vector<std::string> texts;
    for (const JsonValue* name : names) texts.push_back(value_name(name ? name->as_string() : "none"));
    const NodeId id = graph_.add_node(std::move(op), std::move(inputs), std::move(types), place, std::move(texts));
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i]) define(*names[i], graph_.node(id).outputs[i]);
    }
  }

  // ---- outputs

  ValueId number_value(Scalar number, DType dtype) {
    TensorType type;
    type.dtype = dtype;
    return add_single(Full{std::move(number)}, std::move(type), "number");
  }

  ValueId real_number_value(sym::Expr number) {
    if (number.is_const()) return number_value(sym::real_value(number), DType::F64);
    TensorType type;
    type.dtype = DType::F64;
    return add_single(Bitcast{}, std::move(type), "number", {number_value(number, DType::I64)});
  }

  // Null for a None. Numbers become rank-0 tensors.
  std::optional<ValueId> output_value(const JsonValue& output) {
    const JsonMember& member = read_union(output);
    const JsonValue& value = member.value;
    if (member.key == "as_tensor") return tensor(value.at("name"));
    if (member.key == "as_none") return std::nullopt;
    if (member.key == "as_int") return number_value(sym::Expr(value.as_integer()), DType::I64);
    if (member.key == "as_float") return number_value(read_float(value), DType::F64);
    if (member.key == "as_bool") return number_value(value.as_bool(), DType::Bool);
    if (member.key == "as_sym_int" || member.key == "as_sym_bool") {
      const JsonMember& symbol = read_union(value);
      const DType dtype = member.key == "as_sym_int" ? DType::I64 : DType::Bool;
      if (symbol.key == "as_name") return number_value(integer(symbol.value), dtype);
      if (symbol.key == "as_int") return number_value(sym::Expr(symbol.value.as_integer()), dtype);
      if (symbol.key == "as_bool") return number_value(symbol.value.as_bool(), dtype);
    }
    if (member.key == "as_sym_float") {
      const JsonMember& symbol = read_union(value);
      if (symbol.key == "as_name") return real_number_value(real(symbol.value));
      if (symbol.key == "as_float") return number_value(read_float(symbol.value), DType::F64);
    }
    throw Error(ErrorKind::Unsupported, fmt::format("outputs of kind '{}' are not supported", member.key.substr(0, 40)));
  }

  static OutputSpec read_output_spec(const JsonMember& spec) {
    const auto target = [&](std::string_view key) { return std::string(spec.value.at(key).as_string()); };
    if (spec.key == "user_output") return {OutputKind::User, {}};
    if (spec.key == "loss_output") return {OutputKind::Loss, {}};
    if (spec.key == "buffer_mutation") return {OutputKind::BufferMutation, target("buffer_name")};
    if (spec.key == "user_input_mutation") return {OutputKind::InputMutation, target("user_input_name")};
    if (spec.key == "parameter_mutation") return {OutputKind::ParameterMutation, target("parameter_name")};
    if (spec.key == "gradient_to_parameter") return {OutputKind::Gradient, target("parameter_name")};
    if (spec.key == "token") return {OutputKind::Token, {}};
    if (spec.key == "gradient_to_user_input") return {OutputKind::Gradient, target("user_input_name")};
    throw Error(ErrorKind::Unsupported, fmt::format("outputs of kind '{}' are not supported", spec.key.substr(0, 40)));
  }

  void import_outputs(const JsonValue& specs, const JsonValue& module) {
    const std::span<const JsonValue> outputs = json_.at("outputs").elements();
    if (specs.elements().size() != outputs.size()) {
      specs.fail(fmt::format("the signature has {} outputs and the graph {}", specs.elements().size(), outputs.size()));
    }
    // The tree that the model returns has the results and the loss as leaves, in this order.
    std::vector<OutputSpec> read;
    for (const JsonValue& spec : specs.elements()) read.push_back(read_output_spec(read_union(spec)));
    const auto is_leaf = [](const OutputSpec& spec) { return spec.kind == OutputKind::User || spec.kind == OutputKind::Loss; };
    const std::vector<std::string> names = pt2::output_names(module, static_cast<size_t>(std::count_if(read.begin(), read.end(), is_leaf)));
    size_t leaf = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      OutputSpec spec = std::move(read[i]);
      if (spec.kind == OutputKind::Token) continue;
      if (is_leaf(spec)) spec.name = names[leaf++];
      const std::optional<ValueId> value = output_value(outputs[i]);
      if (!value) continue;
      graph_.outputs.push_back(*value);
      import_.program.outputs.push_back(std::move(spec));
    }
  }

  Import& import_;
  Graph& graph_;
  const JsonValue& json_;
  const Autocast autocast_;
  GraphImporter* const around_;
  std::vector<ValueId> captured_;  // values of the graph around that became inputs, after those that were mapped
  std::unordered_map<std::string_view, const JsonValue*> types_;
  std::unordered_map<std::string_view, const JsonValue*> integers_;
  std::unordered_map<std::string_view, const JsonValue*> booleans_;
  std::unordered_map<std::string_view, const JsonValue*> floats_;
  std::unordered_map<std::string_view, ValueId> values_;
  bool has_other_strides_ = false;  // of an input than its example
  int64_t open_jvps_ = 0;
};

void check_version(const JsonValue& model) {
  const JsonValue& version = model.at("schema_version").at("major");
  if (version.as_integer() == kSchemaMajor) return;
  throw Error(ErrorKind::Unsupported,
              fmt::format("the model has schema version {}, and toroid reads {}", version.as_integer(), kSchemaMajor))
      .help("export the model with PyTorch 2.8 or newer");
}

void count_operators(const JsonValue& graph, OperatorCounter& counter);

std::vector<OperatorUse> missing_operators(const JsonValue& graph, const Pt2Options& options) {
  OperatorCounter counter;
  try {
    count_operators(graph, counter);
  } catch (const Error&) {  // damaged: what was wrong first is said
    return {};
  }
  std::vector<OperatorUse> missing;
  try {
    for (const OperatorUse& use : counter.uses()) {
      const Schema* const schema = known_schema(use.op, options);
      const bool is_missing = (!use.is_known && schema == nullptr) || (schema != nullptr && !is_supported(*schema, options));
      if (is_missing) missing.push_back(use);
    }
  } catch (const Error&) {  // the file of a custom operator is at fault
    return {};
  }
  return missing;
}

void import_guards(const JsonValue& model, Program& program) {
  const JsonValue* codes = model.find_value("guards_code");
  if (!codes) return;
  const auto input_type = [&](const std::string& input) -> const TensorType* {
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      if (program.inputs[i].name == input) return &program.graph.type(program.graph.inputs[i]);
    }
    return nullptr;
  };
  for (const JsonValue& code : codes->elements()) read_guard(code.as_string(), program, input_type);
}

void count_operators(const JsonValue& graph, OperatorCounter& counter) {
  for (const JsonValue& node : graph.at("nodes").elements()) {
    for (const JsonValue& input : node.at("inputs").elements()) {
      const JsonMember& argument = read_union(input.at("arg"));
      if (argument.key == "as_graph") count_operators(argument.value.at("graph"), counter);
    }
    std::string op = operator_name(node.at("target").as_string());
    if (has_only_symbolic_outputs(node) && !contains(kReadsElement, op)) continue;
    if (op == std::string(kHigherOrder) + std::string(kWithEffects) && node.at("inputs").elements().size() >= 2) op = effect_of(node);
    if (op == std::string(kHigherOrder) + std::string(kFunctionalized) && !node.at("inputs").elements().empty()) {
      const JsonMember& functionalized = read_union(node.at("inputs").elements()[0].at("arg"));
      if (functionalized.key == "as_operator") op = operator_name(functionalized.value.as_string());
    }
    if (op == std::string(kHigherOrder) + std::string(kTritonKernel)) op = triton_operator(node);
    bool is_control_flow = contains(kTransforms, op);
    if (op.starts_with(kHigherOrder)) {
      const std::string_view name = std::string_view(op).substr(kHigherOrder.size());
      is_control_flow = contains(kControlFlow, name) || name == kGradientRegion || name == kAutocastRegion;
    }
    counter.add(read_provenance(op, name_of_node(node), node.find_value("metadata")), is_control_flow || find_schema(op));
  }
}

Program import_program(Archive& archive, const std::string& file, const Pt2Options& options, const SymbolRanges& ranges) {
  Program program;
  program.operators = options.operators;
  program.name = std::filesystem::path(file).filename().string();  // so that what is made of it says nothing of folders
  const JsonValue& model = archive.model();
  Import import{.program = program,
                .archive = archive,
                .sizes = SizeReader(*program.symbols, model.find_value("range_constraints"), ranges),
                .options = options,
                .unsupported = {}};
  const JsonValue& module = model.at("graph_module");
  try {
    GraphImporter(import, program.graph, module.at("graph")).import_main(module);
  } catch (const Error&) {
    // An operator that is not supported may well have types and arguments that are not either: it is the cause.
    const std::vector<OperatorUse> missing = missing_operators(module.at("graph"), options);
    if (missing.empty()) throw;
    throw unsupported_operators(missing, file);
  }
  if (!import.unsupported.uses().empty()) throw unsupported_operators(import.unsupported.uses(), file);
  import_guards(model, program);
  return program;
}

Program import_archive(ZipReader zip, const Pt2Options& options) {
  const std::string file = zip.file();
  Archive archive(std::move(zip));
  ErrorContext context("reading {}", archive.model_entry());
  check_version(archive.model());
  Program program = import_program(archive, file, options, {});
  // Guards name inputs, whose sizes are known by now: read again where these say more of them.
  const SymbolRanges ranges = ranges_of_guards(program);
  return ranges.empty() ? std::move(program) : import_program(archive, file, options, ranges);
}

}  // namespace
}  // namespace pt2

Program import_pt2(const std::filesystem::path& path, const Pt2Options& options) {
  ErrorContext context("importing {}", path.string());
  return pt2::import_archive(ZipReader::open(path), options);
}

Program import_pt2(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& file,
                   const Pt2Options& options) {
  ErrorContext context("importing {}", file);
  return pt2::import_archive(ZipReader(bytes, std::move(owner), file), options);
}

std::vector<OperatorUse> pt2_operators(const std::filesystem::path& path) {
  ErrorContext context("importing {}", path.string());
  const pt2::Archive archive(ZipReader::open(path));
  ErrorContext entry_context("reading {}", archive.model_entry());
  OperatorCounter counter;
  pt2::count_operators(archive.model().at("graph_module").at("graph"), counter);
  return counter.uses();
}

}  // namespace toroid
