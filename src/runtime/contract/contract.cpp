#include "runtime/contract/contract.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/fail.h"
#include "base/format.h"
#include "tensor/host_tensor.h"

namespace toroid {
namespace {

const ToroidExpression& expression_of(const ToroidContract& contract, int32_t position) { return contract.expressions[position]; }

// "the program takes x: f32[s0, 128] and y: i64[]"
std::string signature(const ToroidContract& contract) {
  std::string text;
  for (int32_t i = 0; i < contract.num_inputs; ++i) {
    text += i == 0 ? "" : i + 1 == contract.num_inputs ? " and " : ", ";
    text += formatted("{}: {}", contract.inputs[i].name, contract.inputs[i].type);
  }
  return "the program takes " + (text.empty() ? "no inputs" : text);
}

[[noreturn]] void refuse(const ToroidContract& contract, std::string message) {
  fail(ErrorKind::InvalidInput, Help{signature(contract)}, "{}", message);
}

[[noreturn]] void refuse_size(const ToroidContract& contract, int32_t input, int32_t dim, int64_t actual, const std::string& needed) {
  refuse(contract,
         formatted("input '{}' has size {} in dimension {}, the program needs {}", contract.inputs[input].name, actual, dim, needed));
}

// "s0 = 3, s1 = 4": what an expression stands for in this call.
std::string values_text(const ToroidExpression& expression, const CallSizes& values) {
  std::string text;
  for (int32_t symbol : rows(expression.symbols, expression.num_symbols)) {
    const std::optional<int64_t> value = values.find(symbol);
    text += formatted("{}{} = {}", text.empty() ? "" : ", ", values.contract().symbols[symbol].name, value ? formatted("{}", *value) : "?");
  }
  return text;
}

// "s0 = 3 from size 0 of input 'x'", of the symbols that sizes of inputs define.
std::string places_text(const ToroidExpression& expression, const CallSizes& values) {
  const ToroidContract& contract = values.contract();
  std::string text;
  for (int32_t symbol : rows(expression.symbols, expression.num_symbols)) {
    for (const ToroidDefinition& each : rows(contract.definitions, contract.num_definitions)) {
      if (each.symbol != symbol) continue;
      text += formatted("{}{} = {} from size {} of input '{}'", text.empty() ? "" : ", ", contract.symbols[symbol].name,
                        *values.find(symbol), each.dim, contract.inputs[each.input].name);
    }
  }
  return text;
}

void define(CallSizes& values, const ToroidDefinition& definition, int64_t size) {
  const ToroidContract& contract = values.contract();
  const int64_t rest = values.evaluate(definition.rest);
  const auto refuse_for = [&](const std::string& needed) { refuse_size(contract, definition.input, definition.dim, size, needed); };
  int64_t scaled = 0;
  if (__builtin_sub_overflow(size, rest, &scaled) || scaled % definition.coefficient != 0)
    refuse_for(formatted("a size of the form {}", definition.form));
  const int64_t value = scaled / definition.coefficient;
  const ToroidSymbol& symbol = contract.symbols[definition.symbol];
  if (value < symbol.least || value > symbol.most) {
    const bool is_low = value < symbol.least;
    int64_t bound = 0;
    if (__builtin_mul_overflow(is_low ? symbol.least : symbol.most, definition.coefficient, &bound) ||
        __builtin_add_overflow(bound, rest, &bound))
      refuse_for(formatted("a size of the form {}", definition.form));
    refuse_for(formatted("at {} {}", is_low == (definition.coefficient > 0) ? "least" : "most", bound));
  }
  values.set(definition.symbol, value);
}

// A number that stands for an expression is known: of the guards that were waiting for it.
void check_later_guards(const CallSizes& values, std::string_view number, int64_t value) {
  const ToroidContract& contract = values.contract();
  for (int32_t guard : rows(contract.later_guards, contract.num_later_guards)) {
    if (!values.knows_all_of(expression_of(contract, guard)) || values.evaluate(guard) != 0) continue;
    fail(ErrorKind::InvalidInput, "the values {} = {} violate {}, which the program relies on", number, value,
         expression_of(contract, guard).text);
  }
}

void set_in_range(CallSizes& values, int32_t symbol, int64_t value) {
  const ToroidSymbol& known = values.contract().symbols[symbol];
  if (value < known.least || value > known.most) {
    fail(ErrorKind::InvalidInput, "{} = {} is outside of [{}, {}], which the program relies on", known.name, value, known.least,
         known.most);
  }
  values.set(symbol, value);
}

void require_equal(std::string_view number, int64_t known, int64_t value) {
  if (known == value) return;
  fail(ErrorKind::InvalidInput, "{} is {} by the inputs' shapes, but {} was given", number, known, value);
}

}  // namespace

CallSizes::CallSizes(const ToroidContract& contract)
    : contract_(&contract), numbers_(static_cast<size_t>(contract.num_symbols)), is_known_(static_cast<size_t>(contract.num_symbols)) {}

void CallSizes::set(int32_t symbol, int64_t value) {
  numbers_[static_cast<size_t>(symbol)] = value;
  is_known_[static_cast<size_t>(symbol)] = 1;
}

void CallSizes::forget(int32_t symbol) {
  numbers_[static_cast<size_t>(symbol)] = 0;
  is_known_[static_cast<size_t>(symbol)] = 0;
}

bool CallSizes::knows_all_of(const ToroidExpression& expression) const {
  const Span<const int32_t> symbols = rows(expression.symbols, expression.num_symbols);
  return std::all_of(symbols.begin(), symbols.end(), [this](int32_t symbol) { return knows(symbol); });
}

int64_t CallSizes::evaluate(int32_t position) const {
  const ToroidExpression& expression = expression_of(*contract_, position);
  for (int32_t symbol : rows(expression.symbols, expression.num_symbols)) {
    if (knows(symbol)) continue;
    fail(ErrorKind::InvalidInput, "no value is known for size '{}'", contract_->symbols[symbol].name);
  }
  int64_t value = 0;
  if (contract_->evaluate(contract_, position, numbers_.data(), &value) == 0) return value;
  fail(ErrorKind::InvalidInput, "integer overflow in size arithmetic: {}", expression.text);
}

CallSizes bind_sizes(const ToroidContract& contract, Span<const InputShape> inputs) {
  const auto count = static_cast<size_t>(contract.num_inputs);
  if (inputs.size() != count) {
    refuse(contract, formatted("the program takes {} input{}, {} {} given", count, count == 1 ? "" : "s", inputs.size(),
                               inputs.size() == 1 ? "was" : "were"));
  }
  for (size_t i = 0; i < count; ++i) {
    const ToroidInputInfo& input = contract.inputs[i];
    if (static_cast<int32_t>(inputs[i].dtype) != input.dtype) {
      refuse(contract, formatted("input '{}' has dtype {}, the program needs {}", input.name, to_string(inputs[i].dtype),
                                 to_string(static_cast<DType>(input.dtype))));
    }
    if (inputs[i].sizes.size() != static_cast<size_t>(input.rank)) {
      refuse(contract, formatted("input '{}' has {} dimensions, the program needs {}", input.name, inputs[i].sizes.size(), input.rank));
    }
  }
  const auto size_of = [&](int32_t input, int32_t dim) { return inputs[static_cast<size_t>(input)].sizes[static_cast<size_t>(dim)]; };

  CallSizes values(contract);
  for (const ToroidDefinition& each : rows(contract.definitions, contract.num_definitions))
    define(values, each, size_of(each.input, each.dim));
  for (const ToroidSizeCheck& check : rows(contract.checks, contract.num_checks)) {
    const int64_t size = size_of(check.input, check.dim), needed = values.evaluate(check.expected);
    if (size == needed) continue;
    const ToroidExpression& expected = expression_of(contract, check.expected);
    std::string text = formatted("{}", needed);
    if (expected.num_symbols > 0) text += formatted(" ({}, with {})", expected.text, values_text(expected, values));
    refuse_size(contract, check.input, check.dim, size, text);
  }
  for (int32_t guard : rows(contract.guards, contract.num_guards)) {
    if (values.evaluate(guard) != 0) continue;
    const ToroidExpression& violated = expression_of(contract, guard);
    std::string text = formatted("the inputs' sizes violate {}", violated.text);
    if (const std::string places = places_text(violated, values); !places.empty()) text += formatted(" ({})", places);
    refuse(contract, text + ", which the program relies on");
  }
  return values;
}

std::vector<int64_t> strides_wanted(const CallSizes& call, size_t input, Span<const int64_t> sizes) {
  const ToroidInputInfo& info = call.contract().inputs[input];
  if (info.strides == nullptr) return strides_of(sizes);
  std::vector<int64_t> strides;
  for (int32_t stride : rows(info.strides, info.rank)) strides.push_back(call.evaluate(stride));
  return strides;
}

std::optional<int32_t> find_symbol(const ToroidContract& contract, std::string_view name) {
  for (int32_t i = 0; i < contract.num_symbols; ++i) {
    if (contract.symbols[i].name == name) return i;
  }
  return std::nullopt;
}

void bind_number(CallSizes& values, const ToroidBinding& binding, int64_t value) {
  const ToroidExpression& number = expression_of(values.contract(), binding.number);
  if (binding.defines >= 0) {
    values.forget(binding.defines);  // a loop's body defines it each time
    int64_t symbol_value = 0;
    if (__builtin_sub_overflow(value, values.evaluate(binding.rest), &symbol_value))
      fail(ErrorKind::InvalidInput, "integer overflow in size arithmetic: {} = {}", number.text, value);
    set_in_range(values, binding.defines, symbol_value);
  } else {
    require_equal(number.text, values.evaluate(binding.number), value);
  }
  check_later_guards(values, number.text, value);
}

void bind_symbol(CallSizes& values, int32_t symbol, int64_t value) {
  const std::string_view name = values.contract().symbols[symbol].name;
  if (const std::optional<int64_t> known = values.find(symbol))
    require_equal(name, *known, value);
  else
    set_in_range(values, symbol, value);
  check_later_guards(values, name, value);
}

void check_bytes(const CallSizes& values) {
  const ToroidContract& contract = values.contract();
  for (int32_t each : rows(contract.bytes, contract.num_bytes)) {
    const ToroidExpression& bytes = expression_of(contract, each);
    if (!values.knows_all_of(bytes)) continue;
    int64_t ignored = 0;
    if (contract.evaluate(&contract, each, values.numbers().data(), &ignored) == 0) continue;
    fail(ErrorKind::InvalidInput, "a tensor of the program would have {} bytes, with {}: more than fit 63 bits", bytes.text,
         values_text(bytes, values));
  }
}

}  // namespace toroid
