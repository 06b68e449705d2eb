#include "interp/bind_symbols.h"

#include <functional>
#include <unordered_set>

#include "graph/builder.h"
#include "support/checked.h"
#include "support/error.h"

namespace toroid {
namespace {

const TensorType& input_type(const Program& program, size_t input) { return program.graph.type(program.graph.inputs[input]); }

std::string input_name(const Program& program, size_t input) {
  if (input < program.inputs.size() && !program.inputs[input].name.empty()) return program.inputs[input].name;
  return program.graph.value(program.graph.inputs[input]).name;
}

// "the program takes x: f32[s0, 128] and y: i64[]"
std::string signature(const Program& program) {
  std::string text;
  const size_t count = program.graph.inputs.size();
  for (size_t i = 0; i < count; ++i) {
    const TensorType& type = input_type(program, i);
    text += i == 0 ? "" : i + 1 == count ? " and " : ", ";
    text += fmt::format("{}: {}", input_name(program, i), to_string(TensorType{.dtype = type.dtype, .sizes = type.sizes}));
  }
  return "the program takes " + (count == 0 ? "no inputs" : text);
}

[[noreturn]] void refuse(const Program& program, std::string message) {
  throw Error(ErrorKind::InvalidInput, std::move(message)).help(signature(program));
}

// "s0 = 3, s1 = 4": what an expression stands for in this call.
std::string values_text(sym::Expr expr, const SymbolValues& values) {
  std::string text;
  for (sym::Expr symbol : sym::free_symbols(expr)) {
    const std::optional<int64_t> value = values.find(symbol);
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", sym::to_string(symbol), value ? std::to_string(*value) : "?");
  }
  return text;
}

// 6*s0*s1 is s0*s1 and 6.
std::pair<sym::Expr, int64_t> split_factor(sym::Expr expr) {
  if (expr.is_const() || expr.kind() != sym::Kind::Mul) return {expr, 1};
  sym::Expr part = 1;
  int64_t factor = 1;
  for (sym::Expr operand : expr.operands()) {
    if (operand.is_const())
      factor = operand.value();
    else
      part = part * operand;
  }
  return {part, factor};
}

[[noreturn]] void refuse_size(const Program& program, InputSize source, int64_t actual, const std::string& needed) {
  refuse(program, fmt::format("input '{}' has size {} in dimension {}, the program needs {}", input_name(program, source.input), actual,
                              source.dim, needed));
}

// What is left of `expr` beside `symbol`, if a number that `expr` stands for tells the symbol: u0 + s0 - 1 does, u0*u0 and 2*u0 do not.
std::optional<sym::Expr> rest_beside(sym::Expr expr, sym::Expr symbol) {
  if (expr == symbol) return sym::Expr(0);  // a symbol with one value only is that number in expressions
  const std::optional<sym::Linear> linear = sym::linear_in(expr, symbol);
  if (!linear || !linear->coefficient.is_const(1)) return std::nullopt;
  return linear->rest;
}

// Every number that the program reads out of a tensor tells the symbol that it is the first to need.
void check_bindings(const Program& program, const BindingPlan& plan) {
  std::unordered_set<sym::Expr> known;
  for (const SymbolDefinition& definition : plan.definitions) known.insert(definition.symbol);
  const auto check = [&](const Graph& graph) {
    for (const SymbolBinding& binding : graph.bindings) {
      if (binding.expr.is_const()) continue;
      std::vector<sym::Expr> open = sym::free_symbols(binding.expr);
      std::erase_if(open, [&](sym::Expr symbol) { return known.contains(symbol); });
      if (open.size() == 1 && !rest_beside(binding.expr, open[0])) {
        throw Error(ErrorKind::Unsupported,
                    fmt::format("the number in '{}' is '{}', which does not tell '{}'", graph.value(binding.value).name,
                                sym::to_string(binding.expr), sym::to_string(open[0])))
            .help("export the model with a size of its own for each number that is read from a tensor");
      }
      known.insert(open.begin(), open.end());
    }
  };
  check(program.graph);
  for (const Graph& graph : program.subgraphs) check(graph);
}

}  // namespace

// ---- the plan
// ------------------------------------------------------------------------------------------------------------

BindingPlan plan_bindings(const Program& program) {
  BindingPlan plan;
  std::unordered_set<sym::Expr> known;
  auto all_known = [&](sym::Expr expr) {
    if (expr.is_const()) return true;
    const std::vector<sym::Expr> symbols = sym::free_symbols(expr);
    return std::all_of(symbols.begin(), symbols.end(), [&](sym::Expr s) { return known.contains(s); });
  };

  std::vector<SizeCheck> open;
  for (uint32_t input = 0; input < program.graph.inputs.size(); ++input) {
    const TensorType& type = input_type(program, input);
    for (uint32_t dim = 0; dim < type.sizes.size(); ++dim) {
      const sym::Expr size = type.sizes[dim];
      // The first size that is a symbol alone defines it: that is the one the user would name.
      if (size.is_symbol() && known.insert(size).second) {
        plan.definitions.push_back({.symbol = size, .source = {input, dim}, .rest = 0});
      } else {
        open.push_back({{input, dim}, size});
      }
    }
  }

  auto try_define = [&](const SizeCheck& size) {
    std::optional<sym::Expr> unknown;
    for (sym::Expr symbol : sym::free_symbols(size.expected)) {
      if (known.contains(symbol)) continue;
      if (unknown) return false;
      unknown = symbol;
    }
    if (!unknown) return false;
    const std::optional<sym::Linear> linear = sym::linear_in(size.expected, *unknown);
    if (!linear || !linear->coefficient.is_const() || linear->coefficient.is_const(0)) return false;
    plan.definitions.push_back({*unknown, size.source, linear->rest, linear->coefficient.value()});
    known.insert(*unknown);
    return true;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (auto size = open.begin(); size != open.end();) {
      const bool defined = try_define(*size);
      progress = progress || defined;
      size = defined ? open.erase(size) : size + 1;
    }
  }
  for (const SizeCheck& size : open) {
    if (!all_known(size.expected)) {
      throw Error(ErrorKind::Unsupported,
                  fmt::format("the sizes in '{}', size {} of input '{}', cannot be found from the inputs' shapes",
                              sym::to_string(size.expected), size.source.dim, input_name(program, size.source.input)))
          .help("export the model with dynamic shapes that name each size on some input");
    }
    plan.checks.push_back(size);
  }
  for (uint32_t input = 0; input < program.graph.inputs.size(); ++input) {
    for (sym::Expr stride : input_type(program, input).strides) {
      if (all_known(stride)) continue;
      throw Error(ErrorKind::Unsupported, fmt::format("the stride '{}' of input '{}' cannot be found from the inputs' shapes",
                                                      sym::to_string(stride), input_name(program, input)))
          .help("export the model with contiguous example inputs");
    }
  }
  check_bindings(program, plan);
  for (sym::Expr guard : program.guards) {
    if (guard.is_const() && !guard.is_const(0)) continue;
    (all_known(guard) ? plan.guards : plan.later_guards).push_back(guard);
  }
  return plan;
}

std::vector<sym::Expr> tensor_bytes(const Program& program) {
  std::vector<sym::Expr> order;
  std::unordered_map<sym::Expr, int64_t> factors;  // of the part without a constant factor, the largest
  auto add = [&](const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      for (ValueId output : node.outputs) {
        const TensorType& type = graph.type(output);
        if (std::all_of(type.sizes.begin(), type.sizes.end(), [](sym::Expr size) { return size.is_const(); })) continue;
        const auto [part, factor] = split_factor(sym::product(type.sizes));
        if (part.is_const()) continue;
        const std::optional<int64_t> bytes = ((factor < 0 ? Checked(0) - factor : Checked(factor)) * size_bytes(type.dtype)).value();
        if (!bytes) {
          throw Error(ErrorKind::InvalidModel,
                      fmt::format("'{}' of type {} has more bytes than 63 bits count", graph.value(output).name, to_string(type)));
        }
        const auto [found, is_new] = factors.try_emplace(part, *bytes);
        if (is_new) order.push_back(part);
        found->second = std::max(found->second, *bytes);
      }
    }
  };
  add(program.graph);
  for (const Graph& graph : program.subgraphs) add(graph);
  std::vector<sym::Expr> bytes;
  for (sym::Expr part : order) {
    const sym::Expr all = part * factors.at(part);
    if (all.range().max == sym::kPosInf) bytes.push_back(all);
  }
  return bytes;
}

