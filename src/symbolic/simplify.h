// Internal to symbolic/: building blocks that the parts of the simplifier share.
#pragma once

#include "symbolic/expr.h"

namespace toroid::sym {

// The sum of many expressions at once, which sorts and collects terms only once.
Expr sum_of(std::span<const Expr> operands);

// expr >= 0 is provable from ranges and extents; see prove.cpp.
bool known_nonnegative(Expr expr);

// The expression of `kind` over `operands`, simplified: what substitution rebuilds a node with.
Expr rebuild(Kind kind, std::span<const Expr> operands);

// For messages: at most about `max_length` characters, since an expression with shared nodes may print without end.
std::string to_short_string(Expr expr, size_t max_length = 200);

}  // namespace toroid::sym
