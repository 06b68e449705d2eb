// A test build of kernels: threads wait a random time, up to two microseconds, before each barrier, copy and product that others wait for.
//
// Warp-specialised kernels hand memory over by barriers. Where one is missing, the result is right as long as everybody is in time, which
// mostly is so; with delays it shows as a wrong result. The delays are put into the kernels' text, in front of each instruction of PTX that
// threads meet at, so kernels need not know of them. TOROID_CUDA_DELAYS=1 asks for such builds, and is part of a program's key.
#pragma once

#include <string>
#include <string_view>

namespace toroid {

bool has_random_delays();

// The text of a CUDA file with the delays:
//
//   asm volatile("mbarrier.arrive…"   =>   asm volatile(DELAY_WITH_OPERANDS "mbarrier.arrive…"
std::string with_random_delays(std::string_view source);

}  // namespace toroid
