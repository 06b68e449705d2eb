// Compiles kernels for AMD's GPUs by clang, whose back end amdgcn needs neither headers nor libraries of ROCm.
//
// The compiler is the one that TOROID_AMD_CLANG names, else ROCm's (ROCM_PATH, /opt/rocm), else the newest clang-N or clang of PATH beside
// which lld is found. From LLVM 17 on it knows gfx942, from 15 on gfx1100, from 14 on gfx90a.
#pragma once

#include <string>
#include <string_view>

#include "toolchain/nvrtc.h"

namespace toroid {

// Is it a name of AMD's: gfx90a?
bool is_amd_architecture(std::string_view architecture);
// The hexadecimal number of the name: 0x90a of gfx90a; 0 of what is no gfx9 to gfx12.
int amd_number_of(std::string_view architecture);
// Threads of a wave: 64 on gfx9, 32 on later ones.
int wave_of(std::string_view architecture);

// That of the GPU of this number, or what TOROID_AMD_ARCH says. Throws Error{Environment} where there is neither.
std::string amd_architecture(int gpu = 0);

// "clang 19.1.7", with what tells it from others; part of a program's key. Throws Error{Environment} where there is none.
std::string amd_compiler_version();

// A code object. `name`: for messages. Throws Error{Environment} where the compiler does not know the GPU, Error{ToolFailed} with the first
// lines of what it says otherwise. From several threads at once.
CudaBinary compile_amd(std::string_view source, std::string_view architecture, std::string_view name);

// By NVRTC or clang, as the architecture's name says.
CudaBinary compile_for_gpu(std::string_view source, std::string_view architecture, std::string_view name);
// "NVRTC 13.0", or the other's.
std::string gpu_compiler_version(bool is_amd);

}  // namespace toroid
