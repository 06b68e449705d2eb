// Compiles Triton kernels to a GPU's code, without a GPU, by a Python that has Triton: a subprocess for each call, which compiles all
// kernels of it side by side. Neither toroid's process nor a compiled program holds Python.
//
// That Python is TOROID_TRITON_PYTHON, else python3; Triton 3.5 or newer. A kernel's source is a program in Python, which runs there with
// the rights of the user: it must come from where the user said that code may come from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace toroid {

// What a launch has to know besides what its caller says.
struct TritonBinary {
  std::string bytes;          // cubin, PTX or a code object
  std::string kernel;         // its name
  int threads = 0;            // of a block
  int shared_bytes = 0;       // dynamic, of a block
  int64_t scratch_bytes = 0;  // of global memory, of each block
  int scratch_alignment = 1;  // a power of two
  int more_pointers = 0;      // behind the arguments that are no constants; the first one is to the scratch memory, others may be null
};

// "Triton 3.6.0"; part of a program's key. Throws Error{Environment} where there is no Python or it has no such Triton.
std::string triton_version();

// `kernels`: texts of codegen::TritonKernel. architecture: sm_80, sm_90a, compute_80 for PTX, gfx942. jobs: compilations at a time. The
// binaries in the kernels' order. Throws Error{Environment} as triton_version, Error{Unsupported} for an architecture that Triton has no
// code for and kernels whose launch toroid does not do, Error{ToolFailed} with Triton's own words and the line of the file.
std::vector<TritonBinary> compile_triton(std::span<const std::string> kernels, std::string_view architecture, int jobs);

// A binary with what belongs to it, for a cache. Throws Error{Internal} for a text that is none.
std::string to_bytes(const TritonBinary& binary);
TritonBinary triton_binary_of(std::string_view bytes);

}  // namespace toroid
