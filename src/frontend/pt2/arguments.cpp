#include "frontend/pt2/arguments.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "frontend/pt2/types.h"
#include "symbolic/real.h"

namespace toroid::pt2 {
namespace {

// Turns a schema's single number or boolean into what a list parameter holds.
template <class T>
std::vector<T> repeated(const Parameter& parameter, T value) {
  return std::vector<T>(static_cast<size_t>(std::max(parameter.fixed_length, 1)), value);
}

class Reader {
 public:
  explicit Reader(ArgumentScope& scope) : scope_(scope) {}

  // `parameter` is null for operators without a schema.
  Argument read(const JsonValue& value, const Parameter* parameter) {
    const JsonMember& member = read_union(value);
    return fit(alternative(member), parameter, member);
  }

  std::vector<ValueId> take_inputs() { return std::move(inputs_); }

 private:
  InputRef input(const JsonValue& tensor) {
    inputs_.push_back(scope_.tensor(tensor.at("name")));
    return {static_cast<uint32_t>(inputs_.size() - 1)};
  }

  std::optional<InputRef> optional_input(const JsonValue& value) {
    const JsonMember& member = read_union(value);
    if (member.key == "as_none") return std::nullopt;
    if (member.key != "as_tensor") value.fail(fmt::format("expected a tensor or none, found '{}'", member.key));
    return input(member.value);
  }

  // {"as_name": "sym_size_int"} or {"as_int": 3} or {"as_bool": true}
  sym::Expr symbolic(const JsonValue& value) {
    const JsonMember& member = read_union(value);
    if (member.key == "as_name") return scope_.integer(member.value);
    if (member.key == "as_int") return member.value.as_integer();
    if (member.key == "as_bool") return member.value.as_bool() ? 1 : 0;
    value.fail(fmt::format("expected a symbolic integer, found '{}'", member.key));
  }

  // {"as_name": "truediv"} or {"as_float": 0.5}
  Argument symbolic_float(const JsonValue& value) {
    const JsonMember& member = read_union(value);
    if (member.key == "as_float") return read_float(member.value);
    if (member.key == "as_int") return static_cast<double>(member.value.as_integer());
    if (member.key != "as_name") value.fail(fmt::format("expected a symbolic float, found '{}'", member.key));
    const sym::Expr number = scope_.real(member.value);
    return number.is_const() ? Argument(sym::real_value(number)) : Argument(number);
  }

  double constant_float(const JsonValue& value) {
    const Argument number = symbolic_float(value);
    if (const auto* constant = std::get_if<double>(&number)) return *constant;
    throw Error(ErrorKind::Unsupported, "lists of floats that change from call to call are not supported").help("export with constants");
  }

  template <class T, class Read>
  std::vector<T> list(const JsonValue& value, Read read) {
    std::vector<T> result;
    result.reserve(value.elements().size());
    for (const JsonValue& element : value.elements()) result.push_back(read(element));
    return result;
  }

  Argument alternative(const JsonMember& member) {
    const JsonValue& value = member.value;
    const std::string_view kind = member.key;
    if (kind == "as_tensor") return input(value);
    if (kind == "as_none") return None{};
    if (kind == "as_int") return sym::Expr(value.as_integer());
    if (kind == "as_ints") return list<sym::Expr>(value, [](const JsonValue& v) { return sym::Expr(v.as_integer()); });
    if (kind == "as_float") return read_float(value);
    if (kind == "as_floats") return list<double>(value, read_float);
    if (kind == "as_bool") return value.as_bool();
    if (kind == "as_bools") return list<bool>(value, [](const JsonValue& v) { return v.as_bool(); });
    if (kind == "as_string") return std::string(value.as_string());
    if (kind == "as_strings") return list<std::string>(value, [](const JsonValue& v) { return std::string(v.as_string()); });
    if (kind == "as_scalar_type") return read_dtype(value);
    if (kind == "as_memory_format") return read_memory_format(value);
    if (kind == "as_layout") return read_layout(value);
    if (kind == "as_device") return read_device(value);
    if (kind == "as_sym_int" || kind == "as_sym_bool") return symbolic(value);
    if (kind == "as_sym_ints" || kind == "as_sym_bools") {
      return list<sym::Expr>(value, [&](const JsonValue& v) { return symbolic(v); });
    }
    if (kind == "as_sym_float") return symbolic_float(value);
    if (kind == "as_sym_floats") return list<double>(value, [&](const JsonValue& v) { return constant_float(v); });
    if (kind == "as_tensors") {
      return list<std::optional<InputRef>>(value, [&](const JsonValue& v) { return std::optional(input(v)); });
    }
    if (kind == "as_optional_tensors") {
      return list<std::optional<InputRef>>(value, [&](const JsonValue& v) { return optional_input(v); });
    }
    if (kind == "as_optional_tensor") {
      const std::optional<InputRef> tensor = optional_input(value);
      return tensor ? Argument(*tensor) : Argument(None{});
    }
    if (kind == "as_complex") {
      inputs_.push_back(scope_.complex_number(read_float(value.at("real")), read_float(value.at("imag"))));
      return InputRef{static_cast<uint32_t>(inputs_.size() - 1)};
    }
    if (kind == "as_graph") return SubgraphRef{scope_.subgraph(value)};
    for (std::string_view known : {"as_custom_obj", "as_operator", "as_nested_tensors", "as_int_lists", "as_string_to_argument"}) {
      if (kind == known) throw Error(ErrorKind::Unsupported, fmt::format("arguments of kind '{}' are not supported", kind));
    }
    value.fail(fmt::format("unknown kind of argument '{}'", std::string_view(kind).substr(0, 40)));
  }

