#include "schedule/schedule.h"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_set>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/builder.h"
#include "library/device_copy.h"
#include "schedule/axes.h"
#include "schedule/buffer_lists.h"
#include "schedule/explain.h"
#include "schedule/lifetimes.h"
#include "schedule/planner.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

// Replaces multi-dimensional loads by positions, for steps that are not built by build_kernel.
ExprId with_positions(loop::LoopProgram& program, ExprId id, loop::ExprTable::Memo& memo) {
  loop::ExprTable::Leaf leaf = [&](ExprId each) -> std::optional<ExprId> {
    const auto* found = std::get_if<loop::Load>(&program.exprs.node(each).op);
    if (found == nullptr) return std::nullopt;
    const loop::Load load = *found;
    const DType dtype = program.exprs.dtype(each);
    const sym::Expr position = program.exprs.rewrite_index(position_of(program.buffer(load.buffer), load.index), {}, leaf, memo);
    return program.exprs.add(loop::Load{load.buffer, {position}}, dtype);
  };
  return program.exprs.rewrite(id, {}, leaf, memo);
}

sym::Expr with_positions(loop::LoopProgram& program, sym::Expr index, loop::ExprTable::Memo& memo) {
  if (index.is_const()) return index;
  sym::Substitution replaced;
  for (sym::Expr symbol : sym::free_symbols(index)) {
    if (const loop::ValueSymbol* value = program.exprs.value_symbol(symbol)) {
      const loop::ValueSymbol old = *value;
      replaced.emplace_back(symbol, program.exprs.as_index(with_positions(program, old.index, memo), old.size));
    }
  }
  return replaced.empty() ? index : sym::substitute(index, replaced);
}

// The axes that an index depends on, through tensors that it is read from too.
void add_axes(const loop::ExprTable& exprs, sym::Expr index, std::vector<sym::Expr>& axes) {
  if (index.is_const()) return;
  for (sym::Expr symbol : sym::free_symbols(index)) {
    if (symbol.node()->symbol_kind == sym::SymbolKind::Axis) axes.push_back(symbol);
    const loop::ValueSymbol* value = exprs.value_symbol(symbol);
    if (value == nullptr) continue;
    for (ExprId id : loop::reachable(exprs, {value->index})) {
      const loop::ExprOp& op = exprs.node(id).op;
      if (const auto* inner = std::get_if<loop::Index>(&op)) add_axes(exprs, inner->value, axes);
      if (const auto* load = std::get_if<loop::Load>(&op)) {
        for (sym::Expr e : load->index) add_axes(exprs, e, axes);
      }
    }
  }
}

// The outermost dim that splits well: not into a few ranges, if another one has more. To find out what falls into a range must cost
// little beside writing it, so an index that is read has to serve for many elements.
std::optional<ScatterKernel::Split> choose_split(const loop::LoopProgram& program, const loop::ScatterLoop& scatter,
                                                 const std::vector<sym::Expr>& sizes) {
  constexpr int64_t kShort = 16, kManyElements = 64;
  std::optional<ScatterKernel::Split> best;
  int64_t best_hint = 0;
  for (size_t dim = 0; dim < scatter.index.size() && best_hint < kShort; ++dim) {
    const sym::Expr index = scatter.index[dim];
    const auto axis = std::find(scatter.axes.begin(), scatter.axes.end(), index);
    int64_t hint = 0;
    if (axis != scatter.axes.end()) {
      if (!index.is_const()) hint = sym::evaluate_hint(*index.node()->extent);
    } else {
      std::vector<sym::Expr> used;
      add_axes(program.exprs, index, used);
      int64_t elements = used.empty() ? 0 : 1;
      for (sym::Expr each : scatter.axes) {
        const bool is_used = std::find(used.begin(), used.end(), each) != used.end();
        if (is_used)
          elements = 1;
        else if (!each.is_const())
          elements *= sym::evaluate_hint(*each.node()->extent);
      }
      if (elements >= kManyElements) hint = sym::evaluate_hint(sizes[dim]);
    }
    if (hint <= best_hint) continue;
    best = {dim, index};
    best_hint = hint;
  }
  return best;
}

