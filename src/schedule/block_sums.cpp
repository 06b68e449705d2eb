// Divides long sums into blocks, so that their error does not grow with their length.
//
// One float32 accumulator loses a step's low bits once it is large beside the step: a sum of ones stops at 2^24, and a mean of a million rows around
// 100 is off by a percent. So an accumulator runs for a few dozen steps only, then is added to a total in double and begins again:
//
//   for row in 0..1000000 in blocks of 128         sum[j] += x[row, j]
//     then                                         total[j] += sum[j];  sum[j] = 0
//
// The error is at most that of a block's sum: steps * 2^-24 * sum of |x|. PyTorch's cascades have the same aim (aten/src/ATen/native/cpu/SumKernel.cpp).
// Rows that are known to be no longer than a block keep one accumulator.
#include <algorithm>

#include "schedule/loops.h"

namespace toroid::schedule {
namespace {

constexpr int kVectorsInTurn = 512, kVectors = 128;  // 128 for each of four accumulators
constexpr int kRows = 16, kRowsByEight = 128;        // eight at a time: 16 sums of eight
constexpr int64_t kShortRow = 2048;                  // elements: 128 of the longest vectors

bool is_at_most(sym::Expr extent, int64_t most) { return sym::known_lt(extent, most + 1); }

bool sums_floats(const Kernel& kernel, const Stage& stage) {
  return std::any_of(stage.statements.begin(), stage.statements.end(), [&](const Statement& statement) {
    const auto* s = std::get_if<Accumulate>(&statement);
    return s != nullptr && is_float_sum(kernel.accumulators[static_cast<size_t>(s->accumulator)]);
  });
}

Blocks blocks_of(const Kernel& kernel, const Stage& stage) {
  sym::Expr steps = 1;  // that meet in one accumulator, or, along inner axes, in a vector of them
  for (sym::Expr axis : kernel.inner) steps = steps * *axis.node()->extent;
  if (kernel.vector == VectorAlong::Outer) {
    const int rows = stage.rows > 1 ? kRowsByEight : kRows;
    return is_at_most(steps, rows) ? Blocks{} : Blocks{rows, true};
  }
  if (is_at_most(steps, kShortRow)) return {};
  // Several short runs are one block.
  const sym::Expr run = *kernel.inner.back().node()->extent;
  if (kernel.inner.size() > 1 && is_at_most(run, kShortRow / 2))
    return {static_cast<int>(kShortRow / std::max<int64_t>(16, sym::evaluate_hint(run))), true};
  return {stage.turns > 1 ? kVectorsInTurn : kVectors, false};
}

}  // namespace

void choose_blocks(Kernel& kernel) {
  if (kernel.vector == VectorAlong::None) return;
  for (Stage& stage : kernel.stages) {
    if (stage.inner && sums_floats(kernel, stage)) stage.blocks = blocks_of(kernel, stage);
  }
}

}  // namespace toroid::schedule
