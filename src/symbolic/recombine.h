// Internal to symbolic/: see recombine.cpp.
#pragma once

#include "symbolic/form.h"

namespace toroid::sym {

// Applies n*(x//n) + x%n = x and its two other readings to a normalised form, until none applies.
void recombine(Context::Impl& impl, Form& form);

// The canonical expression for terms in any order.
Expr collect(Context::Impl& impl, Form form);

}  // namespace toroid::sym