Step single_step(loop::LoopProgram& program, size_t c) {
  const std::vector<BufferId> read = loop::reads(program, program.computations[c]);
  loop::Computation& computation = program.computations[c];
  loop::ExprTable::Memo memo;
  if (const auto* scan = std::get_if<loop::ScanLoop>(&computation.work)) {
    ScanKernel kernel{computation.name,
                      {},
                      scan->axes[scan->dim],
                      scan->op,
                      with_positions(program, scan->value, memo),
                      computation.outputs,
                      {},
                      read,
                      computation.provenance};
    for (size_t d = 0; d < scan->axes.size(); ++d) {
      if (d != scan->dim) kernel.outer.push_back(scan->axes[d]);
    }
    for (BufferId out : kernel.outputs) {
      const loop::Buffer& buffer = program.buffer(out);
      std::vector<sym::Expr> index = scan->axes;
      index.resize(buffer.sizes.size());
      kernel.positions.push_back(position_of(buffer, index));
    }
    return kernel;
  }
  if (const auto* scatter = std::get_if<loop::ScatterLoop>(&computation.work)) {
    const BufferId out = computation.outputs[0];
    const sym::Expr position = with_positions(program, position_of(program.buffer(out), scatter->index), memo);
    ScatterKernel kernel{.name = computation.name,
                         .base = scatter->base,
                         .out = out,
                         .axes = {},
                         .position = position,
                         .split = choose_split(program, *scatter, program.buffer(out).sizes),
                         .mode = scatter->mode,
                         .value = with_positions(program, scatter->value, memo),
                         .reads = read,
                         .provenance = computation.provenance};
    if (kernel.split) kernel.split->index = with_positions(program, kernel.split->index, memo);
    for (sym::Expr axis : scatter->axes) {
      if (!axis.is_const()) kernel.axes.push_back(axis);
    }
    return kernel;
  }
  if (const auto* bind = std::get_if<loop::Bind>(&computation.work)) {
    return BindStep{computation.name, bind->expr, bind->value, computation.provenance};
  }
  CallStep call{computation.name, std::get<loop::Call>(computation.work), computation.outputs, computation.provenance};
  if (call.call.scores) {
    loop::Scores& scores = *call.call.scores;
    scores.value = with_positions(program, scores.value, memo);
    if (scores.visible) scores.visible = with_positions(program, *scores.visible, memo);
  }
  return call;
}

// Makes the kernel the epilogue of the latest product that it reads, which then runs in the kernel's place. False where there is no such
// product, or something else reads it too (`is_read_elsewhere`), or it would wait for what the kernel reads (`is_sent`).
// `refused` is told why of each product that it is not done with.
bool append_as_epilogue(loop::LoopProgram& program, const Planner& planner, std::vector<Step>& steps, const Kernel& kernel,
                        const std::function<bool(BufferId)>& is_read_elsewhere, const std::function<bool(BufferId)>& is_sent,
                        const std::function<void(BufferId product, std::string_view reason)>& refused) {
  for (size_t i = steps.size(); i-- > 0;) {
    auto* call = std::get_if<CallStep>(&steps[i]);
    if (call == nullptr || call->epilogue || call->outputs.empty()) continue;
    const BufferId product = call->outputs[0];
    if (std::find(kernel.reads.begin(), kernel.reads.end(), product) == kernel.reads.end()) continue;
    if (!makes_product(program, call->call, call->outputs)) continue;
    if (is_read_elsewhere(product)) {
      refused(product, "another step reads the product too");
      continue;
    }
    if (std::any_of(kernel.reads.begin(), kernel.reads.end(), is_sent)) {
      refused(product, "the consumer reads what another process sends, for which the product would wait");
      continue;
    }
    EpilogueAttempt attempt = planner.as_epilogue(program, kernel, call->call, product);
    if (!attempt.kernel) {
      refused(product, attempt.reason);
      continue;
    }
    std::optional<Kernel> epilogue = std::move(attempt.kernel);
    CallStep fused = std::move(*call);
    steps.erase(steps.begin() + static_cast<ptrdiff_t>(i));
    fused.name += "_" + epilogue->name;
    add_provenance(fused.provenance, epilogue->provenance);
    fused.epilogue = std::move(epilogue);
    steps.push_back(std::move(fused));
    return true;
  }
  return false;
}

}  // namespace

