// The families of the runtime's kernels, one file each: their implementations with gates and estimates. For choices.cpp alone.
#pragma once

#include "runtime/choices.h"

namespace toroid {

KernelFamily matmul_family();
KernelFamily convolution_family();
KernelFamily attention_family();

// Seconds to read or write so many bytes once: what fits the cache comes from there.
inline double transfer_s(double bytes, const MachineModel& machine) {
  constexpr double kCacheSpeedup = 4;
  return bytes / (bytes < machine.cache_bytes ? kCacheSpeedup * machine.bytes_per_s : machine.bytes_per_s);
}

// "input 1 is i64[3], not f32 of rank 2 or more", …: nullopt when there are between `least` and `most` inputs, all F32 of at least
// `rank`, and one such output, dense.
std::optional<std::string> unlike_f32(const Problem& problem, size_t least, size_t most, size_t rank);

}  // namespace toroid
