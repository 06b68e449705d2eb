#include "driver/eager/arguments.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/format.h"
#include "support/match.h"

namespace toroid {
namespace {

// ---- words for messages

template <class T>
std::string list_text(std::span<const T> values) {
  std::string text;
  for (const T& value : values) text += fmt::format("{}{}", text.empty() ? "" : ", ", value);
  return fmt::format("[{}]", text);
}

std::string to_string(const EagerArgument& argument) {
  return match(
      argument, [](None) { return std::string("none"); }, [](const TensorView& tensor) { return toroid::to_string(tensor); },
      [](TensorViewList list) {
        std::string text;
        for (const auto& tensor : list) text += fmt::format("{}{}", text.empty() ? "" : ", ", tensor ? toroid::to_string(*tensor) : "none");
        return fmt::format("[{}]", text);
      },
      [](bool flag) { return std::string(flag ? "true" : "false"); }, [](int64_t number) { return std::to_string(number); },
      [](double number) { return fmt::format("{}", number); }, [](std::span<const bool> list) { return list_text(list); },
      [](std::span<const int64_t> list) { return list_text(list); }, [](std::span<const double> list) { return list_text(list); },
      [](std::string_view text) { return fmt::format("'{}'", text); }, [](DType dtype) { return std::string(toroid::to_string(dtype)); },
      [](Layout) { return std::string("a layout"); }, [](Device device) { return toroid::to_string(device); },
      [](MemoryFormat) { return std::string("a memory format"); });
}

std::string wanted_text(const Parameter& parameter) {
  constexpr std::string_view kOne[] = {"a tensor",        "an integer", "an integer", "a float",  "true or false",
                                       "a number",        "a text",     "a dtype",    "a layout", "a device",
                                       "a memory format", "none",       "none",       "a graph",  "anything"};
  constexpr std::string_view kMany[] = {"tensors", "integers", "integers",       "floats",     "flags", "numbers", "texts",   "dtypes",
                                        "layouts", "devices",  "memory formats", "generators", "names", "graphs",  "anything"};
  const auto type = static_cast<size_t>(parameter.type);
  std::string text = parameter.is_list ? fmt::format("a list of {}", kMany[type]) : std::string(kOne[type]);
  if (parameter.is_optional) text += " or none";
  return text;
}

std::string_view base_of(std::string_view op) { return op.substr(0, op.find('.')); }

// Every overload with the same name before the dot that has to do with tensors; others are for TorchScript's numbers.
std::vector<std::string_view> overloads(std::string_view op) {
  static const std::vector<std::string_view> names = schema_names();
  const std::string_view base = base_of(op);
  std::vector<std::string_view> found;
  for (auto name = std::lower_bound(names.begin(), names.end(), base); name != names.end() && name->starts_with(base); ++name) {
    if (base_of(*name) != base) continue;
    const Schema& schema = *find_schema(*name);
    auto is_tensor = [](const Parameter& each) { return each.type == ArgType::Tensor; };
    if (std::any_of(schema.results.begin(), schema.results.end(), is_tensor) ||
        std::any_of(schema.parameters.begin(), schema.parameters.end(), is_tensor)) {
      found.push_back(*name);
    }
  }
  return found;
}

[[noreturn]] void unknown_operator(std::string_view op) {
  const std::vector<std::string_view> known = overloads(op);
  throw Error(ErrorKind::InvalidInput, fmt::format("there is no operator '{}'", op))
      .help(known.empty() ? "write it as PyTorch does, as in aten::add.Tensor; 'toroid ops' lists the operators"
                          : fmt::format("the overloads of that name are {}", joined(known, ", ")));
}

// The schema, and the other overloads, which may be the one that was meant.
[[noreturn]] void refuse(const Schema& schema, std::string message) {
  std::vector<std::string_view> others = overloads(schema.name);
  std::erase(others, std::string_view(schema.name));
  throw Error(ErrorKind::InvalidInput, std::move(message))
      .help(fmt::format("it is declared as {}{}", schema.text,
                        others.empty() ? "" : fmt::format("; other overloads are {}", joined(others, ", "))));
}

// ---- arguments by their parameters

class CallChecker {
 public:
  explicit CallChecker(const Schema& schema) : call_{.schema = &schema, .tensors = {}, .arguments = {}} {}

  OperatorCall check(std::span<const EagerArgument> arguments) {
    const Schema& schema = *call_.schema;
    if (arguments.size() > schema.parameters.size()) {
      refuse(schema, fmt::format("{} takes {} arguments, {} were given", schema.name, schema.parameters.size(), arguments.size()));
    }
    for (uint32_t p = 0; p < schema.parameters.size(); ++p) {
      const Parameter& parameter = schema.parameters[p];
      if (p < arguments.size()) {
        call_.arguments.push_back(converted(arguments[p], parameter, p));
      } else if (parameter.default_value) {
        call_.arguments.push_back(*parameter.default_value);
      } else if (parameter.is_optional) {
        call_.arguments.emplace_back(None{});
      } else {
        refuse(schema, fmt::format("{} needs the argument '{}'", schema.name, parameter.name));
      }
    }
    return std::move(call_);
  }

