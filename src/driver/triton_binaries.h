// Binaries of kernels in Triton as entries of the cache, of the kind `triton`.
#pragma once

#include "cache/cache.h"
#include "driver/build_library.h"

namespace toroid {

// Those that the cache lacks are compiled by one process, `jobs` at a time, and kept. `cache` lives as long as the function.
CompileTriton cached_triton(Cache& cache, int jobs);

// What keys of programs have of the Triton that they are compiled with: its version; "" for `may_take` false, "none" where it is missing.
std::string triton_part(bool may_take);

}  // namespace toroid
