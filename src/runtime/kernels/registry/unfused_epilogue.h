// Products whose epilogue comes afterwards: an implementation writes the whole result to a buffer, and the epilogue is called for its rows
// then.
//
// It costs writing and reading the result once more. In return the implementation may be one that cannot give blocks to an epilogue, or one
// that is slower when it does, as where blocks are small. Results of 16-bit floats are rounded before the epilogue gets them, as the
// program without fusion would round them.
#pragma once

#include <string_view>

#include "runtime/kernels/registry/registry.h"

namespace toroid {

// Ends the names of such choices: "packed-then-epilogue".
inline constexpr std::string_view kUnfusedEpilogue = "-then-epilogue";

// `columns_dim`: as KernelFamily::columns_dim. The buffer is the calling thread's, as large as the largest result that it was needed for,
// and kept.
std::unique_ptr<const KernelPlan> plan_unfused_epilogue(const Implementation& implementation, int columns_dim, const KernelCall& call);

}  // namespace toroid