  static Argument fit(Argument argument, const Parameter* parameter, const JsonMember& member) {
    if (!parameter || std::holds_alternative<None>(argument)) return argument;
    const bool wants_floats = parameter->type == ArgType::Float;
    const auto* integer = std::get_if<sym::Expr>(&argument);
    const auto* integers = std::get_if<ExprList>(&argument);
    const auto* number = std::get_if<double>(&argument);
    const auto* flag = std::get_if<bool>(&argument);
    if (wants_floats && integer && integer->is_const()) {
      const auto as_float = static_cast<double>(integer->value());
      return parameter->is_list ? Argument(repeated(*parameter, as_float)) : Argument(as_float);
    }
    if (wants_floats && integers) {
      std::vector<double> floats;
      for (const sym::Expr& element : *integers) {
        if (!element.is_const()) member.value.fail(fmt::format("'{}' cannot hold a symbolic integer", parameter->name));
        floats.push_back(static_cast<double>(element.value()));
      }
      return floats;
    }
    if (parameter->is_list) {
      if (integer) return ExprList(repeated(*parameter, *integer));
      if (number) return repeated(*parameter, *number);
      if (flag) return repeated(*parameter, *flag);
      // An empty list has no kind of its own.
      const bool is_tensor = parameter->type == ArgType::Tensor;
      if (integers && integers->empty() && is_tensor) return InputList{};
      if (integers && integers->empty() && parameter->type == ArgType::Bool) return std::vector<bool>{};
      if (const auto* tensors = std::get_if<InputList>(&argument); tensors && tensors->empty() && !is_tensor) {
        return wants_floats ? Argument(std::vector<double>{}) : Argument(ExprList{});
      }
      return argument;
    }
    if (parameter->type == ArgType::Bool && integer && integer->is_const()) return integer->value() != 0;
    return argument;
  }

