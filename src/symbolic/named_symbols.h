// Axes and value symbols with names of the caller's choice: for who reads them from a text. Context::axis and Context::value make up
// theirs.
#pragma once

#include <string_view>

#include "symbolic/expr.h"

namespace toroid::sym {

// Both throw Error{InvalidModel} where the name is taken or is no identifier.
Expr named_axis(Context& context, std::string_view name, Expr extent);
Expr named_value(Context& context, std::string_view name, Range range);

}  // namespace toroid::sym
