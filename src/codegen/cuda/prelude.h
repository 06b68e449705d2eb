// The text that every generated CUDA file starts with: types, loads and stores, scalar operators, and threads that share a row.
//
// It includes no header, because those for 16-bit floats and for C++'s library cost more than a kernel. The same text is compiled for a
// processor behind kEmulation, to test kernels where there is no GPU.
#pragma once

#include <string_view>

namespace toroid::codegen::cuda {

extern const std::string_view kPrelude;
// Behind it, in files whose kernels compute special functions: library/special/, as it is.
extern const std::string_view kSpecialPrelude;
// In front of a wrapper whose kernels are CUDA's.
extern const std::string_view kHostPrelude;
// In front of kPrelude, to compile for a processor: what the language CUDA has beside C++, and blocks whose threads are fibers.
extern const std::string_view kEmulation;

}  // namespace toroid::codegen::cuda
