// Compiles CUDA text in this process, by NVRTC: libnvrtc.so.13 or .12, or what TOROID_NVRTC names, opened when the first text is compiled.
//
// The text includes no header. Functions without an execution space are the device's. Nothing of "fast math" is on: divisions, roots and
// subnormal numbers are as IEEE 754 has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace toroid {

// What a kernel takes of a multiprocessor, as ptxas says it.
struct KernelResources {
  std::string kernel;
  int registers = 0;
  int shared_bytes = 0;
  int spilled_bytes = 0;                   // stores and loads
  std::vector<std::string> warnings = {};  // "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized …"
};

struct CudaBinary {
  std::string bytes;
  std::vector<KernelResources> kernels;
};

// "NVRTC 13.0"; part of a program's key. Throws Error{Environment} where the library is absent.
std::string nvrtc_version();

// The architecture that kernels are compiled for: TOROID_CUDA_ARCH, as sm_90a, else that of the GPU of this number. Throws
// Error{Environment} where there is neither.
std::string cuda_architecture(int gpu = 0);
// 90 of sm_90a; 0 where the name has no number.
int capability_of(std::string_view architecture);

// architecture: sm_80, sm_90a, or compute_90 for PTX, of which nothing is known of what kernels take. `name`: for messages. Throws
// Error{ToolFailed} with the first lines of what the compiler says. From several threads at once.
CudaBinary compile_cuda(std::string_view source, std::string_view architecture, std::string_view name);

}  // namespace toroid
