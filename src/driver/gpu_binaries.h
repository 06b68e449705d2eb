// The kernels of a program as binaries: each CUDA unit, for each architecture that is asked for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/wrapper/generate.h"
#include "codegen/wrapper/program_tables.h"
#include "runtime/cuda/driver_api.h"
#include "schedule/planner.h"
#include "toolchain/amdgcn.h"

namespace toroid {

struct CompileModelOptions;

// Those of the options, as sm_90a, compute_90 or gfx90a, else that of the GPU.
std::vector<std::string> architectures_of(const CompileModelOptions& options);
// What all of them have, of a program for a GPU. Emulated kernels are planned for Hopper, so that its products are tested, unless
// architectures are named.
schedule::TensorCores tensor_cores(const CompileModelOptions& options);
// Whose GPUs a program is for.
cuda::Vendor vendor_of(const CompileModelOptions& options);
// Threads that run together, the most of all of them.
int wave_of(const CompileModelOptions& options);
schedule::GpuLimits limits_of(const CompileModelOptions& options);
// What the list of --arch says: "sm_80,sm_90a,compute_90", or for AMD's GPUs "gfx90a,gfx1100". Throws Error{InvalidOption}.
std::vector<std::string> parse_architectures(std::string_view list, codegen::Target target = codegen::Target::Cuda);

// The place of a binary in the program's tables: each unit for each architecture, the units' numbers first. Behind `units` of CUDA's come
// those of kernels in Triton.
std::vector<codegen::GpuBinary> binaries_of(size_t units, size_t triton_units, std::span<const std::string> architectures);

// What people should know of a kernel that is slower than it need be: "the kernel softmax_kernel spills 16 bytes of registers".
std::vector<std::string> complaints_of(const KernelResources& kernel);

}  // namespace toroid
