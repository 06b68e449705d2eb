// One kernel as a C function.
#pragma once

#include <string>
#include <vector>

#include "loop/loop.h"
#include "schedule/schedule.h"

namespace toroid::codegen::c {

struct CKernel {
  std::string text;                     // the function
  std::vector<loop::BufferId> buffers;  // its pointers, in order, after `memory` and `symbols`
};

// `static int32_t NAME(Memory*, const int64_t* symbols, pointers…)`: 0, or what went wrong. `symbols`: the lines that declare the sizes.
// Throws Error{Unsupported} as c_types.h does.
CKernel print_kernel(const loop::LoopProgram& loops, const schedule::Step& kernel, std::string_view name, std::string_view symbols);

// An integer expression over sizes. Throws Error{Unsupported} for what sizes computed with real numbers need.
std::string index_text(const loop::ExprTable& exprs, sym::Expr e);

}  // namespace toroid::codegen::c
