// Typed access to a node's arguments, and applying one operator inside another.
#include <cmath>

#include <fmt/format.h>

#include "graph/operator_scope.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

[[noreturn]] void wrong_kind(const Schema& schema, std::string_view name, const Argument& got, std::string_view wanted) {
  throw Error(ErrorKind::InvalidModel, fmt::format("argument '{}' of {} is {}, not {}", name, schema.name, to_string(got), wanted));
}

// Single numbers stand for a whole list where the schema gives its length: kernel_size=3 is [3, 3] for int[2]. An empty list stands for
// what the operator takes without it.
Sizes stretched(Sizes values, const Schema& schema, const Parameter& parameter) {
  if (parameter.fixed_length < 2 || values.empty()) return values;
  const size_t length = static_cast<size_t>(parameter.fixed_length);
  if (values.size() == 1) values.resize(length, values[0]);
  if (values.size() == length) return values;
  throw Error(ErrorKind::InvalidModel,
              fmt::format("argument '{}' of {} has {} numbers, not {}", parameter.name, schema.name, values.size(), length));
}

}  // namespace

size_t Args::position(std::string_view name) const {
  for (size_t i = 0; i < schema_.parameters.size(); ++i) {
    if (schema_.parameters[i].name == name) return i;
  }
  // One row serves all overloads of a name: of some, for numbers alone, nothing is known.
  throw Error(ErrorKind::Unsupported, fmt::format("operator '{}' is not supported: it has no argument '{}'", schema_.name, name))
      .help("use the overload that takes tensors");
}

const Argument& Args::raw(std::string_view name) const {
  const size_t i = position(name);
  if (i < arguments_.size()) return arguments_[i];
  const std::optional<Argument>& fallback = schema_.parameters[i].default_value;
  if (!fallback) throw Error(ErrorKind::InvalidModel, fmt::format("{} needs the argument '{}'", schema_.name, name));
  return *fallback;
}

bool Args::has(std::string_view name) const {
  for (const Parameter& parameter : schema_.parameters) {
    if (parameter.name == name) return !std::holds_alternative<None>(raw(name));
  }
  return false;
}

Tensor Args::tensor(std::string_view name) const {
  const Argument& argument = raw(name);
  // PyTorch lets a number stand for a tensor. It has rank 0 and yields to the dtype of the tensor beside it.
  if (std::holds_alternative<double>(argument) || std::holds_alternative<bool>(argument) || std::holds_alternative<sym::Expr>(argument)) {
    const Scalar number = scalar(name);
    return builder_.scalar(inputs_.empty() ? number_dtype(number) : result_dtype(inputs_[0], number), number);
  }
  const auto* ref = std::get_if<InputRef>(&argument);
  if (ref == nullptr || ref->index >= inputs_.size()) wrong_kind(schema_, name, argument, "a tensor");
  return inputs_[ref->index];
}

Tensor Args::optional_tensor(std::string_view name) const {
  for (const Parameter& parameter : schema_.parameters) {
    if (parameter.name == name) return std::holds_alternative<None>(raw(name)) ? Tensor(parameter) : tensor(name);
  }
  return {};
}

Tensors Args::tensors(std::string_view name) const {
  Tensors list = optional_tensors(name);
  for (const Tensor& tensor : list) {
    if (!tensor.defined()) wrong_kind(schema_, name, raw(name), "a list of tensors without gaps");
  }
  return list;
}

Tensors Args::optional_tensors(std::string_view name) const {
  const Argument& argument = raw(name);
  if (std::holds_alternative<ExprList>(argument) && std::get<ExprList>(argument).empty()) return {};
  const auto* refs = std::get_if<InputList>(&argument);
  if (refs == nullptr) wrong_kind(schema_, name, argument, "a list of tensors");
  Tensors list;
  for (const std::optional<InputRef>& ref : *refs) {
    if (ref && ref->index >= inputs_.size()) wrong_kind(schema_, name, argument, "a list of tensors");
    list.push_back(ref ? inputs_[ref->index] : Tensor(schema_.parameters[position(name)]));
  }
  return list;
}

Tensor Args::tensor_of_rank(std::string_view name, int64_t least, int64_t most) const {
  const Tensor x = tensor(name);
  if (least <= x.rank() && x.rank() <= most) return x;
  throw Error(ErrorKind::InvalidModel,
              fmt::format("argument '{}' of {} is {}, but its rank must be {}{}", name, schema_.name, to_string(x.type()), least,
                          most == least      ? ""
                          : most == kAnyRank ? " or more"
                                             : fmt::format(" to {}", most)));
}

Tensors Args::tensors_beside(std::string_view name, const Tensors& others) const {
  Tensors list = tensors(name);
  if (list.size() == others.size()) return list;
  throw Error(ErrorKind::InvalidModel,
              fmt::format("argument '{}' of {} has {} tensors, the list beside it {}", name, schema_.name, list.size(), others.size()));
}

sym::Expr Args::integer(std::string_view name) const {
  const Argument& argument = raw(name);
  if (const auto* expr = std::get_if<sym::Expr>(&argument)) return *expr;
  if (const auto* flag = std::get_if<bool>(&argument)) return *flag ? 1 : 0;
  wrong_kind(schema_, name, argument, "an integer");
}

int64_t Args::constant(std::string_view name) const {
  const std::optional<int64_t> value = integer(name).try_value();
  if (!value) wrong_kind(schema_, name, raw(name), "a constant integer");
  return *value;
}

