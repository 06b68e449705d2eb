// How much memory there is.
#pragma once

#include <cstdint>

namespace toroid {

// What this process may have at most: the machine's memory or, where they allow less, that of its control group (v2) or its limit of
// address space (ulimit -v). UINT64_MAX where none is told.
uint64_t total_memory_bytes();

// What new processes may use without swapping: Linux's own estimate, less where the control group allows less. UINT64_MAX where neither is
// told.
uint64_t available_memory_bytes();

}  // namespace toroid
