// What a step's kernels speak of: expressions, and positions over axes and sizes.
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

struct Mentioned {
  std::vector<ExprId> named;   // of kernels: loads that a tile turns, an epilogue's product, what is unfused
  std::vector<ExprId> values;  // of statements, and conditions of stages
  std::vector<sym::Expr> exprs;
};
// In the order of the step's lines (text.h). Operands of calls are no kernel's.
Mentioned mentioned(const Step& step);

// The size symbols that the step's kernels need the values of, each once.
std::vector<sym::Expr> size_symbols(const loop::LoopProgram& program, const Step& step);

}  // namespace toroid::schedule
