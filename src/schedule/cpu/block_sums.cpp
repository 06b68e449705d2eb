// Divides long sums into blocks, so that their error does not grow with their length.
//
// One float32 accumulator loses a step's low bits once it is large beside the step: a sum of ones stops at 2^24, and a mean of a million
// rows around 100 is off by a percent. So an accumulator runs for a few dozen steps only, then is added to a total in double and begins
// again:
//
//   for row in 0..1000000 in blocks of 128         sum[j] += x[row, j]
//     then                                         total[j] += sum[j];  sum[j] = 0
//
// The error is at most that of a block's sum: steps * 2^-24 * sum of |x|. PyTorch's cascades have the same aim
// (aten/src/ATen/native/cpu/SumKernel.cpp). Rows that are known to be no longer than a block keep one accumulator.
#include <algorithm>

#include "schedule/cpu/loops.h"

namespace toroid::schedule {
namespace {

constexpr int kVectorsInTurn = 2048, kFineVectorsInTurn = 512;  // a quarter of them for each of four accumulators
constexpr int kVectors = 128;
constexpr int kRows = 16, kRowsTogether = 128;  // the latter some at a time: few sums of sums
constexpr int64_t kShortRow = 2048;             // elements: 128 of the longest vectors

bool is_at_most(sym::Expr extent, int64_t most) { return sym::known_lt(extent, most + 1); }

// Of a stage that sums floats.
struct FloatSums {
  bool any = false, fine = false, finest = false;
};
FloatSums float_sums(const Kernel& kernel, const Stage& stage) {
  FloatSums found;
  for (const Statement& statement : stage.statements) {
    const auto* s = std::get_if<Accumulate>(&statement);
    if (s == nullptr) continue;
    const Accumulator& accumulator = kernel.accumulators[static_cast<size_t>(s->accumulator)];
    found.any = found.any || is_float_sum(accumulator);
    found.finest = found.finest || accumulator.care == loop::SumCare::Finest;
    found.fine = found.fine || accumulator.care != loop::SumCare::Usual;
  }
  return found;
}

Blocks blocks_of(const Kernel& kernel, const Stage& stage, bool is_fine) {
  sym::Expr steps = 1;  // that meet in one accumulator, or, along inner axes, in a vector of them
  for (sym::Expr axis : kernel.inner) steps = steps * *axis.node()->extent;
  if (kernel.vector == VectorAlong::Outer) {
    const int rows = stage.rows > 1 ? kRowsTogether : kRows;
    return is_at_most(steps, rows) ? Blocks{} : Blocks{rows, true};
  }
  if (is_at_most(steps, kShortRow)) return {};
  // Several short runs are one block.
  const sym::Expr run = *kernel.inner.back().node()->extent;
  if (kernel.inner.size() > 1 && is_at_most(run, kShortRow / 2))
    return {static_cast<int>(kShortRow / std::max<int64_t>(16, sym::evaluate_hint(run))), true};
  if (stage.turns == 1) return {kVectors, false};
  return {is_fine ? kFineVectorsInTurn : kVectorsInTurn, false};
}

// Accumulators of columns to which rows, or so many of them, are added in turn. Several blocks have errors of their own, which are less
// together. Where all rows are taken at once, the accumulators are registers.
int turns_of_columns(const Kernel& kernel, const Stage& stage, bool is_finest) {
  if (stage.blocks.steps > 0) return 1;
  if (kernel.inner.size() == 1 && kernel.inner.back().node()->extent->is_const(stage.rows)) return is_finest && stage.rows >= 4 ? 4 : 1;
  constexpr int64_t kFewSums = 16;
  const int64_t row_count = sym::evaluate_hint(*kernel.inner.back().node()->extent);
  int64_t sums = row_count / stage.rows + row_count % stage.rows;
  for (size_t d = 0; d + 1 < kernel.inner.size(); ++d) sums *= sym::evaluate_hint(*kernel.inner[d].node()->extent);
  return sums < 2 ? 1 : sums < kFewSums ? 2 : 4;
}

}  // namespace

void choose_blocks(Kernel& kernel) {
  if (kernel.vector == VectorAlong::None) return;
  for (Stage& stage : kernel.stages) {
    const FloatSums sums = stage.inner ? float_sums(kernel, stage) : FloatSums();
    if (!sums.any) continue;
    stage.blocks = blocks_of(kernel, stage, sums.fine);
    if (kernel.vector == VectorAlong::Outer) stage.turns = turns_of_columns(kernel, stage, sums.finest);
  }
}

}  // namespace toroid::schedule
