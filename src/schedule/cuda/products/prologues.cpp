#include "schedule/cuda/products/prologues.h"

#include <algorithm>
#include <optional>

#include "schedule/axes.h"
#include "schedule/buffer_lists.h"
#include "schedule/cuda/launches/overlap.h"
#include "schedule/cuda/products/few_rows_ring.h"
#include "schedule/fusion/group.h"

namespace toroid::schedule {
namespace {

constexpr int kPrologueThreads = 256;      // of the warps that multiply
constexpr int kMostOfPrologueThread = 32;  // elements of the row
constexpr size_t kMostPrologues = 2;       // that make the row again

// The kernel with as many threads as a block of the product has: of one row, which its threads have in registers.
std::optional<Kernel> as_prologue(const loop::LoopProgram& program, const Kernel& kernel) {
  if (!kernel.gpu || kernel.inner.empty() || !kernel.finish.empty() || !kernel.other_forms.empty() || kernel.writes.size() != 1)
    return std::nullopt;
  Kernel made = kernel;
  GpuLoops& gpu = *made.gpu;
  const sym::Expr rows = product_of_extents(kernel.outer), row = product_of_extents(kernel.inner);
  if (gpu.columns || gpu.pixels > 1 || !rows.is_const(1) || !row.is_const()) return std::nullopt;
  const loop::Buffer& result = program.buffer(kernel.writes[0]);
  if (result.kind != loop::BufferKind::Temporary || !sym::product(result.sizes).is_const(row.value())) return std::nullopt;
  gpu.threads = gpu.row_threads = kPrologueThreads;
  while (gpu.row_threads > 1 && gpu.row_threads / 2 * gpu.vector >= row.value()) gpu.row_threads /= 2;
  gpu.items = static_cast<int>((row.value() + gpu.row_threads * gpu.vector - 1) / (gpu.row_threads * gpu.vector));
  if (gpu.items * gpu.vector > kMostOfPrologueThread) return std::nullopt;
  const bool stays = std::all_of(kernel.reads.begin(), kernel.reads.end(), [&](BufferId id) {
    const loop::Buffer& buffer = program.buffer(id);
    return buffer.kind == loop::BufferKind::Temporary || buffer.kind == loop::BufferKind::Input || is_always_there(buffer);
  });
  return stays ? std::optional(std::move(made)) : std::nullopt;
}

// Is the buffer the left side alone of a product that has such blocks?
bool takes(const loop::LoopProgram& program, const Step& step, BufferId left) {
  const auto* call = std::get_if<CallStep>(&step);
  if (call == nullptr || !call->gpu || call->gpu->depth_warps * 32 != kPrologueThreads || !std::holds_alternative<Matmul>(call->call.op))
    return false;
  const ProductAttempt product = as_product_of_tiles(program, call->call, call->outputs);
  if (!product.shape || product.shape->a.buffer != left || !product.shape->a.offset.is_const(0)) return false;
  const std::vector<loop::Operand>& operands = call->call.operands;
  const bool is_elsewhere =
      std::any_of(operands.begin() + 1, operands.end(), [&](const loop::Operand& each) { return each.buffer == left; }) ||
      (call->epilogue && contains(call->epilogue->reads, left));
  return operands[0].buffer == left && !is_elsewhere && is_few_rows_by_ring(*product.shape, *call->gpu) &&
         product.shape->rows.is_const(1) && sym::known_eq(product.shape->depth, sym::product(program.buffer(left).sizes));
}

}  // namespace

bool is_product_with_prologue(const loop::LoopProgram& program, const CallStep& step) {
  const std::optional<Kernel> again = as_prologue(program, *step.prologue);
  return again && again->gpu == step.prologue->gpu && takes(program, step, step.prologue->writes[0]);
}

void make_prologues(const loop::LoopProgram& program, std::vector<Step>& steps) {
  for (size_t at = 0; at < steps.size();) {
    const auto* kernel = std::get_if<Kernel>(&steps[at]);
    const std::optional<Kernel> prologue = kernel == nullptr ? std::nullopt : as_prologue(program, *kernel);
    std::vector<CallStep*> products;
    bool is_taken = prologue.has_value();
    for (size_t later = at + 1; is_taken && later < steps.size(); ++later) {
      if (!contains(reads_of(steps[later]), prologue->writes[0])) continue;
      is_taken = products.size() < kMostPrologues && takes(program, steps[later], prologue->writes[0]);
      if (is_taken) products.push_back(&std::get<CallStep>(steps[later]));
    }
    if (!is_taken || products.empty()) {
      ++at;
      continue;
    }
    for (CallStep* product : products) {
      product->prologue = *prologue;
      product->name = prologue->name + "_" + product->name;
      add_provenance(product->provenance, prologue->provenance);
    }
    steps.erase(steps.begin() + static_cast<ptrdiff_t>(at));
  }
}

}  // namespace toroid::schedule
