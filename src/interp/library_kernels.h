// The kernel of a Library node that the evaluator runs: its own plain one, or that of library/library_ops.h.
#pragma once

#include <string_view>

#include "library/library_ops.h"

namespace toroid {

// Null when there is none of that name.
LibraryKernel find_evaluated_kernel(std::string_view name);

}  // namespace toroid
