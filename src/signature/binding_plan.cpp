#include "signature/binding_plan.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/error.h"
#include "graph/builder.h"

namespace toroid {
namespace {

const TensorType& input_type(const Program& program, size_t input) { return program.graph.type(program.graph.inputs[input]); }

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

std::string input_name(const Program& program, size_t input) {
  if (input < program.inputs.size() && !program.inputs[input].name.empty()) return program.inputs[input].name;
  return program.graph.value(program.graph.inputs[input]).name;
}

std::optional<sym::Expr> rest_beside(sym::Expr expr, sym::Expr symbol) {
  if (expr == symbol) return sym::Expr(0);  // a symbol with one value only is that number in expressions
  const std::optional<sym::Linear> linear = sym::linear_in(expr, symbol);
  if (!linear || !linear->coefficient.is_const(1)) return std::nullopt;
  return linear->rest;
}

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

}  // namespace toroid