// ---- values
// --------------------------------------------------------------------------------------------------------------

std::optional<int64_t> SymbolValues::find(sym::Expr symbol) const {
  const auto found = values_.find(symbol);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

int64_t SymbolValues::evaluate(sym::Expr expr) const {
  if (expr.is_const()) return expr.value();
  return sym::evaluate(expr, [this](sym::Expr symbol) { return find(symbol); });
}

std::vector<int64_t> SymbolValues::evaluate(std::span<const sym::Expr> exprs) const {
  std::vector<int64_t> values;
  values.reserve(exprs.size());
  for (sym::Expr expr : exprs) values.push_back(evaluate(expr));
  return values;
}

// ---- running it
// ----------------------------------------------------------------------------------------------------------

SymbolValues bind_symbols(const Program& program, const BindingPlan& plan, std::span<const InputShape> inputs) {
  const size_t expected_count = program.graph.inputs.size();
  if (inputs.size() != expected_count) {
    refuse(program, fmt::format("the program takes {} input{}, {} {} given", expected_count, expected_count == 1 ? "" : "s", inputs.size(),
                                inputs.size() == 1 ? "was" : "were"));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& type = input_type(program, i);
    if (inputs[i].dtype != type.dtype) {
      refuse(program, fmt::format("input '{}' has dtype {}, the program needs {}", input_name(program, i), to_string(inputs[i].dtype),
                                  to_string(type.dtype)));
    }
    if (static_cast<int64_t>(inputs[i].sizes.size()) != type.rank()) {
      refuse(program, fmt::format("input '{}' has {} dimensions, the program needs {}", input_name(program, i), inputs[i].sizes.size(),
                                  type.rank()));
    }
  }

  SymbolValues values;
  for (const SymbolDefinition& definition : plan.definitions) {
    const auto [input, dim] = definition.source;
    const int64_t size = inputs[input].sizes[dim];
    const int64_t scaled = size - values.evaluate(definition.rest);
    if (scaled % definition.coefficient != 0) {
      refuse_size(program, definition.source, size,
                  fmt::format("a size of the form {}", sym::to_string(definition.symbol * definition.coefficient + definition.rest)));
    }
    const int64_t value = scaled / definition.coefficient;
    const sym::Range range = definition.symbol.range();
    if (value < range.min || value > range.max) {
      const bool low = value < range.min;
      const sym::Expr bound = sym::Expr(low ? range.min : range.max) * definition.coefficient + definition.rest;
      const bool at_least = low == (definition.coefficient > 0);
      refuse_size(program, definition.source, size, fmt::format("at {} {}", at_least ? "least" : "most", values.evaluate(bound)));
    }
    values.set(definition.symbol, value);
  }
  for (const SizeCheck& check : plan.checks) {
    const int64_t size = inputs[check.source.input].sizes[check.source.dim];
    const int64_t needed = values.evaluate(check.expected);
    if (size == needed) continue;
    std::string text = std::to_string(needed);
    if (!check.expected.is_const()) {
      text += fmt::format(" ({}, with {})", sym::to_string(check.expected), values_text(check.expected, values));
    }
    refuse_size(program, check.source, size, text);
  }
  for (sym::Expr guard : plan.guards) {
    if (values.evaluate(guard) != 0) continue;
    std::string text = fmt::format("the inputs' sizes violate {}", sym::to_string(guard));
    std::string places;
    for (sym::Expr symbol : sym::free_symbols(guard)) {
      for (const SymbolDefinition& definition : plan.definitions) {
        if (!(definition.symbol == symbol)) continue;
        const auto [input, dim] = definition.source;
        places += fmt::format("{}{} = {} from size {} of input '{}'", places.empty() ? "" : ", ", sym::to_string(symbol),
                              *values.find(symbol), dim, input_name(program, input));
      }
    }
    if (!places.empty()) text += fmt::format(" ({})", places);
    refuse(program, text + ", which the program relies on");
  }
  return values;
}

void bind_number(SymbolValues& symbols, std::span<const sym::Expr> later_guards, sym::Expr expr, int64_t value) {
  auto is_open = [&](sym::Expr symbol) { return !symbols.find(symbol).has_value(); };
  std::vector<sym::Expr> open;
  if (!expr.is_const()) open = sym::free_symbols(expr);
  std::erase_if(open, std::not_fn(is_open));
  if (open.size() == 1) {
    const std::optional<sym::Expr> rest = rest_beside(expr, open[0]);
    TOROID_CHECK(rest, "'{}' does not define a symbol", sym::to_string(expr));
    const int64_t symbol_value = value - symbols.evaluate(*rest);
    const sym::Range range = open[0].range();
    if (symbol_value < range.min || symbol_value > range.max) {
      throw Error(ErrorKind::InvalidInput, fmt::format("{} = {} is outside of [{}, {}], which the program relies on",
                                                       sym::to_string(open[0]), symbol_value, range.min, range.max));
    }
    symbols.set(open[0], symbol_value);
  } else if (symbols.evaluate(expr) != value) {
    throw Error(ErrorKind::InvalidInput,
                fmt::format("{} is {} by the inputs' shapes, but {} was given", sym::to_string(expr), symbols.evaluate(expr), value));
  }
  for (sym::Expr guard : later_guards) {
    const std::vector<sym::Expr> needed = sym::free_symbols(guard);
    if (std::any_of(needed.begin(), needed.end(), is_open) || symbols.evaluate(guard) != 0) continue;
    throw Error(ErrorKind::InvalidInput, fmt::format("the values {} = {} violate {}, which the program relies on", sym::to_string(expr),
                                                     value, sym::to_string(guard)));
  }
}

void check_bytes(const SymbolValues& symbols, std::span<const sym::Expr> bytes) {
  for (sym::Expr each : bytes) {
    const std::vector<sym::Expr> needed = sym::free_symbols(each);
    if (std::any_of(needed.begin(), needed.end(), [&](sym::Expr symbol) { return !symbols.find(symbol); })) continue;
    try {
      symbols.evaluate(each);
    } catch (const Error&) {
      throw Error(ErrorKind::InvalidInput, fmt::format("a tensor of the program would have {} bytes, with {}: more than fit 63 bits",
                                                       sym::to_string(each), values_text(each, symbols)));
    }
  }
}

}  // namespace toroid