int64_t Args::constant_in(std::string_view name, int64_t least, int64_t most) const {
  const int64_t value = constant(name);
  if (least <= value && value <= most) return value;
  throw Error(ErrorKind::InvalidModel,
              fmt::format("argument '{}' of {} is {}, which is not in [{}, {}]", name, schema_.name, value, least, most));
}

Sizes Args::integers_of(std::string_view name, size_t count) const {
  Sizes list = integers(name);
  if (list.size() == count) return list;
  throw Error(ErrorKind::InvalidModel, fmt::format("argument '{}' of {} has {} numbers, not {}", name, schema_.name, list.size(), count));
}

Sizes Args::integers(std::string_view name) const {
  const Argument& argument = raw(name);
  const Parameter& parameter = schema_.parameters[position(name)];
  if (std::holds_alternative<None>(argument)) return {};
  if (const auto* list = std::get_if<ExprList>(&argument)) return stretched(*list, schema_, parameter);
  if (const auto* expr = std::get_if<sym::Expr>(&argument)) return stretched(Sizes{*expr}, schema_, parameter);
  // An empty list has lost its element type in the file.
  if (const auto* list = std::get_if<InputList>(&argument); list && list->empty()) return {};
  wrong_kind(schema_, name, argument, "a list of integers");
}

Dims Args::dims(std::string_view name) const {
  Dims dims;
  for (sym::Expr expr : integers(name)) {
    if (!expr.is_const()) wrong_kind(schema_, name, raw(name), "a list of constant integers");
    dims.push_back(expr.value());
  }
  return dims;
}

double Args::number(std::string_view name) const {
  const Argument& argument = raw(name);
  if (const auto* number = std::get_if<double>(&argument)) return *number;
  if (const auto* flag = std::get_if<bool>(&argument)) return *flag ? 1.0 : 0.0;
  if (const auto* expr = std::get_if<sym::Expr>(&argument); expr && expr->is_const()) return static_cast<double>(expr->value());
  if (std::holds_alternative<sym::Expr>(argument)) {
    throw Error(ErrorKind::Unsupported,
                fmt::format("argument '{}' of {} is {}, which changes from call to call", name, schema_.name, to_string(argument)))
        .help("export with a constant there");
  }
  wrong_kind(schema_, name, argument, "a constant number");
}

Scalar Args::scalar(std::string_view name) const {
  const Argument& argument = raw(name);
  if (const auto* number = std::get_if<double>(&argument)) return *number;
  if (const auto* flag = std::get_if<bool>(&argument)) return *flag;
  if (const auto* expr = std::get_if<sym::Expr>(&argument)) return *expr;
  wrong_kind(schema_, name, argument, "a number");
}

bool Args::flag(std::string_view name) const {
  const Argument& argument = raw(name);
  if (const auto* flag = std::get_if<bool>(&argument)) return *flag;
  if (const auto* expr = std::get_if<sym::Expr>(&argument); expr && expr->is_const()) return expr->value() != 0;
  wrong_kind(schema_, name, argument, "true or false");
}

std::string Args::text(std::string_view name) const {
  const Argument& argument = raw(name);
  if (const auto* text = std::get_if<std::string>(&argument)) return *text;
  wrong_kind(schema_, name, argument, "a text");
}

std::optional<DType> Args::dtype(std::string_view name) const {
  if (!has(name)) {
    for (const Parameter& parameter : schema_.parameters) {
      if (name == "dtype" && parameter.name == "out" && parameter.mutated && !parameter.is_list) return tensor("out").dtype();
    }
    return std::nullopt;
  }
  const Argument& argument = raw(name);
  if (const auto* dtype = std::get_if<DType>(&argument)) return *dtype;
  wrong_kind(schema_, name, argument, "a dtype");
}

// ---- applying another operator -----------------------------------------------------------------------------------------

Decomposer::Value::Value(Scalar scalar) : value(std::visit([](const auto& number) { return Argument(number); }, scalar)) {}

Decomposer::Value::Value(const Dims& dims) : value(Argument(ExprList(dims.begin(), dims.end()))) {}

Tensors Decomposer::call(std::string_view op, std::vector<Value> values) {
  const Schema* schema = find_schema(op);
  TOROID_CHECK(schema != nullptr, "no operator is called {}", op);
  TOROID_CHECK(values.size() <= schema->parameters.size(), "{} takes {} arguments", op, schema->parameters.size());
  const Decomposition function = find_decomposition(*schema);
  if (function == nullptr) {
    throw Error(ErrorKind::Unsupported, fmt::format("operator '{}' is not supported", schema->name))
        .help("'toroid ops' lists the supported operators");
  }
  std::vector<Tensor> inputs;
  auto add_input = [&](const Tensor& tensor) {
    inputs.push_back(tensor);
    return InputRef{static_cast<uint32_t>(inputs.size() - 1)};
  };
  std::vector<Argument> arguments;
  for (Value& value : values) {
    if (auto* argument = std::get_if<Argument>(&value.value)) {
      arguments.push_back(std::move(*argument));
    } else if (const auto* tensor = std::get_if<Tensor>(&value.value)) {
      arguments.emplace_back(add_input(*tensor));
    } else {
      InputList list;
      for (const Tensor& element : std::get<std::vector<Tensor>>(value.value)) {
        list.push_back(element.defined() ? std::optional(add_input(element)) : std::nullopt);
      }
      arguments.emplace_back(std::move(list));
    }
  }
  Decomposer inner{b, program, {}, {}, streams};
  const OperatorScope scope(b, *schema, arguments, inputs);
  return function(inner, Args(b, *schema, arguments, inputs));
}

}  // namespace toroid
