#include "symbolic/symbol_map.h"

namespace toroid::sym {

SymbolMap::SymbolMap(const Context& from, Context& to, const Substitution& fixed) : map_(fixed.begin(), fixed.end()) {
  for (const Expr symbol : from.symbols()) {
    const Node& node = *symbol.node();
    const bool is_size = node.symbol_kind == SymbolKind::Size || node.symbol_kind == SymbolKind::DataDependent;
    if (is_size && !map_.contains(symbol)) map_.emplace(symbol, to.symbol(node.name, node.symbol_kind, node.range, node.hint));
  }
}

Expr SymbolMap::moved(Expr expr) const {
  if (expr.is_const()) return expr;
  return substitute(expr, [&](Expr symbol) -> std::optional<Expr> {
    const auto found = map_.find(symbol);
    return found == map_.end() ? std::nullopt : std::optional(found->second);
  });
}

std::vector<Expr> SymbolMap::moved(std::vector<Expr> exprs) const {
  for (Expr& expr : exprs) expr = moved(expr);
  return exprs;
}

}  // namespace toroid::sym
