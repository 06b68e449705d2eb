// Convolutions of bytes: images of uint8 and filters of int8, exact sums of 32 bits that wrap.
//
// Images have one or two spatial dims; where their channels do not lie next to each other, as the result's do, they are copied so, which is
// for few channels (channels_last.h). The margin is of bytes 0. Filters lie
// anyhow. There is no bias. An epilogue gets blocks of integers.
#pragma once

#include <memory>

#include "runtime/kernels/conv/conv.h"

namespace toroid {

// Each product by itself, for any groups.
std::unique_ptr<const KernelPlan> plan_byte_convolution_in_loops(const KernelCall& call);
// Four products at a time, where vnni_kernels(): of windows where they lie, of slabs of groups.
std::unique_ptr<const KernelPlan> plan_byte_convolution_fours(const KernelCall& call);
// In tiles, without groups, where has_amx() (tile_convolver.h).
std::unique_ptr<const KernelPlan> plan_byte_convolution_tiles(const KernelCall& call);
// Where has_depthwise_of_bytes(), an input and an output channel a group, columns not dilated.
std::unique_ptr<const KernelPlan> plan_depthwise_of_bytes(const KernelCall& call);
bool has_depthwise_of_bytes();

// Groups that are multiplied together, as one product whose filters have zeros for the channels of others: so few that a slab's channels
// fill words, and those of the result a vector; or all.
struct ByteSlabs {
  int64_t count;    // of slabs
  int64_t in, out;  // channels of one
};
ByteSlabs in_slabs(int64_t groups, int64_t in_channels, int64_t out_channels);

}  // namespace toroid
