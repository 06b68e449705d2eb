// Walks over expressions: substitution, free symbols, coefficients.
//
// Nodes are shared, so every walk remembers what it has seen; a node whose symbol mask rules out a change is not
// entered.
#include <unordered_map>
#include <unordered_set>

#include "symbolic/form.h"
#include "symbolic/node_table.h"
#include "symbolic/recombine.h"
#include "symbolic/simplify.h"

namespace toroid::sym {
namespace {

class Substituter {
 public:
  Substituter(const std::function<std::optional<Expr>(Expr symbol)>& replace, uint64_t mask) : replace_(replace), mask_(mask) {}

  Expr apply(Expr expr) {
    if (expr.is_const() || !(expr.node()->symbol_mask & mask_)) return expr;
    if (const auto found = done_.find(expr.node()); found != done_.end()) return found->second;
    const Expr result = expr.is_symbol() ? replace_(expr).value_or(expr) : apply_to_operands(expr);
    done_.emplace(expr.node(), result);
    return result;
  }

 private:
  Expr apply_to_operands(Expr expr) {
    std::vector<Expr> operands(expr.operands().begin(), expr.operands().end());
    bool changed = false;
    for (Expr& operand : operands) {
      const Expr replaced = apply(operand);
      changed |= replaced != operand;
      operand = replaced;
    }
    return changed ? rebuild(expr.kind(), operands) : expr;
  }

  const std::function<std::optional<Expr>(Expr symbol)>& replace_;
  uint64_t mask_;
  std::unordered_map<const Node*, Expr> done_;
};

void collect_symbols(Expr expr, std::unordered_set<const Node*>& seen, std::vector<Expr>& symbols) {
  if (expr.is_const() || !seen.insert(expr.node()).second) return;
  if (expr.is_symbol()) symbols.push_back(expr);
  for (Expr operand : expr.operands()) collect_symbols(operand, seen, symbols);
}

bool contains_symbol(Expr expr, Expr symbol, std::unordered_set<const Node*>& seen) {
  if (expr == symbol) return true;
  if (expr.is_const() || !(expr.node()->symbol_mask & symbol.node()->symbol_mask)) return false;
  if (!seen.insert(expr.node()).second) return false;
  for (Expr operand : expr.operands()) {
    if (contains_symbol(operand, symbol, seen)) return true;
  }
  return false;
}

}  // namespace

Expr substitute(Expr expr, const Substitution& replacements) {
  uint64_t mask = 0;
  for (const auto& [symbol, replacement] : replacements) {
    TOROID_CHECK(symbol.is_symbol(), "'{}' is substituted but is not a symbol", to_short_string(symbol));
    mask |= symbol.node()->symbol_mask;
  }
  const std::function<std::optional<Expr>(Expr)> replace = [&](Expr symbol) -> std::optional<Expr> {
    for (const auto& [from, to] : replacements) {
      if (from == symbol) return to;
    }
    return std::nullopt;
  };
  return Substituter(replace, mask).apply(expr);
}

Expr substitute(Expr expr, const std::function<std::optional<Expr>(Expr symbol)>& replace) {
  return Substituter(replace, ~uint64_t{0}).apply(expr);
}

std::vector<Expr> free_symbols(Expr expr) {
  std::unordered_set<const Node*> seen;
  std::vector<Expr> symbols;
  collect_symbols(expr, seen, symbols);
  std::sort(symbols.begin(), symbols.end(), [](Expr a, Expr b) { return a.node()->id < b.node()->id; });
  return symbols;
}

bool depends_on(Expr expr, Expr symbol) {
  TOROID_CHECK(symbol.is_symbol(), "'{}' is not a symbol", to_short_string(symbol));
  std::unordered_set<const Node*> seen;
  return contains_symbol(expr, symbol, seen);
}

std::optional<Linear> linear_in(Expr expr, Expr symbol) {
  TOROID_CHECK(symbol.is_symbol(), "'{}' is not a symbol", to_short_string(symbol));
  if (expr.is_const() || !(expr.node()->symbol_mask & symbol.node()->symbol_mask)) return Linear{0, expr};
  Context::Impl& impl = expr.context()->impl();
  Form coefficient, rest;
  const Form form = form_of(expr);
  rest.constant = form.constant;
  for (const Term& term : form.terms) {
    if (!depends_on(term.product, symbol)) {
      rest.terms.push_back(term);
      continue;
    }
    const std::optional<Expr> left = divide_products(impl, term.product, symbol);
    if (!left || depends_on(*left, symbol)) return std::nullopt;
    append(coefficient, *left, term.coefficient);
  }
  return Linear{collect(impl, std::move(coefficient)), to_expr(impl, rest)};
}

}  // namespace toroid::sym
