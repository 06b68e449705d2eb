// Element-wise work on a product, done block by block while the product is made.
//
// A kernel can be the epilogue of a product that it reads if it goes through the product's elements once, each at its own place: one axis is
// the product's columns, the others together, in the order of its memory, are its rows.
#include <algorithm>

#include "lower/layouts.h"
#include "schedule/cpu/loops.h"
#include "schedule/fusion/group.h"

namespace toroid::schedule {
namespace {

// The loads of a buffer, each distinct one once.
std::vector<ExprId> loads_of(const loop::ExprTable& exprs, const Kernel& kernel, BufferId buffer) {
  std::vector<ExprId> values, result;
  for (const Stage& stage : kernel.stages) {
    for (const Statement& statement : stage.statements) values.push_back(std::get<Store>(statement).value);
  }
  for (ExprId id : loop::reachable(exprs, values)) {
    const auto* load = std::get_if<loop::Load>(&exprs.node(id).op);
    if (load != nullptr && load->buffer == buffer) result.push_back(id);
  }
  return result;
}

bool only_stores(const Kernel& kernel) {
  if (!kernel.inner.empty() || !kernel.accumulators.empty() || kernel.stages.size() != 1) return false;
  return std::all_of(kernel.stages[0].statements.begin(), kernel.stages[0].statements.end(),
                     [](const Statement& s) { return std::holds_alternative<Store>(s); });
}

// The axes of a kernel as rows and columns of the matrix that it reads at `position`; the columns' axis last. None where it is not that matrix,
// each element once.
std::optional<std::vector<sym::Expr>> rows_and_columns(const Kernel& kernel, sym::Expr position, sym::Expr columns, sym::Expr elements) {
  struct Step {
    sym::Expr axis, by;
  };
  std::vector<Step> steps;
  for (sym::Expr axis : kernel.outer) {
    const auto linear = sym::linear_in(position, axis);
    if (!linear || linear->coefficient.is_const(0) || !only_axes_and_sizes(linear->coefficient)) return std::nullopt;
    steps.push_back({axis, linear->coefficient});
    position = linear->rest;
  }
  if (!position.is_const(0)) return std::nullopt;
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return sym::evaluate_hint(a.by) > sym::evaluate_hint(b.by); });
  sym::Expr expected = 1;
  for (size_t i = steps.size(); i-- > 0;) {
    if (!sym::known_eq(steps[i].by, expected)) return std::nullopt;
    expected = expected * *steps[i].axis.node()->extent;
  }
  if (steps.empty() || !sym::known_eq(expected, elements) || !sym::known_eq(*steps.back().axis.node()->extent, columns))
    return std::nullopt;
  std::vector<sym::Expr> axes;
  for (const Step& step : steps) axes.push_back(step.axis);
  return axes;
}

}  // namespace

bool makes_product(const loop::LoopProgram& program, const loop::Call& call, const std::vector<loop::BufferId>& outputs) {
  if (outputs.size() != 1) return false;
  const loop::Buffer& result = program.buffer(outputs[0]);
  if (std::holds_alternative<Matmul>(call.op)) return result.dtype == DType::F32 || is_reduced_float(result.dtype);
  const auto* convolution = std::get_if<Convolution>(&call.op);
  if (!is_reduced_float(result.dtype) && result.dtype != DType::F32) return false;
  // On a processor convolutions of float16 are of copies in float32.
  if (result.dtype == DType::F16 && program.buffer(call.operands[0].buffer).dtype != DType::F16) return false;
  return convolution != nullptr && !convolution->transposed && call.operands.size() == 2 && result.strides[1].is_const(1);
}

bool makes_product(const loop::LoopProgram& program, const loop::Computation& computation) {
  const auto* call = std::get_if<loop::Call>(&computation.work);
  return call != nullptr && makes_product(program, *call, computation.outputs);
}

EpilogueAttempt as_epilogue(loop::LoopProgram& program, Kernel kernel, const loop::Call& call, BufferId product) {
  if (!only_stores(kernel)) return {{}, "the consumer reduces, over more elements than a block of the product holds"};
  const std::vector<ExprId> loads = loads_of(program.exprs, kernel, product);
  if (loads.size() != 1) return {{}, "the consumer reads several elements of the product for one of its own"};
  const std::vector<ExprId> always = unconditional_loads(program.exprs, kernel);
  if (std::find(always.begin(), always.end(), loads[0]) == always.end())
    return {{}, "the consumer reads the product under a condition, as a pad or a cat does"};

  const loop::Buffer& buffer = program.buffer(product);
  // The dim of the columns: a matrix's last, an image's channels.
  const size_t last = std::holds_alternative<Convolution>(call.op) ? 1 : buffer.sizes.size() - 1;
  const sym::Expr position = std::get<loop::Load>(program.exprs.node(loads[0]).op).index[0];
  auto axes = rows_and_columns(kernel, position, buffer.sizes[last], sym::product(buffer.sizes));
  if (!axes) return {{}, "the consumer does not read each element of the product once, at its place"};
  const sym::Expr column = axes->back();
  for (const Access& access : accesses(program.exprs, kernel)) {
    const auto linear = sym::linear_in(access.position, column);
    if (access.is_memory && (!linear || !(linear->coefficient.is_const(0) || linear->coefficient.is_const(1)))) {
      return {{}, "the consumer reads or writes other memory with a stride along the product's columns"};
    }
  }
  axes->pop_back();
  merge_neighbours(program, kernel, *axes);
  kernel.outer = std::move(*axes);
  kernel.outer.push_back(column);
  kernel.vector = VectorAlong::Outer;
  kernel.product = loads_of(program.exprs, kernel, product)[0];
  return {std::move(kernel)};
}

}  // namespace toroid::schedule
