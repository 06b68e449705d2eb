#include "schedule/cuda/attention/written_attention.h"

#include <algorithm>

#include "schedule/cpu/form_estimate.h"

namespace toroid::schedule {
namespace {

constexpr int kStages = 2, kWordTiles = 8;  // the latter: of the table, in one access

AttentionKernel shape_of(const loop::LoopProgram& program, const CallStep& step) {
  const std::vector<loop::Operand>& in = step.call.operands;
  return {.dtype = program.buffer(in[0].buffer).dtype,
          .mask = std::nullopt,
          .width = static_cast<int>(in[0].sizes.back().value()),
          .out_width = static_cast<int>(in[2].sizes.back().value()),
          .causal = false,
          .folds_scale = true};
}

int wider(const AttentionKernel& kernel) { return std::max(kernel.width, kernel.out_width); }

}  // namespace

bool is_written_attention(const CallStep& step) { return is_library(step.call.op, kAttentionOfScores); }

GpuTiles written_attention_tiles(const loop::LoopProgram& program, const CallStep& step, bool hopper, bool inputs_are_aligned) {
  if (hopper && suits_hopper_attention(program, step, inputs_are_aligned))
    return {.rows = kTableSide, .columns = kHopperKeys, .stages = kStages, .ping_pong = true};
  // For the shared memory that every GPU with such tensor cores has.
  const int width = wider(shape_of(program, step));
  return {.rows = width > 128 ? kTableSide / 2 : kTableSide, .columns = width > 64 ? 32 : 64, .stages = kStages};
}

CallStep without_hopper(const loop::LoopProgram& program, CallStep step) {
  step.gpu = written_attention_tiles(program, step, false, false);
  return step;
}

AttentionKernel written_attention_kernel(const loop::LoopProgram& program, const CallStep& step) {
  AttentionKernel kernel = shape_of(program, step);
  kernel.keys = step.gpu->columns;
  kernel.stages = step.gpu->stages;
  kernel.hopper = step.gpu->ping_pong;
  kernel.warps = step.gpu->rows / 16;
  kernel.groups = step.gpu->rows / 64;
  return kernel;
}

CudaGrid written_attention_grid(const loop::LoopProgram& program, const CallStep& step) {
  const AttentionKernel kernel = written_attention_kernel(program, step);
  const std::vector<sym::Expr>& q = step.call.operands[0].sizes;
  return {sym::ceil_div(q[2], step.gpu->rows) * q[0] * q[1], kernel.threads(), static_cast<int>(kernel.shared_bytes()),
          kernel.hopper ? 1 : 0};
}

std::array<sym::Expr, 4> table_sizes(const loop::LoopProgram& program, const CallStep& step) {
  const loop::Scores& scores = *step.call.scores;
  const std::vector<sym::Expr>&q = step.call.operands[0].sizes, &k = step.call.operands[1].sizes;
  const auto differs = [&](size_t d) {
    return !scores.axes[d].is_const() && varying(program.exprs, {*scores.visible}, {scores.axes[d]}).contains(*scores.visible);
  };
  return {differs(0) ? q[0] : sym::Expr(1), differs(1) ? q[1] : sym::Expr(1), sym::ceil_div(q[2], kTableSide),
          sym::ceil_div(k[2], kTableSide * kWordTiles) * kWordTiles};
}

void share_table(const loop::LoopProgram& program, std::span<const Step> before, CallStep& step) {
  if (!has_table(step)) return;
  for (const Step& each : before) {
    const auto* other = std::get_if<CallStep>(&each);
    if (other == nullptr || !is_written_attention(*other) || !makes_table(*other) || other->outputs.size() != 2) continue;
    const loop::Scores &own = *step.call.scores, &its = *other->call.scores;
    if (own.visible != its.visible || own.axes != its.axes || table_sizes(program, step) != table_sizes(program, *other)) continue;
    const loop::Buffer& table = program.buffer(other->outputs[1]);
    step.call.operands.push_back({other->outputs[1], table.sizes, table.strides, 0});
    return;
  }
}

CudaGrid table_grid(const loop::LoopProgram& program, const CallStep& step) {
  const auto sizes = table_sizes(program, step);
  return {sizes[0] * sizes[1] * sizes[2] * sizes[3], kTableThreads};
}

}  // namespace toroid::schedule
