#include "signature/contract_tables.h"

#include <utility>

#include "base/error.h"
#include "graph/builder.h"

namespace toroid {
namespace {

int32_t count(const auto& rows) { return static_cast<int32_t>(rows.size()); }

int32_t evaluate_held(const ToroidContract* contract, int32_t expression, const int64_t* symbols, int64_t* value) {
  const ContractTables& tables = static_cast<const HeldContract*>(contract)->tables();
  try {
    *value = sym::evaluate(tables.expressions[static_cast<size_t>(expression)],
                           [&](sym::Expr symbol) { return std::optional(symbols[tables.position_of_symbol(symbol)]); });
    return 0;
  } catch (const Error&) {
    return 1;
  }
}

}  // namespace

std::string shape_text(const TensorType& type) { return to_string(TensorType{.dtype = type.dtype, .sizes = type.sizes}); }

ContractTables::ContractTables(const Program& program, const BindingPlan& plan) {
  for (const sym::Expr symbol : program.symbols->symbols()) {
    const sym::SymbolKind kind = symbol.node()->symbol_kind;
    if (kind != sym::SymbolKind::Size && kind != sym::SymbolKind::DataDependent) continue;
    symbol_positions_.emplace(symbol, count(symbols));
    symbols.push_back(symbol);
  }
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    const TensorType& type = program.graph.type(program.graph.inputs[i]);
    Input& input = inputs.emplace_back(Input{input_name(program, i), shape_text(type), type.dtype, {}, static_cast<int32_t>(type.rank())});
    for (sym::Expr stride : type.strides) input.strides.push_back(position(stride));
  }
  for (const SymbolDefinition& each : plan.definitions) {
    const auto [input, dim] = each.source;
    definitions.push_back({{position_of_symbol(each.symbol), static_cast<int32_t>(input), static_cast<int32_t>(dim), position(each.rest),
                            each.coefficient, nullptr},
                           sym::to_string(each.symbol * each.coefficient + each.rest)});
  }
  for (const SizeCheck& each : plan.checks)
    checks.push_back({static_cast<int32_t>(each.source.input), static_cast<int32_t>(each.source.dim), position(each.expected)});
  for (sym::Expr guard : plan.guards) guards.push_back(position(guard));
  for (sym::Expr guard : plan.later_guards) later_guards.push_back(position(guard));
}

int32_t ContractTables::position(sym::Expr expression) {
  const auto [found, is_new] = positions_.try_emplace(expression, count(expressions));
  if (is_new) expressions.push_back(expression);
  return found->second;
}

std::optional<int32_t> ContractTables::find_symbol(sym::Expr symbol) const {
  const auto found = symbol_positions_.find(symbol);
  return found == symbol_positions_.end() ? std::nullopt : std::optional(found->second);
}

void ContractTables::add(const SymbolBinding& binding) {
  position(binding.expr);
  if (binding.expr.is_const()) return;
  for (sym::Expr symbol : sym::free_symbols(binding.expr)) {
    if (const std::optional<sym::Expr> rest = rest_beside(binding.expr, symbol)) position(*rest);
  }
}

std::vector<int32_t> ContractTables::symbols_of(sym::Expr expression) const {
  std::vector<int32_t> own;
  if (expression.is_const()) return own;
  for (sym::Expr symbol : sym::free_symbols(expression)) own.push_back(position_of_symbol(symbol));
  return own;
}

HeldContract::HeldContract(ContractTables tables) : ToroidContract{}, tables_(std::move(tables)) {
  for (const ContractTables::Input& input : tables_.inputs) {
    inputs_.push_back({input.name.c_str(), input.type.c_str(), static_cast<int32_t>(input.dtype), input.rank,
                       input.strides.empty() ? nullptr : input.strides.data()});
  }
  for (sym::Expr symbol : tables_.symbols) symbols_.push_back({symbol.node()->name.c_str(), symbol.range().min, symbol.range().max});
  for (sym::Expr expression : tables_.expressions) {
    texts_.push_back(sym::to_string(expression));
    symbols_of_expressions_.push_back(tables_.symbols_of(expression));
  }
  for (size_t i = 0; i < texts_.size(); ++i)
    expressions_.push_back({texts_[i].c_str(), symbols_of_expressions_[i].data(), count(symbols_of_expressions_[i])});
  for (const ContractTables::Definition& each : tables_.definitions) {
    definitions_.push_back(each.row);
    definitions_.back().form = each.form.c_str();
  }
  static_cast<ToroidContract&>(*this) = {.inputs = inputs_.data(),
                                         .symbols = symbols_.data(),
                                         .expressions = expressions_.data(),
                                         .definitions = definitions_.data(),
                                         .checks = tables_.checks.data(),
                                         .guards = tables_.guards.data(),
                                         .later_guards = tables_.later_guards.data(),
                                         .bytes = tables_.bytes.data(),
                                         .num_inputs = count(inputs_),
                                         .num_symbols = count(symbols_),
                                         .num_expressions = count(expressions_),
                                         .num_definitions = count(definitions_),
                                         .num_checks = count(tables_.checks),
                                         .num_guards = count(tables_.guards),
                                         .num_later_guards = count(tables_.later_guards),
                                         .num_bytes = count(tables_.bytes),
                                         .evaluate = evaluate_held};
}

}  // namespace toroid
