#include "program/in_place.h"

#include <algorithm>

#include "schedule/cpu/loops.h"
#include "support/match.h"

namespace toroid::program {
namespace {

using loop::BufferId;
using loop::ExprId;
using schedule::Kernel;

// Goes through the steps in order and finds what stands against having the output where the old value is.
class Update {
 public:
  Update(const loop::LoopProgram& loops, BufferId output, uint32_t constant) : loops_(loops), output_(output), constant_(constant) {}

  bool is_old(BufferId id) const {
    const loop::Buffer& buffer = loops_.buffer(id);
    return buffer.kind == loop::BufferKind::Constant && buffer.position == constant_;
  }

  bool allows(const schedule::Step& step) {
    return match(
        step, [&](const Kernel& s) { return allows_kernel(s) && allows_kernels(s.finish); },
        [&](const schedule::ScatterKernel& s) { return follows(reads(s), writes(s)); },
        [&](const schedule::CallStep& s) {
          if (!s.updates.empty()) return allows_updates(s);
          if (!s.gpu || !s.epilogue) return follows(step);
          const bool reads = (s.prologue && this->reads(*s.prologue)) || std::any_of(s.call.operands.begin(), s.call.operands.end(),
                                                                                     [&](const auto& each) { return is_old(each.buffer); });
          return !(reads && writes(*s.epilogue)) && follows(reads, false) && allows_kernel(*s.epilogue);
        },
        [&](const schedule::ParallelKernels& s) {
          const auto reads = [&](const auto& each) { return match(each, [&](const auto& kernel) { return this->reads(kernel); }); };
          const auto writes = [&](const auto& each) { return match(each, [&](const auto& kernel) { return this->writes(kernel); }); };
          const auto writer = std::find_if(s.kernels.begin(), s.kernels.end(), writes);
          for (auto each = s.kernels.begin(); writer != s.kernels.end() && each != s.kernels.end(); ++each) {
            if (each != writer && reads(*each)) return false;
          }
          return std::all_of(s.kernels.begin(), s.kernels.end(), [&](const auto& each) { return allows(schedule::as_single_step(each)); });
        },
        [&](const auto&) { return follows(step); });
  }

 private:
  // What reads the old value comes before what writes the new one.
  bool follows(bool reads, bool writes) {
    if (reads && (writes || is_written_)) return false;
    is_written_ = is_written_ || writes;
    return true;
  }
  bool follows(const schedule::Step& step) {
    const std::vector<BufferId> read = schedule::reads_of(step), written = schedule::writes_of(step);
    return follows(std::any_of(read.begin(), read.end(), [&](BufferId id) { return is_old(id); }),
                   std::find(written.begin(), written.end(), output_) != written.end());
  }
  // A row of the new value is written while other rows are read, which are the old one's.
  bool allows_updates(const schedule::CallStep& s) {
    const auto is_read = [&](const auto& each) { return is_old(each.buffer); };
    const bool reads = (s.prologue && this->reads(*s.prologue)) ||
                       std::any_of(s.call.operands.begin() + (s.prologue ? 1 : 0), s.call.operands.end(), is_read) ||
                       std::any_of(s.updates.begin(), s.updates.end(), [&](const auto& each) { return this->reads(each); });
    return follows(reads, std::any_of(s.updates.begin(), s.updates.end(), [&](const auto& each) { return writes(each); }));
  }
  bool allows_kernels(const std::vector<Kernel>& kernels) {
    return std::all_of(kernels.begin(), kernels.end(), [&](const Kernel& each) { return allows_kernel(each); });
  }
  bool allows_kernel(const Kernel& kernel) {
    const bool reads = !old_loads(kernel).empty(), writes = this->writes(kernel);
    if (!reads || !writes || is_written_) return follows(reads, writes);
    is_written_ = true;
    return kernel.other_forms.empty() && reads_before_it_writes(kernel);
  }

  // There is one load of the old value, at the element that is written, in the same stage, where the value is at hand from the store on:
  // later statements do not load it again. Only that thread has the element.
  bool reads_before_it_writes(const Kernel& kernel) const {
    const std::vector<ExprId> loads = old_loads(kernel);
    if (loads.size() != 1) return false;
    for (const schedule::Stage& stage : kernel.stages) {
      const auto store = std::find_if(stage.statements.begin(), stage.statements.end(), [&](const auto& s) { return is_store(s); });
      if (store == stage.statements.end()) {
        if (!old_loads(stage).empty()) return false;
        continue;
      }
      const auto& position = std::get<schedule::Store>(*store).position;
      if (std::get<loop::Load>(loops_.exprs.node(loads[0]).op).index[0] != position || (stage.condition && reads(*stage.condition)))
        return false;
      const schedule::Stage later{.statements = {std::next(store), stage.statements.end()}};
      Kernel until;
      until.stages = {{.statements = {stage.statements.begin(), std::next(store)}}};
      const std::vector<ExprId> sure = schedule::unconditional_loads(loops_.exprs, until);
      if (!old_loads(later).empty() && std::find(sure.begin(), sure.end(), loads[0]) == sure.end()) return false;
    }
    return true;
  }

