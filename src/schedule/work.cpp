#include "schedule/work.h"

#include <algorithm>

#include "schedule/axes.h"
#include "schedule/buffer_lists.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

sym::Expr bytes_of(const loop::Buffer& buffer) { return sym::product(buffer.sizes) * size_bytes(buffer.dtype); }

bool is_looked_up(const loop::ExprTable& exprs, sym::Expr position) {
  if (position.is_const()) return false;
  const std::vector<sym::Expr> symbols = sym::free_symbols(position);
  return std::any_of(symbols.begin(), symbols.end(), [&](sym::Expr symbol) { return exprs.value_symbol(symbol) != nullptr; });
}

// Elements that a kernel visits.
sym::Expr elements_of(const Kernel& kernel) { return product_of_extents(kernel.outer) * product_of_extents(kernel.inner); }

sym::Expr bytes_of(const loop::LoopProgram& program, const Kernel& kernel, const std::vector<BufferId>& without) {
  std::vector<ExprId> values;
  for (const Stage& stage : kernel.stages) {
    for (const Statement& statement : stage.statements) match(statement, [&](const auto& s) { values.push_back(s.value); });
  }
  std::vector<BufferId> looked_up;
  for (ExprId id : loop::reachable(program.exprs, values)) {
    const auto* load = std::get_if<loop::Load>(&program.exprs.node(id).op);
    if (load != nullptr && is_looked_up(program.exprs, load->index[0])) looked_up.push_back(load->buffer);
  }
  sym::Expr bytes = 0;
  for (const auto* list : {&kernel.reads, &kernel.writes}) {
    for (BufferId id : *list) {
      if (contains(without, id)) continue;
      const bool is_partial = list == &kernel.reads && contains(looked_up, id);
      const loop::Buffer& buffer = program.buffer(id);
      bytes = bytes + (is_partial ? sym::min(bytes_of(buffer), elements_of(kernel) * size_bytes(buffer.dtype)) : bytes_of(buffer));
    }
  }
  return bytes;
}

sym::Expr flops_of(const loop::LoopProgram& program, const CallStep& step) {
  const std::vector<loop::Operand>& in = step.call.operands;
  const std::vector<sym::Expr>& out = program.buffer(step.outputs[0]).sizes;
  if (std::holds_alternative<Matmul>(step.call.op))
    return 2 * static_cast<int64_t>(step.outputs.size()) * sym::product(out) * in[0].sizes.back();
  if (const auto* convolution = std::get_if<Convolution>(&step.call.op)) {
    // Each element of the output, or of the input of a transposed one, meets a filter.
    const std::vector<sym::Expr>& meeting = convolution->transposed ? in[0].sizes : out;
    const std::vector<sym::Expr>& filters = in[1].sizes;
    return 2 * sym::product(meeting) * sym::product(std::vector(filters.begin() + 1, filters.end()));
  }
  if (std::holds_alternative<Attention>(step.call.op) || step.call.scores) {
    const size_t rank = in[0].sizes.size();
    return 2 * sym::product(in[0].sizes) * in[1].sizes[rank - 2] + 2 * sym::product(out) * in[1].sizes[rank - 2];
  }
  return 0;
}

StepWork work_of(const loop::LoopProgram& program, const CallStep& call) {
  sym::Expr bytes = 0;
  for (const loop::Operand& operand : call.call.operands) {
    bytes = bytes + sym::product(operand.sizes) * size_bytes(program.buffer(operand.buffer).dtype);
  }
  if (call.epilogue) {
    bytes = bytes + bytes_of(program, *call.epilogue, call.outputs);
  } else {
    for (BufferId out : call.outputs) bytes = bytes + bytes_of(program.buffer(out));
  }
  const DType numbers = call.call.operands.empty() ? DType::F32 : program.buffer(call.call.operands[0].buffer).dtype;
  return {bytes, call.outputs.empty() ? sym::Expr(0) : flops_of(program, call), numbers};
}

}  // namespace

StepWork work_of(const loop::LoopProgram& program, const Step& step) {
  if (const auto* kernel = std::get_if<Kernel>(&step)) return {bytes_of(program, *kernel, {}), 0};
  if (const auto* call = std::get_if<CallStep>(&step)) return work_of(program, *call);
  if (const auto* chain = std::get_if<ChainStep>(&step)) {
    StepWork all = {0, 0};
    for (size_t i = 0; i < chain->calls.size(); ++i) {
      const StepWork work = work_of(program, chain->calls[i]);
      all = {all.bytes + work.bytes, all.flops + work.flops, work.numbers};
      // What is between two of them is neither written nor read.
      if (i > 0) all.bytes = all.bytes - 2 * bytes_of(program.buffer(chain->calls[i].call.operands[0].buffer));
    }
    return all;
  }
  if (const auto* group = std::get_if<ParallelKernels>(&step)) {
    sym::Expr bytes = 0;
    for (const ParallelKernel& kernel : group->kernels) bytes = bytes + work_of(program, as_single_step(kernel)).bytes;
    return {bytes, 0};
  }
  sym::Expr bytes = 0;
  for (BufferId id : reads_of(step)) bytes = bytes + bytes_of(program.buffer(id));
  for (BufferId id : writes_of(step)) bytes = bytes + bytes_of(program.buffer(id));
  return {bytes, 0};
}

}  // namespace toroid::schedule
