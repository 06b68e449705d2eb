// The loop of microkernel.cpp with a line of words on the right: in a file of its own, so that programs without it do not link it.
#include <algorithm>

#include "runtime/kernels/gemm/bf16x3/microkernel.h"
#include "runtime/kernels/gemm/bf16x3/sums_of_block.h"
#include "runtime/kernels/isa/emulated_amx.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace toroid {
namespace {

struct LineStrip : PartsStrip {
  int64_t part;  // bytes from part to part of the line
};

void split_pieces(RowsToSplit&, int64_t) {}  // there are none

#define TOROID_RIGHT_PART static_cast<const LineStrip&>(strip).part
#define TOROID_RIGHT_STEP (kStepElements * kTileRowBytes)

#ifdef TOROID_KNOWS_AMX
#define TOROID_TARGET __attribute__((target("amx-tile,amx-bf16")))
#include "runtime/kernels/gemm/bf16x3/microkernel_loop.inc"
#undef TOROID_TARGET
#endif
#include "runtime/kernels/isa/emulated_amx.inc"
}  // namespace

namespace emulated_line {
#define TOROID_TARGET
#include "runtime/kernels/gemm/bf16x3/microkernel_loop.inc"
#undef TOROID_TARGET
}  // namespace emulated_line

void multiply_line_of_parts(const PartsStrip& strip, int64_t part_bytes) {
  const LineStrip line = {strip, part_bytes};
#ifdef TOROID_KNOWS_AMX
  if (machine().isa.amx) return multiply(line, 0);
#endif
  emulated_line::multiply(line, 0);
}

}  // namespace toroid
