#include "schedule/mentioned.h"

#include <unordered_set>

#include "support/match.h"

namespace toroid::schedule {
namespace {

void add(Mentioned& list, const std::vector<sym::Expr>& exprs) { list.exprs.insert(list.exprs.end(), exprs.begin(), exprs.end()); }

void add(Mentioned& list, const Kernel& kernel) {
  add(list, kernel.outer);
  add(list, kernel.inner);
  list.named.insert(list.named.end(), kernel.tiled_loads.begin(), kernel.tiled_loads.end());
  if (kernel.product) list.named.push_back(*kernel.product);
  if (kernel.second_product) list.named.push_back(*kernel.second_product);
  list.named.insert(list.named.end(), kernel.unfused.begin(), kernel.unfused.end());
  for (const Stage& stage : kernel.stages) {
    if (stage.condition) list.values.push_back(*stage.condition);
    for (const Fetch& each : stage.fetches) list.exprs.push_back(each.position);
    for (const Statement& statement : stage.statements) {
      match(
          statement, [&](const Accumulate& s) { list.exprs.push_back(s.position); },
          [&](const Store& s) { list.exprs.push_back(s.position); }, [](const Keep&) {});
      match(statement, [&](const auto& s) { list.values.push_back(s.value); });
    }
  }
  for (const auto* kernels : {&kernel.finish, &kernel.other_forms}) {
    for (const Kernel& each : *kernels) add(list, each);
  }
}

void add(Mentioned& list, const ScatterKernel& kernel) {
  add(list, kernel.axes);
  list.exprs.push_back(kernel.position);
  if (kernel.split) list.exprs.push_back(kernel.split->index);
  list.values.push_back(kernel.value);
  if (kernel.ordered && kernel.ordered->fill) list.values.push_back(*kernel.ordered->fill);
}

}  // namespace

Mentioned mentioned(const Step& step) {
  Mentioned list;
  match(
      step, [&](const Kernel& s) { add(list, s); },
      [&](const ScanKernel& s) {
        add(list, s.outer);
        list.exprs.push_back(s.along);
        add(list, s.positions);
        list.values.push_back(s.value);
      },
      [&](const ScatterKernel& s) { add(list, s); },
      [&](const CallStep& s) {
        if (s.call.scores) {
          add(list, s.call.scores->axes);
          for (ExprId id : loop::roots(*s.call.scores)) list.values.push_back(id);
        }
        if (s.prologue) add(list, *s.prologue);
        for (const ScatterKernel& update : s.updates) add(list, update);
        if (s.epilogue) add(list, *s.epilogue);
      },
      [](const BindStep&) {},
      [&](const ChainStep& s) {
        for (const CallStep& call : s.calls) {
          if (call.epilogue) add(list, *call.epilogue);
        }
      },
      [&](const ParallelKernels& s) {
        for (const ParallelKernel& kernel : s.kernels) match(kernel, [&](const auto& each) { add(list, each); });
      });
  return list;
}

std::vector<sym::Expr> size_symbols(const loop::LoopProgram& program, const Step& step) {
  const Mentioned list = mentioned(step);
  std::vector<ExprId> roots = list.values;
  roots.insert(roots.end(), list.named.begin(), list.named.end());
  std::vector<sym::Expr> result;
  std::unordered_set<sym::Expr> seen;
  // Axes stand for their extents, values for what they are computed from and compared with.
  std::vector<sym::Expr> waiting = list.exprs;
  std::unordered_set<ExprId> visited;
  while (!waiting.empty() || !roots.empty()) {
    for (ExprId id : loop::reachable(program.exprs, std::exchange(roots, {}))) {
      if (!visited.insert(id).second) continue;
      const loop::ExprOp& op = program.exprs.node(id).op;
      if (const auto* load = std::get_if<loop::Load>(&op)) waiting.insert(waiting.end(), load->index.begin(), load->index.end());
      if (const auto* index = std::get_if<loop::Index>(&op)) waiting.push_back(index->value);
    }
    for (sym::Expr each : std::exchange(waiting, {})) {
      if (each.is_const()) continue;
      for (sym::Expr symbol : sym::free_symbols(each)) {
        if (!seen.insert(symbol).second) continue;
        if (symbol.node()->has_sizes) result.push_back(symbol);
        if (symbol.node()->extent) waiting.push_back(*symbol.node()->extent);
        if (const loop::ValueSymbol* value = program.exprs.value_symbol(symbol)) {
          waiting.push_back(value->size);
          roots.push_back(value->index);
        }
      }
    }
  }
  return result;
}

}  // namespace toroid::schedule