int64_t work_hint(const Kernel& kernel) { return sym::evaluate_hint(product_of_extents(kernel.outer) * product_of_extents(kernel.inner)); }

Step as_single_step(const ParallelKernel& kernel) {
  return match(kernel, [](const auto& s) -> Step { return s; });
}

bool is_in_triton(const Step& step) {
  if (const auto* scan = std::get_if<ScanKernel>(&step)) return scan->in_triton;
  const auto* kernel = std::get_if<Kernel>(&step);
  return kernel != nullptr && kernel->gpu && kernel->gpu->in_triton;
}

const std::string& name_of(const Step& step) {
  return match(step, [](const auto& s) -> const std::string& { return s.name; });
}

const std::vector<ProvenanceId>& provenance_of(const Step& step) {
  return match(step, [](const auto& s) -> const std::vector<ProvenanceId>& { return s.provenance; });
}

bool is_on_host(const loop::LoopProgram& program, const Step& step) {
  if (const auto* bind = std::get_if<BindStep>(&step)) return program.buffer(bind->value).on_host;
  const std::vector<BufferId> writes = writes_of(step);
  return !writes.empty() && program.buffer(writes[0]).on_host;
}

bool is_device_copy(const Step& step) {
  const auto* call = std::get_if<CallStep>(&step);
  return call != nullptr && is_library(call->call.op, kDeviceCopy);
}

std::vector<BufferId> reads_of(const CallStep& step) {
  std::vector<BufferId> result;
  for (const loop::Operand& operand : step.call.operands) result.push_back(operand.buffer);
  if (step.call.scores) append_new(result, step.call.scores->reads);
  if (step.prologue) {
    result.erase(result.begin());
    append_new(result, step.prologue->reads);
  }
  for (const ScatterKernel& update : step.updates) {
    std::erase(result, update.out);
    append_new(result, update.reads);
  }
  if (!step.epilogue) return result;
  for (BufferId id : step.epilogue->reads) {
    if (!contains(step.outputs, id)) result.push_back(id);
  }
  return result;
}

std::vector<BufferId> reads_of(const Step& step) {
  return match(
      step, [](const Kernel& s) { return s.reads; }, [](const ScanKernel& s) { return s.reads; },
      [](const ScatterKernel& s) { return s.reads; }, [](const CallStep& s) { return reads_of(s); },
      [](const BindStep& s) { return std::vector<BufferId>{s.value}; },
      [](const ChainStep& s) {
        std::vector<BufferId> result;
        for (size_t i = 0; i < s.calls.size(); ++i) {
          const std::vector<BufferId> reads = reads_of(s.calls[i]);
          result.insert(result.end(), reads.begin() + (i == 0 ? 0 : 1), reads.end());  // but for the image
        }
        return result;
      },
      [](const ParallelKernels& s) {
        std::vector<BufferId> result;
        for (const ParallelKernel& kernel : s.kernels) match(kernel, [&](const auto& each) { append_new(result, each.reads); });
        return result;
      });
}

bool is_read_once(std::span<const Step> steps, BufferId id) {
  return std::count_if(steps.begin(), steps.end(), [&](const Step& step) { return contains(reads_of(step), id); }) == 1;
}

std::vector<BufferId> writes_of(const CallStep& step) {
  std::vector<BufferId> result = step.epilogue ? step.epilogue->writes : step.outputs;
  for (const ScatterKernel& update : step.updates) result.push_back(update.out);
  return result;
}

std::vector<BufferId> writes_of(const Step& step) {
  return match(
      step, [](const Kernel& s) { return s.writes; }, [](const ScanKernel& s) { return s.outputs; },
      [](const ScatterKernel& s) {
        std::vector<BufferId> result = {s.out};
        if (s.ordered && s.ordered->parts) result.push_back(*s.ordered->parts);
        return result;
      },
      [](const CallStep& s) { return writes_of(s); }, [](const BindStep&) { return std::vector<BufferId>{}; },
      [](const ChainStep& s) {
        std::vector<BufferId> result;
        for (const CallStep& call : s.calls) {
          const std::vector<BufferId> writes = writes_of(call);
          result.insert(result.end(), writes.begin(), writes.end());
        }
        return result;
      },
      [](const ParallelKernels& s) {
        std::vector<BufferId> result;
        for (const ParallelKernel& kernel : s.kernels) append_new(result, writes_of(as_single_step(kernel)));
        return result;
      });
}