  ArgumentScope& scope_;
  std::vector<ValueId> inputs_;
};

// A value that can stand for a parameter without a default, or nothing.
std::optional<Argument> absent(const Parameter& parameter) {
  if (parameter.default_value) return parameter.default_value;
  if (parameter.is_optional || parameter.type == ArgType::Generator) return None{};
  return std::nullopt;
}

bool is_numeric(ArgType type) {
  return type == ArgType::Int || type == ArgType::SymInt || type == ArgType::Float || type == ArgType::Bool || type == ArgType::Scalar;
}

// Whether an argument is of a kind that its parameter can hold at all; finer rules belong to the operator.
bool fits(const Argument& argument, const Parameter& parameter) {
  const ArgType type = parameter.type;
  if (type == ArgType::Any) return true;
  if (std::holds_alternative<None>(argument)) return parameter.is_optional || type == ArgType::Generator;
  if (std::holds_alternative<InputRef>(argument)) {
    // PyTorch takes a rank-0 tensor wherever a number is asked for.
    return !parameter.is_list && (type == ArgType::Tensor || is_numeric(type));
  }
  if (std::holds_alternative<InputList>(argument)) return parameter.is_list && type == ArgType::Tensor;
  const bool is_list = std::holds_alternative<ExprList>(argument) || std::holds_alternative<std::vector<double>>(argument) ||
                       std::holds_alternative<std::vector<bool>>(argument);
  if (is_list) return parameter.is_list && is_numeric(type);
  const bool is_number =
      std::holds_alternative<sym::Expr>(argument) || std::holds_alternative<double>(argument) || std::holds_alternative<bool>(argument);
  if (is_number) return !parameter.is_list && (type == ArgType::Tensor || is_numeric(type));
  if (std::holds_alternative<std::string>(argument)) return type == ArgType::String;
  if (std::holds_alternative<std::vector<std::string>>(argument)) return parameter.is_list && type == ArgType::String;
  if (std::holds_alternative<DType>(argument)) return type == ArgType::ScalarType;
  if (std::holds_alternative<Layout>(argument)) return type == ArgType::Layout;
  if (std::holds_alternative<Device>(argument)) return type == ArgType::Device;
  if (std::holds_alternative<MemoryFormat>(argument)) return type == ArgType::MemoryFormat;
  return std::holds_alternative<SubgraphRef>(argument) && type == ArgType::Graph;
}

using Given = std::vector<std::optional<Argument>>;

// Attention's gradients have parameters for which PyTorch passes no tensor, though their schemas say that there is one: nothing is added to
// the scores, or sequences are not packed behind each other.
bool may_be_undefined(const Parameter& parameter, const Schema& schema) {
  return schema.name.ends_with("attention_backward") && (parameter.name == "attn_bias" || parameter.name.starts_with("cum_seq"));
}

Argument read_for(Reader& reader, const JsonValue& input, const Parameter& parameter, const Schema& schema) {
  Argument argument = reader.read(input.at("arg"), &parameter);
  if (fits(argument, parameter) || (std::holds_alternative<None>(argument) && may_be_undefined(parameter, schema))) return argument;
  input.at("arg").fail(fmt::format("argument '{}' of operator {} cannot be of kind '{}'", parameter.name, schema.name,
                                   read_union(input.at("arg")).key.substr(0, 40)));
}

// The place in the schema of each argument of the file; nullopt where this schema has no such name.
std::vector<std::optional<size_t>> places_by_name(std::span<const JsonValue> inputs, const Schema& schema) {
  std::vector<std::optional<size_t>> places;
  for (const JsonValue& input : inputs) {
    const std::string_view name = input.at("name").as_string();
    if (name.empty() && places.size() < schema.parameters.size()) {
      places.emplace_back(places.size());
      continue;
    }
    const auto is_named = [&](const Parameter& parameter) { return parameter.name == name; };
    const auto found = std::find_if(schema.parameters.begin(), schema.parameters.end(), is_named);
    places.push_back(found == schema.parameters.end() ? std::nullopt
                                                      : std::optional(static_cast<size_t>(found - schema.parameters.begin())));
  }
  return places;
}

// Another version of PyTorch may call an argument differently; the order of arguments stays. Those with unknown names
// are the parameters that must be given and are not, one for one and between the same neighbours, or nothing is said.
void place_renamed(std::vector<std::optional<size_t>>& places, const Schema& schema) {
  std::vector<size_t> lacking;
  for (size_t i = 0; i < schema.parameters.size(); ++i) {
    if (std::find(places.begin(), places.end(), i) == places.end() && !absent(schema.parameters[i])) lacking.push_back(i);
  }
  if (std::cmp_not_equal(std::count(places.begin(), places.end(), std::nullopt), lacking.size())) return;
  std::vector<std::optional<size_t>> placed = places;
  auto next = lacking.begin();
  for (std::optional<size_t>& place : placed) {
    if (!place) place = *next++;
  }
  if (std::is_sorted(placed.begin(), placed.end())) places = std::move(placed);
}

// An argument that a newer PyTorch added: what is absent changes nothing.
void refuse_unknown(const JsonValue& input, const Schema& schema) {
  if (read_union(input.at("arg")).key == "as_none") return;
  const std::string_view name = input.at("name").as_string().substr(0, 80);
  throw Error(ErrorKind::Unsupported, fmt::format("operator {} has no argument '{}'", schema.name, name))
      .help("a newer PyTorch may have added it: leave it at its default, or export with an older PyTorch");
}

}  // namespace

NodeArguments read_arguments(std::span<const JsonValue> inputs, const JsonValue& node, const Schema& schema, ArgumentScope& scope) {
  Reader reader(scope);
  Given given(schema.parameters.size());
  std::vector<std::optional<size_t>> places = places_by_name(inputs, schema);
  place_renamed(places, schema);
  for (size_t i = 0; i < places.size(); ++i) {
    const JsonValue& input = inputs[i];
    if (!places[i]) {
      refuse_unknown(input, schema);
      continue;
    }
    const Parameter& parameter = schema.parameters[*places[i]];
    std::optional<Argument>& slot = given[*places[i]];
    if (slot) {
      input.at("name").fail(fmt::format("operator {} is given its argument '{}' twice", schema.name, parameter.name));
    }
    slot = read_for(reader, input, parameter, schema);
  }
  NodeArguments result;
  for (size_t i = 0; i < given.size(); ++i) {
    const Parameter& parameter = schema.parameters[i];
    if (!given[i]) given[i] = absent(parameter);
    if (!given[i]) node.fail(fmt::format("operator {} lacks its argument '{}'", schema.name, parameter.name));
    result.arguments.push_back(std::move(*given[i]));
  }
  result.inputs = reader.take_inputs();
  return result;
}

NodeArguments read_arguments(const JsonValue& inputs, ArgumentScope& scope) {
  Reader reader(scope);
  NodeArguments result;
  for (const JsonValue& input : inputs.elements()) result.arguments.push_back(reader.read(input.at("arg"), nullptr));
  result.inputs = reader.take_inputs();
  return result;
}

}  // namespace toroid::pt2
