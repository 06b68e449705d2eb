#include "schedule/cuda/attention/cached_attention.h"

#include <algorithm>

#include "schedule/axes.h"
#include "schedule/buffer_lists.h"
#include "schedule/cuda/launches/accesses.h"
#include "schedule/fusion/group.h"

namespace toroid::schedule {
namespace {

constexpr size_t kKeys = 1, kValues = 2, kRowDim = 2;

// What the axes are at a place of the operand, where each of its elements but along `without` is one combination of them, which lies at
// `position`.
std::optional<AxesOfOperand> axes_of_operand(const loop::Operand& operand, const std::vector<sym::Expr>& axes, sym::Expr position,
                                             std::optional<size_t> without) {
  const auto sizes = in_four_dims(operand.sizes, 1), strides = in_four_dims(operand.strides, 0);
  std::array<bool, 4> is_told{};
  for (size_t d = 0; d < 4; ++d) is_told[d] = sizes[d].is_const(1) || d == without;
  const auto dim_at = [&](sym::Expr stride) -> std::optional<size_t> {
    for (size_t d = 0; d < 4; ++d) {
      if (!is_told[d] && sym::known_eq(strides[d], stride)) return d;
    }
    return std::nullopt;
  };
  AxesOfOperand result;
  sym::Expr rest = position;
  for (sym::Expr axis : axes) {
    if (axis.is_const()) continue;
    const auto linear = sym::linear_in(rest, axis);
    if (!linear) return std::nullopt;
    AxisOfOperand made{axis, {}};
    sym::Expr factor = 1;
    while (!sym::known_eq(factor, extent(axis))) {  // dims that lie behind each other may be one axis
      const std::optional<size_t> dim = dim_at(linear->coefficient * factor);
      if (!dim) return std::nullopt;
      is_told[*dim] = true;
      made.parts.push_back({*dim, factor});
      factor = factor * sizes[*dim];
    }
    result.push_back(std::move(made));
    rest = linear->rest;
  }
  const bool are_told = std::all_of(is_told.begin(), is_told.end(), [](bool each) { return each; });
  return are_told && sym::known_eq(rest, operand.offset) ? std::optional(std::move(result)) : std::nullopt;
}

std::optional<AxesOfOperand> axes_of_row(const loop::LoopProgram& program, const ScatterKernel& update, const loop::Operand& operand) {
  const std::optional<sym::Expr> index = symbol_of_row(program, update);
  const auto linear = index ? sym::linear_in(update.position, *index) : std::nullopt;
  return linear ? axes_of_operand(operand, update.axes, linear->rest, kRowDim) : std::nullopt;
}

// A kernel that only computes the elements of the operand.
std::optional<AxesOfOperand> axes_of_queries(const Kernel& kernel, const loop::Operand& operand) {
  const bool is_map = kernel.gpu && kernel.inner.empty() && !kernel.tile && kernel.accumulators.empty() && kernel.stashes.empty() &&
                      kernel.finish.empty() && kernel.other_forms.empty() && kernel.stages.size() == 1 && !kernel.stages[0].condition &&
                      kernel.stages[0].statements.size() == 1;
  const Store* const store = is_map ? std::get_if<Store>(kernel.stages[0].statements.data()) : nullptr;
  return store != nullptr && store->buffer == operand.buffer ? axes_of_operand(operand, kernel.outer, store->position, std::nullopt)
                                                             : std::nullopt;
}

bool has_few_queries(const CallStep& step) {
  return std::holds_alternative<Attention>(step.call.op) && step.choice == kSplitAttention && !step.epilogue;
}

std::optional<size_t> writer_of(std::span<const Step> steps, BufferId id) {
  std::optional<size_t> found;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (!contains(writes_of(steps[s]), id)) continue;
    if (found) return std::nullopt;
    found = s;
  }
  return found;
}

// What runs beside a collective operation is what stands behind it.
bool is_collective_call(const Step& step) {
  const auto* call = std::get_if<CallStep>(&step);
  return call != nullptr && is_collective(call->call.op);
}

// The call with what writes its cache, and the positions of steps that are a part of it then.
struct Fused {
  CallStep step;
  std::vector<size_t> parts;
};
std::optional<Fused> fused_with_updates(const loop::LoopProgram& program, const AccessTable& accesses, std::span<const Step> steps,
                                        size_t at) {
  const auto* call = std::get_if<CallStep>(&steps[at]);
  if (call == nullptr || !has_few_queries(*call) || !call->updates.empty()) return std::nullopt;
  Fused made{*call, {}};
  for (const size_t operand : {kKeys, kValues}) {
    const std::optional<size_t> writer = writer_of(steps, call->call.operands[operand].buffer);
    const auto* update = writer && *writer < at ? std::get_if<ScatterKernel>(&steps[*writer]) : nullptr;
    if (update == nullptr || std::find(made.parts.begin(), made.parts.end(), *writer) != made.parts.end()) return std::nullopt;
    made.step.updates.push_back(*update);
    made.parts.push_back(*writer);
  }
  const BufferId queries = call->call.operands[0].buffer;
  const std::optional<size_t> maker = writer_of(steps, queries);
  if (maker && !std::holds_alternative<CallStep>(steps[*maker])) {
    // Where another launch makes the queries, that may write the rows as well.
    const auto* kernel = std::get_if<Kernel>(&steps[*maker]);
    if (kernel == nullptr || *maker > at || program.buffer(queries).kind != loop::BufferKind::Temporary || !is_read_once(steps, queries))
      return std::nullopt;
    made.step.prologue = *kernel;
    made.parts.push_back(*maker);
  }
  const auto may_move = [&](size_t part) {
    const std::span<const Step> over = steps.subspan(part + 1, at - part - 1);
    return accesses.may_move_over(steps[part], over) && std::none_of(over.begin(), over.end(), is_collective_call);
  };
  if (!std::all_of(made.parts.begin(), made.parts.end(), may_move) || !as_cached_attention(program, made.step)) return std::nullopt;
  for (size_t part : made.parts) add_provenance(made.step.provenance, provenance_of(steps[part]));
  made.step.name = made.step.prologue ? made.step.prologue->name + "_" + call->name : call->name;
  made.step.gpu = cached_attention_tiles(program, made.step);
  return made;
}

}  // namespace

