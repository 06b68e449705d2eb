// Matrix products with a right side of int8: of bytes, exact, and of floats, as models with weight-only quantisation have them.
#pragma once

#include <string_view>

#include "runtime/kernels/registry/plan.h"

namespace toroid {

// The left side I8 or U8, the result I32, exact but that it wraps. An epilogue gets blocks of integers (ToroidEpilogue).
std::unique_ptr<const KernelPlan> plan_bytes_widened(const KernelCall& call);  // as float32
std::unique_ptr<const KernelPlan> plan_bytes_pairs(const KernelCall& call);  // two products of 16 bits at a time, where byte_pair_kernels()
std::unique_ptr<const KernelPlan> plan_bytes_fours(const KernelCall& call);  // four products at a time, where vnni_kernels()
std::unique_ptr<const KernelPlan> plan_bytes_tiles(const KernelCall& call);  // where has_amx()

// The left side F32, BF16 or F16, and the result one of them: bytes are widened as they are read.
std::unique_ptr<const KernelPlan> plan_int8_widened(const KernelCall& call);       // a panel to float32, once for a block of rows
std::unique_ptr<const KernelPlan> plan_int8_kept(const KernelCall& call);          // panels to float32, once in a plan's life; the left F32
std::unique_ptr<const KernelPlan> plan_int8_in_registers(const KernelCall& call);  // as they are multiplied: for few rows
std::unique_ptr<const KernelPlan> plan_int8_pairs(
    const KernelCall& call);  // to pairs of BF16, where bf16_dot_microkernels(), the left BF16
std::unique_ptr<const KernelPlan> plan_int8_tiles(const KernelCall& call);  // to tiles of BF16, where has_amx()

// How an implementation of "matmul.int8" reads its weights: "read as bytes, …".
std::string_view reading_of_int8(std::string_view choice);
inline constexpr int64_t kMostRowsInRegisters = 12;  // with more, widening a panel once costs less than doing so for each strip of rows
inline constexpr int64_t kRowsThatHideReading = 64;  // with so many, multiplying takes longer than reading weights of float32

}  // namespace toroid
