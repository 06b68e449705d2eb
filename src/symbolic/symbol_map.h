// Expressions of one Context in another, where some sizes may have become numbers: what a copy of a program needs.
#pragma once

#include <unordered_map>

#include "symbolic/expr.h"

namespace toroid::sym {

class SymbolMap {
 public:
  // `fixed`: symbols of `from` and what stands for them in `to`. Every other size, those that depend on data included, becomes a symbol
  // of `to` with its name, kind, range and hint, in their order. Axes and values stay behind. `to` outlives the map's results.
  SymbolMap(const Context& from, Context& to, const Substitution& fixed = {});

  // Simplified again, since numbers may have taken the place of symbols.
  Expr moved(Expr expr) const;
  std::vector<Expr> moved(std::vector<Expr> exprs) const;

 private:
  std::unordered_map<Expr, Expr> map_;
};

}  // namespace toroid::sym