std::optional<CachedAttention> as_cached_attention(const loop::LoopProgram& program, const CallStep& step) {
  const std::vector<loop::Operand>& in = step.call.operands;
  if (!has_few_queries(step) || step.updates.size() != 2) return std::nullopt;
  const std::optional<LateRow> of_keys = row_set_by(program, step.updates[0], in[kKeys]),
                               of_values = row_set_by(program, step.updates[1], in[kValues]);
  if (!of_keys || of_keys != of_values || in[kKeys].sizes != in[kValues].sizes) return std::nullopt;
  const bool reads_queries_alone =
      std::all_of(in.begin() + 1, in.end(), [&](const loop::Operand& each) { return each.buffer != in[0].buffer; });
  CachedAttention made{*of_keys, {}, {}};
  if (step.prologue) {
    made.queries = axes_of_queries(*step.prologue, in[0]);
    if (!made.queries || !reads_queries_alone) return std::nullopt;
  }
  for (size_t i = 0; i < 2; ++i) {
    std::optional<AxesOfOperand> axes = axes_of_row(program, step.updates[i], in[kKeys + i]);
    if (!axes) return std::nullopt;
    made.rows[i] = *std::move(axes);
  }
  // None of these reads what another one makes.
  for (const loop::Operand* each : {&in[kKeys], &in[kValues]}) {
    const auto reads = [&](const ScatterKernel& update) { return contains(update.reads, each->buffer); };
    if (std::any_of(step.updates.begin(), step.updates.end(), reads) || (step.prologue && contains(step.prologue->reads, each->buffer)) ||
        in[0].buffer == each->buffer || (in.size() > 3 && in[3].buffer == each->buffer))
      return std::nullopt;
  }
  return made;
}

AttentionKernel cached_attention_kernel(const loop::LoopProgram& program, const CallStep& step) {
  const std::vector<loop::Operand>& in = step.call.operands;
  const std::optional<DType> mask = in.size() > 3 ? std::optional(program.buffer(in[3].buffer).dtype) : std::nullopt;
  AttentionKernel kernel =
      split_attention_kernel(std::get<Attention>(step.call.op), program.buffer(in[kKeys].buffer).dtype, mask, in[0].sizes, in[kKeys].sizes);
  kernel.makes_rows = true;
  return kernel;
}

GpuTiles cached_attention_tiles(const loop::LoopProgram& program, const CallStep& step) {
  const AttentionKernel kernel = cached_attention_kernel(program, step);
  return {.rows = kernel.split_rows, .columns = kSplitKeys, .stages = 1, .cluster = kernel.cluster};
}

CudaGrid cached_attention_grid(const loop::LoopProgram& program, const CallStep& step) {
  const AttentionKernel kernel = cached_attention_kernel(program, step);
  return {split_attention_blocks(kernel, step.call.operands[kKeys].sizes), kernel.threads(), static_cast<int>(kernel.shared_bytes())};
}

void fuse_cache_updates(const loop::LoopProgram& program, std::vector<Step>& steps) {
  const AccessTable accesses(program);
  for (size_t at = 0; at < steps.size(); ++at) {
    std::optional<Fused> fused = fused_with_updates(program, accesses, steps, at);
    if (!fused) continue;
    steps[at] = std::move(fused->step);
    std::sort(fused->parts.begin(), fused->parts.end());
    for (size_t i = fused->parts.size(); i-- > 0;) steps.erase(steps.begin() + static_cast<ptrdiff_t>(fused->parts[i]));
    at -= fused->parts.size();
  }
}

}  // namespace toroid::schedule
