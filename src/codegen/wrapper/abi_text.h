// The part of a generated file that wrapper and runtime agree on.
#pragma once

#include <string_view>

namespace toroid::codegen {

// include/toroid/program_abi.h without its includes, and helpers over it. Change both together.
extern const std::string_view kAbi;
// The part of it that says what a program is, for the unit with its tables.
extern const std::string_view kContractAbi;
// Where a program's buffers are: in memory that the wrapper reads itself, or in a GPU's.
extern const std::string_view kOwnMemory, kGpuMemory;
// Loops over subgraphs, for wrappers that need them; before it comes one of those, and one of the two after it.
extern const std::string_view kControlFlow;
extern const std::string_view kSameCall;    // in programs that draw nothing
extern const std::string_view kRandomCall;  // in others, after kRandomPrelude

}  // namespace toroid::codegen
