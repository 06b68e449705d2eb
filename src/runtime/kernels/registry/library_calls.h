// Kernels that have the names "library.NAME" and work on contiguous arrays (library/library_ops.h).
#pragma once

#include <memory>
#include <string_view>

#include "library/library_ops.h"
#include "runtime/kernels/registry/plan.h"

namespace toroid {

// Of the runtime's own, such as selection, or of library/library_ops.h. Null when there is none of that name.
LibraryKernel find_library_kernel(std::string_view name);

// The plan of a call of the kernel that has this name without "library.". Throws Error{Unsupported} when there is none.
std::unique_ptr<const KernelPlan> plan_library_call(std::string_view name);

}  // namespace toroid
