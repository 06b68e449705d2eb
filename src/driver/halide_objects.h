// Objects of Halide pipelines, with the cache before the compiler.
#pragma once

#include "cache/cache.h"
#include "driver/build_library.h"

namespace toroid {

// Those that the cache has not are compiled by one run of Python, `jobs` at a time, and kept. The keys are of the pipelines' texts, the
// target, and Halide's version.
CompileHalide cached_halide(Cache& cache, int jobs);

// What a program's key has of Halide: its version where kernels are to be compiled by it, else "".
std::string halide_part(bool may_take);

}  // namespace toroid
