#include "signature/symbol_values.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "base/error.h"
#include "signature/contract_tables.h"

namespace toroid {

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

SymbolValues bind_symbols(const Program& program, const BindingPlan& plan, std::span<const InputShape> inputs) {
  const HeldContract contract(ContractTables(program, plan));
  const CallSizes sizes = bind_sizes(contract, inputs);
  SymbolValues values;
  for (size_t i = 0; i < contract.tables().symbols.size(); ++i) {
    if (const auto value = sizes.find(static_cast<int32_t>(i))) values.set(contract.tables().symbols[i], *value);
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

}  // namespace toroid