  bool is_store(const schedule::Statement& statement) const {
    const auto* store = std::get_if<schedule::Store>(&statement);
    return store != nullptr && store->buffer == output_;
  }
  bool reads(const Kernel& kernel) const { return !old_loads(kernel).empty(); }
  bool reads(const schedule::ScatterKernel& kernel) const {
    return !old_loads({kernel.value}, {kernel.position}).empty() || (is_old(kernel.base) && kernel.out != output_);
  }
  bool writes(const schedule::ScatterKernel& kernel) const { return kernel.out == output_; }
  bool writes(const Kernel& kernel) const {
    return std::any_of(kernel.stages.begin(), kernel.stages.end(), [&](const schedule::Stage& stage) {
      return std::any_of(stage.statements.begin(), stage.statements.end(), [&](const auto& s) { return is_store(s); });
    });
  }

  // ---- loads of the old value, each once; indices that are read from it too

  bool reads(ExprId value) const { return !old_loads({value}, {}).empty(); }
  std::vector<ExprId> old_loads(std::vector<ExprId> values, const std::vector<sym::Expr>& positions) const {
    for (sym::Expr position : positions) {
      if (position.is_const()) continue;
      for (sym::Expr symbol : sym::free_symbols(position)) {
        if (const loop::ValueSymbol* value = loops_.exprs.value_symbol(symbol)) values.push_back(value->index);
      }
    }
    std::vector<ExprId> result;
    for (ExprId id : loop::reachable(loops_.exprs, values)) {
      const auto* load = std::get_if<loop::Load>(&loops_.exprs.node(id).op);
      if (load != nullptr && is_old(load->buffer)) result.push_back(id);
    }
    return result;
  }
  static void add(const schedule::Stage& stage, std::vector<ExprId>& values, std::vector<sym::Expr>& positions) {
    if (stage.condition) values.push_back(*stage.condition);
    for (const schedule::Statement& statement : stage.statements) {
      match(statement, [&](const auto& s) { values.push_back(s.value); });
      if (const auto* store = std::get_if<schedule::Store>(&statement)) positions.push_back(store->position);
    }
  }
  std::vector<ExprId> old_loads(const schedule::Stage& stage) const {
    std::vector<ExprId> values;
    std::vector<sym::Expr> positions;
    add(stage, values, positions);
    return old_loads(values, positions);
  }
  std::vector<ExprId> old_loads(const Kernel& kernel) const {
    std::vector<ExprId> values;
    std::vector<sym::Expr> positions;
    for (const schedule::Stage& stage : kernel.stages) add(stage, values, positions);
    return old_loads(values, positions);
  }

  const loop::LoopProgram& loops_;
  const BufferId output_;
  const uint32_t constant_;
  bool is_written_ = false;
};

bool lie_alike(const loop::Buffer& a, const loop::Buffer& b) {
  return a.dtype == b.dtype && sym::known_eq(sym::product(a.sizes), sym::product(b.sizes)) && a.strides == contiguous_strides(a.sizes) &&
         b.strides == contiguous_strides(b.sizes);
}

}  // namespace

bool may_be_in_place(const toroid::Program& program, const std::vector<schedule::ScheduledGraph>& graphs, size_t output) {
  const OutputSpec& spec = program.outputs[output];
  if (spec.kind != OutputKind::BufferMutation) return false;
  const auto has_target = [&](const OutputSpec& other) { return other.kind == spec.kind && other.target == spec.target; };
  if (std::count_if(program.outputs.begin(), program.outputs.end(), has_target) != 1) return false;

  const schedule::Schedule& main = graphs[0].schedule;
  const loop::LoopProgram& loops = *main.loops;
  const loop::Buffer& result = loops.buffer(graphs[0].outputs[output].buffer);
  const auto old = std::find_if(loops.buffers.begin(), loops.buffers.end(), [&](const auto& each) { return loop::updates(result, each); });
  if (old == loops.buffers.end() || !lie_alike(result, *old)) return false;
  // What runs once, and what a step runs in a subgraph, has no place in the order.
  for (size_t g = 1; g < graphs.size(); ++g) {
    for (const loop::Buffer& each : graphs[g].schedule.loops->buffers) {
      if (each.kind == loop::BufferKind::Constant && each.position == old->position) return false;
    }
  }
  Update update(loops, graphs[0].outputs[output].buffer, old->position);
  for (const schedule::Step& step : main.prepare) {
    for (BufferId read : schedule::reads_of(step)) {
      if (update.is_old(read)) return false;
    }
  }
  return std::all_of(main.steps.begin(), main.steps.end(), [&](const schedule::Step& step) { return update.allows(step); });
}

}  // namespace toroid::program