Schedule make_schedule(std::unique_ptr<loop::LoopProgram> loops, bool fuse, std::vector<FusionDecision>* decisions, Forms forms,
                       const Planner& planner) {
  loop::LoopProgram& program = *loops;
  if (fuse) planner.prepare(program);
  std::vector<Refusal> refusals;
  const std::vector<Group> groups = group_computations(program, fuse, decisions != nullptr ? &refusals : nullptr);

  // A buffer must exist in memory when the caller or another group reads it.
  std::vector<size_t> writer(program.buffers.size(), ~size_t{0});
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const Member& member : groups[g].members) {
      for (BufferId out : program.computations[member.computation].outputs) writer[static_cast<size_t>(out)] = g;
    }
  }
  std::vector<bool> needed(program.buffers.size());
  std::vector<int> reading_groups(program.buffers.size());
  for (size_t b = 0; b < program.buffers.size(); ++b) needed[b] = program.buffers[b].kind == loop::BufferKind::Output;
  for (size_t g = 0; g < groups.size(); ++g) {
    std::unordered_set<BufferId> read;
    for (const Member& member : groups[g].members) {
      for (BufferId in : loop::reads(program, program.computations[member.computation])) {
        if (writer[static_cast<size_t>(in)] != g) needed[static_cast<size_t>(in)] = true;
        if (read.insert(in).second) ++reading_groups[static_cast<size_t>(in)];
      }
    }
  }
  auto is_read_elsewhere = [&](BufferId id) {
    return program.buffer(id).kind != loop::BufferKind::Temporary || reading_groups[static_cast<size_t>(id)] != 1;
  };

  auto is_sent = [&](BufferId id) {
    const size_t g = writer[static_cast<size_t>(id)];
    return g != ~size_t{0} && communicates(program.computations[groups[g].members[0].computation]);
  };

  Schedule schedule;
  EpilogueGroups epilogues;
  EpilogueRefusals not_done_with;
  for (const Group& group : groups) {
    std::vector<Step>& steps = is_prepared(program, group.members[0].computation) ? schedule.prepare : schedule.steps;
    if (!group.fusible) {
      steps.push_back(single_step(program, group.members[0].computation));
      continue;
    }
    Kernel kernel = build_kernel(program, group, needed);
    if (kernel.writes.empty()) continue;  // everything it computes was taken over by others
    const bool no_rows =
        std::any_of(kernel.outer.begin(), kernel.outer.end(), [](sym::Expr axis) { return axis.node()->extent->is_const(0); });
    if (no_rows) continue;  // all its results are empty
    const auto refused = [&](BufferId product, std::string_view reason) { not_done_with.try_emplace({product, &group}, reason); };
    if (fuse && append_as_epilogue(program, planner, steps, kernel, is_read_elsewhere, is_sent, refused)) {
      epilogues.emplace(std::get<CallStep>(steps.back()).outputs[0], &group);
      continue;
    }
    planner.append(program, steps, std::move(kernel), fuse);
  }
  schedule.loops = std::move(loops);
  const ChainDecisions chains = planner.finish(schedule, fuse, forms);
  for (const Step& step : schedule.steps) {
    const auto* call = std::get_if<CallStep>(&step);
    if (call == nullptr || !call->epilogue || call->outputs.size() < 2) continue;
    if (const auto known = epilogues.find(call->outputs[0]); known != epilogues.end()) epilogues.emplace(call->outputs[1], known->second);
  }
  if (decisions != nullptr) *decisions = explain(program, groups, refusals, epilogues, not_done_with, chains, fuse);
  schedule.lifetimes = lifetimes(program, schedule.steps);
  return schedule;
}

}  // namespace toroid::schedule
