// Size expressions as PyTorch writes them into `.pt2` files, in either of SymPy's two spellings:
//
//   str:   2*s77 + 1                       Max(1, u0)        (read by sym::parse)
//   repr:  Add(Mul(Integer(2), Symbol('s77', positive=True, integer=True)), Integer(1))
#pragma once

#include <functional>
#include <string_view>

#include "symbolic/expr.h"

namespace toroid::pt2 {

// A symbol's name and what SymPy assumes of it.
struct SymbolText {
  std::string_view name;
  bool positive = false;
  bool nonnegative = false;
};
using MakeSymbol = std::function<sym::Expr(const SymbolText& symbol)>;

// Comparisons and logic yield 0 or 1. Throws Error{InvalidModel} for malformed text and Error{Unsupported} for
// functions that are not integer arithmetic. Nesting deeper than 100 is refused.
sym::Expr parse_size(std::string_view text, sym::Context& context, const MakeSymbol& make_symbol);
// Of a symbolic float: a Real expression (symbolic/real.h), or the bits of a constant double.
sym::Expr parse_real(std::string_view text, sym::Context& context, const MakeSymbol& make_symbol);

}  // namespace toroid::pt2
