#include <fmt/format.h>

#include "base/error.h"
#include "frontend/pt2/graph/graph_importer.h"
#include "frontend/pt2/output_names.h"
#include "graph/builder.h"
#include "symbolic/real.h"

namespace toroid::pt2 {

void GraphImporter::import_inputs(const JsonValue& specs) {
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

ConstantData& GraphImporter::import_weight(const JsonValue& input, const JsonValue& name) {
  const JsonMember& argument = read_union(input);
  if (argument.key != "as_tensor") input.fail(fmt::format("weight '{}' is not a tensor", name.as_string()));
  const JsonValue& value_name = argument.value.at("name");
  ConstantData data = import_.archive.load(name.as_string(), type_of(value_name), import_.sizes);
  TensorType type = data.type;
  const ConstantId id = import_.program.add_constant(std::move(data));
  define(value_name, add_single(Constant{id}, std::move(type), value_name.as_string()));
  return import_.program.constants[static_cast<size_t>(id)];
}

void GraphImporter::import_token(const JsonValue& input) {
  const JsonMember& argument = read_union(input);
  if (argument.key != "as_tensor") input.fail("a token is not a tensor");
  const JsonValue& name = argument.value.at("name");
  define(name, add_single(Full{0.0}, type_of(name), name.as_string()));
}

void GraphImporter::import_user_input(const JsonValue& input) {
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

ValueId GraphImporter::number_value(Scalar number, DType dtype) {
  TensorType type;
  type.dtype = dtype;
  return add_single(Full{std::move(number)}, std::move(type), "number");
}

ValueId GraphImporter::real_number_value(sym::Expr number) {
  if (number.is_const()) return number_value(sym::real_value(number), DType::F64);
  TensorType type;
  type.dtype = DType::F64;
  return add_single(Bitcast{}, std::move(type), "number", {number_value(number, DType::I64)});
}

std::optional<ValueId> GraphImporter::output_value(const JsonValue& output) {
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

OutputSpec GraphImporter::read_output_spec(const JsonMember& spec) {
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

void GraphImporter::import_outputs(const JsonValue& specs, const JsonValue& module) {
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

}  // namespace toroid::pt2
