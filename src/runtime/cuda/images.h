// Which of a program's binaries a GPU runs: each unit of kernels is there for several architectures.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "toroid/gpu_abi.h"

namespace toroid::cuda {

// Of each unit the image that the driver is to load on a GPU of this compute capability (90 for 9.0; 0x90a for gfx90a): code for just this
// architecture, else for an earlier one of the same major version, else the latest PTX, which the driver compiles. Throws
// Error{Environment} that names what there is.
std::vector<const void*> images_for(const ToroidGpuProgram& program, int capability);
// How the kernels of these images are started that their binaries say that of, by name.
std::map<std::string_view, const ToroidGpuKernel*> launches_for(const ToroidGpuProgram& program, int capability);
// What a GPU of this compute capability is called: sm_90, gfx90a.
std::string architecture_of(int capability);
constexpr bool is_amd(int capability) { return capability >= 0x900; }
// For what there is a binary: "compute_90, sm_80".
std::string architectures_text(const ToroidGpuProgram& program);
// Do all those have kernels that wait for the one before them (schedule/cuda/launches/overlap.h)? What is compiled for GPUs before Hopper
// has none.
bool may_overlap(const ToroidGpuProgram& program, int capability);

}  // namespace toroid::cuda