 private:
  InputRef add(const TensorView& view, const Parameter& parameter, uint32_t position, std::string name) {
    if (view.device.type != Device::Type::Cpu) {
      throw Error(ErrorKind::Unsupported, fmt::format("argument '{}' of {} is on {}: single operators run on the CPU", name,
                                                      call_.schema->name, toroid::to_string(view.device)));
    }
    if (!view.strides.empty() && view.strides.size() != view.sizes.size()) {
      refuse(*call_.schema, fmt::format("argument '{}' has {} sizes and {} strides", name, view.sizes.size(), view.strides.size()));
    }
    auto is_negative = [](int64_t number) { return number < 0; };
    if (std::any_of(view.sizes.begin(), view.sizes.end(), is_negative) ||
        std::any_of(view.strides.begin(), view.strides.end(), is_negative)) {
      refuse(*call_.schema,
             fmt::format("argument '{}' of {}, {}, has a negative size or stride", name, call_.schema->name, toroid::to_string(view)));
    }
    if (parameter.mutated && !view.is_writable) {
      throw Error(ErrorKind::InvalidInput,
                  fmt::format("{} writes to its argument '{}', which is to be read only", call_.schema->name, name))
          .help("pass a TensorView of memory that may be written");
    }
    call_.tensors.push_back({&view, position, std::move(name)});
    return {static_cast<uint32_t>(call_.tensors.size() - 1)};
  }

  Argument converted(const EagerArgument& argument, const Parameter& parameter, uint32_t position) {
    std::optional<Argument> result;
    if (std::holds_alternative<None>(argument)) {
      const bool has_no_other = parameter.type == ArgType::Generator || parameter.type == ArgType::Dimname;
      if (parameter.is_optional || has_no_other) result = None{};
    } else {
      result = parameter.is_list ? as_list(argument, parameter, position) : as_one(argument, parameter, position);
    }
    if (!result) {
      refuse(*call_.schema, fmt::format("argument '{}' of {} is {}, not {}", parameter.name, call_.schema->name, to_string(argument),
                                        wanted_text(parameter)));
    }
    return *std::move(result);
  }

  std::optional<Argument> as_one(const EagerArgument& argument, const Parameter& parameter, uint32_t position) {
    const auto* flag = std::get_if<bool>(&argument);
    const auto* integer = std::get_if<int64_t>(&argument);
    const auto* number = std::get_if<double>(&argument);
    switch (parameter.type) {
      case ArgType::Tensor:
        if (const auto* tensor = std::get_if<TensorView>(&argument)) return add(*tensor, parameter, position, parameter.name);
        [[fallthrough]];  // as PyTorch lets a number stand for a tensor
      case ArgType::Scalar:
        if (parameter.mutated) return std::nullopt;
        if (flag) return *flag;
        if (integer) return sym::Expr(*integer);
        if (number) return *number;
        return std::nullopt;
      case ArgType::Int:
      case ArgType::SymInt:
        if (integer) return sym::Expr(*integer);
        if (flag) return sym::Expr(*flag ? 1 : 0);
        return std::nullopt;
      case ArgType::Float:
        if (number) return *number;
        if (integer) return static_cast<double>(*integer);
        return std::nullopt;
      case ArgType::Bool: return flag ? std::optional<Argument>(*flag) : std::nullopt;
      case ArgType::String:
        if (const auto* text = std::get_if<std::string_view>(&argument)) return std::string(*text);
        return std::nullopt;
      case ArgType::ScalarType: return same<DType>(argument);
      case ArgType::Layout: return same<Layout>(argument);
      case ArgType::Device: return same<Device>(argument);
      case ArgType::MemoryFormat: return same<MemoryFormat>(argument);
      case ArgType::Generator:
      case ArgType::Dimname:
      case ArgType::Graph:
      case ArgType::Any: return std::nullopt;
    }
    return std::nullopt;
  }

  template <class T>
  static std::optional<Argument> same(const EagerArgument& argument) {
    const auto* value = std::get_if<T>(&argument);
    return value ? std::optional<Argument>(*value) : std::nullopt;
  }

