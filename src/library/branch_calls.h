// How a program for a GPU tells the host which of its launches do not wait for each other (program/branches.h): a call of a library kernel
// without operands, whose one integer is a branch. What is started from there on is on that branch; on branch 0 it waits for all of them,
// and a branch that begins waits for what was started on branch 0.
//
// And which run beside what follows (program/beside.h): what is started between a call with 1 and one with 0. It waits for all before it.
// Such stretches are counted from 1; a third call waits until so many of them have ended.
#pragma once

#include <string_view>

namespace toroid {

inline constexpr std::string_view kBranchCall = "gpu.branch", kBesideCall = "gpu.beside", kAwaitCall = "gpu.await";

}  // namespace toroid
