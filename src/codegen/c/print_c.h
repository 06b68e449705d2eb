// The program as one file of plain C: scalar, serial, with the C library and nothing else. No vectors, no threads, no host.
//
// It is a second printer of program::Module, small enough to read in one sitting: what it needs from the stages before it is what any
// target needs. Sums are kept in double, every operation is rounded once, as the evaluator does.
#pragma once

#include <string>

#include "program/module.h"

namespace toroid::codegen {

// The module must come from schedules that no target has planned (schedule::plain_planner).
//
// The file exports  int32_t NAME(const void* const* inputs, const void* const* constants, void* const* outputs, const int64_t* symbols).
// Inputs have the strides that their types say, outputs are contiguous, symbols are the values of Module::symbols; the comment at its head
// lists all of them. The result is 0, or as toroid_run's (program_abi.h): 1 + the number of the step, and what went wrong in the bits from
// 28 on. Throws Error{Unsupported} for what it does not compute: library kernels but products and convolutions, random numbers, loops over
// subgraphs, results whose sizes depend on data.
std::string print_c(const program::Module& module, const std::vector<schedule::ScheduledGraph>& graphs, const Program& program,
                    std::string_view name);

}  // namespace toroid::codegen