  // A single number stands for a list of the length that the schema gives.
  std::optional<Argument> as_list(const EagerArgument& argument, const Parameter& parameter, uint32_t position) {
    const auto* integers = std::get_if<std::span<const int64_t>>(&argument);
    const auto* numbers = std::get_if<std::span<const double>>(&argument);
    const auto* flags = std::get_if<std::span<const bool>>(&argument);
    const auto length = static_cast<size_t>(std::max(parameter.fixed_length, 1));
    switch (parameter.type) {
      case ArgType::Tensor: {
        const auto* list = std::get_if<TensorViewList>(&argument);
        if (list == nullptr) return std::nullopt;
        InputList inputs;
        for (size_t i = 0; i < list->size(); ++i) {
          const std::optional<TensorView>& tensor = (*list)[i];
          if (!tensor && !parameter.elements_optional) return std::nullopt;
          inputs.push_back(tensor ? std::optional(add(*tensor, parameter, position, fmt::format("{}_{}", parameter.name, i)))
                                  : std::nullopt);
        }
        return inputs;
      }
      case ArgType::Int:
      case ArgType::SymInt:
      case ArgType::Scalar:
        if (integers) return ExprList(integers->begin(), integers->end());
        if (const auto* integer = std::get_if<int64_t>(&argument)) return ExprList(length, sym::Expr(*integer));
        if (parameter.type != ArgType::Scalar) return std::nullopt;
        [[fallthrough]];
      case ArgType::Float:
        if (numbers) return std::vector<double>(numbers->begin(), numbers->end());
        if (const auto* number = std::get_if<double>(&argument)) return std::vector<double>(length, *number);
        if (integers) return std::vector<double>(integers->begin(), integers->end());
        return std::nullopt;
      case ArgType::Bool: return flags ? std::optional<Argument>(std::vector<bool>(flags->begin(), flags->end())) : std::nullopt;
      default: return std::nullopt;
    }
  }

  OperatorCall call_;
};

// ---- bytes of keys

template <class T>
void append(std::string& key, T value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
void append_list(std::string& key, std::span<const T> values) {
  append(key, values.size());
  key.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

void append_tensor(std::string& key, const TensorView& tensor) {
  append(key, static_cast<uint8_t>(tensor.dtype));
  append(key, static_cast<uint8_t>(tensor.device.type));
  append(key, tensor.device.index);
  append(key, static_cast<uint8_t>((is_aligned(tensor) ? 1 : 0) | (tensor.is_writable ? 2 : 0)));
  append_list(key, tensor.sizes);
  append_list(key, tensor.strides);
}

}  // namespace

std::string to_string(const TensorView& tensor) {
  std::string text = fmt::format("{}{}", to_string(tensor.dtype), shape_text(tensor.sizes));
  if (!tensor.strides.empty()) text += fmt::format(" strides {}", shape_text(tensor.strides));
  return text;
}

std::string OperatorCall::text() const {
  std::string list;
  for (const Argument& argument : arguments) {
    std::string text;
    if (const auto* ref = std::get_if<InputRef>(&argument)) {
      text = to_string(*tensors[ref->index].view);
    } else if (const auto* refs = std::get_if<InputList>(&argument)) {
      for (const auto& each : *refs)
        text += fmt::format("{}{}", text.empty() ? "" : ", ", each ? to_string(*tensors[each->index].view) : "none");
      text = fmt::format("[{}]", text);
    } else {
      text = to_string(argument);
    }
    list += fmt::format("{}{}", list.empty() ? "" : ", ", text);
  }
  return fmt::format("{}({})", schema->name, list);
}

OperatorCall check_call(std::string_view op, std::span<const EagerArgument> arguments) {
  const Schema* const schema = find_schema(op);
  if (schema == nullptr) unknown_operator(op);
  return CallChecker(*schema).check(arguments);
}

void append_call_key(std::string& key, std::string_view op, std::span<const EagerArgument> arguments) {
  append(key, op.size());
  key += op;
  for (const EagerArgument& argument : arguments) {
    append(key, static_cast<uint8_t>(argument.index()));
    match(
        argument, [](None) {}, [&](const TensorView& tensor) { append_tensor(key, tensor); },
        [&](TensorViewList list) {
          append(key, list.size());
          for (const auto& tensor : list) {
            append(key, tensor.has_value());
            if (tensor) append_tensor(key, *tensor);
          }
        },
        [&](std::string_view text) {
          append(key, text.size());
          key += text;
        },
        [&](Device device) {
          append(key, static_cast<uint8_t>(device.type));
          append(key, device.index);
        },
        [&](std::span<const bool> list) { append_list(key, list); }, [&](std::span<const int64_t> list) { append_list(key, list); },
        [&](std::span<const double> list) { append_list(key, list); }, [&](auto value) { append(key, value); });
  }
}

void append_tensors(std::vector<const TensorView*>& tensors, std::span<const EagerArgument> arguments) {
  for (const EagerArgument& argument : arguments) {
    if (const auto* tensor = std::get_if<TensorView>(&argument)) tensors.push_back(tensor);
    if (const auto* list = std::get_if<TensorViewList>(&argument)) {
      for (const auto& tensor : *list) {
        if (tensor) tensors.push_back(&*tensor);
      }
    }
  }
}

}  // namespace toroid
