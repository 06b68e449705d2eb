// Which integer divisions generated code checks.
#pragma once

#include "loop/loop.h"

namespace toroid::codegen {

// Does the operator divide integers by what may be zero?
bool divides_integers(const loop::ExprTable& exprs, const loop::Compute& op);

}  // namespace toroid::codegen
