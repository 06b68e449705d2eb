// Prints the kernel of an attention: a call of the prelude's template (prelude/attention/attention.inc) with its numbers.
//
//   KERNEL __launch_bounds__(128, 1) attention_kernel(const bf16* q, …, ATTENTION_SHAPE shape, const float scale) {
//     attend<64, 64, 4, 1, 64, kNoMask, true, true>(q, k, v, mask, out, shape, scale);
//   }
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schedule/cuda/attention/attention_kernel.h"
#include "schedule/cuda/launches/overlap.h"

namespace toroid::codegen::cuda {

// A value of the prelude's struct: `key` and `call` are pointers.
std::string dropout_text(const schedule::AttentionDropout& dropout);

// Blocks of few queries that a multiprocessor has at once, if keys and values are on their way before the kernel begins: such kernels come
// where others leave registers, of which narrow rows need few.
int split_blocks_at_once(const schedule::AttentionKernel& kernel);

// `overlap`: of its launch, where it can start early ("flash-split"). `lane`: of the program, beside whose kernels it runs
// (program/streams/lanes.h), at most kLanes. It takes q, k, v (Hopper's: their tensor maps), the mask (null without one), the result, an
// AttentionShape and the scale.
std::string attention_text(const schedule::AttentionKernel& kernel, std::string_view name, const schedule::Overlap& overlap = {},
                           uint32_t lane = 0);

}  // namespace toroid::codegen::cuda
