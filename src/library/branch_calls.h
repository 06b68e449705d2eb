// How a program for a GPU tells the host which of its launches do not wait for each other (program/branches.h): a call of a library kernel
// without operands, whose one integer is a branch. What is started from there on is on that branch; on branch 0 it waits for all of them,
// and a branch that begins waits for what was started on branch 0.
#pragma once

#include <string_view>

namespace toroid {

inline constexpr std::string_view kBranchCall = "gpu.branch";

}  // namespace toroid
