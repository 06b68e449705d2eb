// What the tables of implementations share: conditions and estimates (…choices.cpp).
#pragma once

#include <algorithm>

#include "runtime/kernels/registry/operands.h"
#include "runtime/kernels/registry/registry.h"

namespace toroid {

// Seconds to read or write so many bytes once: what fits the cache comes from there.
inline double transfer_s(double bytes, const MachineModel& machine) {
  return bytes / (bytes < machine.cache_bytes ? machine.cache_speedup * machine.bytes_per_s : machine.bytes_per_s);
}
inline double operand_transfer_s(double bytes, bool is_constant, const MachineModel& machine) {
  if (!is_constant || bytes >= machine.cache_bytes) return transfer_s(bytes, machine);
  return bytes / (machine.constants_speedup * machine.bytes_per_s);
}

constexpr const char* kNoChannelVectors = "a group has not one channel, nor as many as divide a vector or fill a few";
constexpr const char* kNoTiles = "the machine has no AMX, or does not let this process use it";
constexpr const char* kNoVnni = "the machine has no AVX512_VNNI";

// The share of the shorter of computing and moving that the longer one hides: not all, so that of two algorithms that wait for memory the
// one that computes less is the cheaper one.
inline constexpr double kHidden = 0.9;
// The same of products in vectors by constants.
inline double hidden_in_vectors(const MachineModel& machine) { return std::min(machine.hidden, kHidden); }
// What computing and moving take together.
inline double overlapped_s(double computing_s, double moving_s, double hidden = kHidden) {
  return std::max(computing_s, moving_s) + (1 - hidden) * std::min(computing_s, moving_s);
}

// The share of AMX tiles' rows that so many rows fill.
inline double share_of_tile_rows(int64_t rows) {
  constexpr int64_t kTileRows = 16;
  return static_cast<double>(std::max<int64_t>(rows, 1)) /
         static_cast<double>((std::max<int64_t>(rows, 1) + kTileRows - 1) / kTileRows * kTileRows);
}

// Of what toroid's own product takes. Without measuring it is not taken: what it costs to have two sets of threads shows only then.
constexpr double kOneDnnCost = 1.3;

// "input 1 is i64[3], not f32 of rank 2 or more", …: nullopt when there are between `least` and `most` inputs, all of this dtype and of at
// least `rank`, and one such output, dense.
std::optional<std::string> unlike_dense(DType dtype, const Problem& problem, size_t least, size_t most, size_t rank);

// What is wrong with the operands of a matrix product; nullopt when nothing is.
std::optional<std::string> malformed_product(DType dtype, const Problem& problem);

// The same of a convolution.
std::optional<std::string> malformed_convolution(DType dtype, const Problem& problem);

// Of one that is not transposed: products in each sum, and seconds for as many at so many times the speed of float32's, with so many
// passes over image and filters.
int64_t depth_of_convolution(const Problem& problem);
double convolution_cost_s(const Problem& problem, const MachineModel& machine, double ratio_to_f32, double passes);

// Why rows of its result cannot be made some at a time, in the form that it would have by itself; for convolutions in F32 that are not
// malformed.
std::optional<std::string> not_by_rows(const Problem& convolution);

// Of a matrix product, as product_sizes.
ProductSizes product_sizes_of(const Problem& problem);

}  // namespace toroid
