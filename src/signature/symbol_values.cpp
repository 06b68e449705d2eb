#include "signature/symbol_values.h"

#include "base/error.h"

namespace toroid {

std::optional<int64_t> SymbolValues::find(sym::Expr symbol) const {
  if (!sizes_) return std::nullopt;
  const std::optional<int32_t> position = contract_->tables().find_symbol(symbol);
  return position ? sizes_->find(*position) : std::nullopt;
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

void SymbolValues::bind(sym::Expr expr, int64_t value) {
  const ContractTables& tables = contract_->tables();
  ToroidBinding binding{.number = tables.position_of(expr), .defines = -1, .rest = -1};
  for (int32_t symbol : tables.symbols_of(expr)) {
    if (sizes_->knows(symbol)) continue;
    TOROID_CHECK(binding.defines < 0, "'{}' does not define a symbol", sym::to_string(expr));
    binding.defines = symbol;
    binding.rest = tables.position_of(*rest_beside(expr, tables.symbols[static_cast<size_t>(symbol)]));
  }
  bind_number(*sizes_, binding, value);
}

SymbolValues bind_symbols(const Program& program, const BindingPlan& plan, std::span<const InputShape> inputs) {
  ContractTables tables(program, plan);
  const auto add = [&](const Graph& graph) {
    for (const SymbolBinding& binding : graph.bindings) tables.add(binding);
  };
  add(program.graph);
  for (const Graph& graph : program.subgraphs) add(graph);
  const auto contract = std::make_shared<const HeldContract>(std::move(tables));
  return {contract, bind_sizes(*contract, inputs)};
}

}  // namespace toroid
