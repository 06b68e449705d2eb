// Integer expressions as expressions of Halide in Python.
#pragma once

#include <functional>
#include <string>

#include "loop/loop.h"

namespace toroid::codegen {

// `name_of`: of a symbol. Positions are 32 bits wide; `is_wide`: 64, of numbers that a kernel computes with. Throws NotInHalide.
std::string halide_index(const loop::ExprTable& exprs, sym::Expr expr, const std::function<std::string(sym::Expr)>& name_of,
                         bool is_wide = false);
// Is it a sum of axes times sizes?
bool is_affine(sym::Expr expr);

}  // namespace toroid::codegen
