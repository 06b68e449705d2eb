// Element-wise work on a product, done block by block while the product is made.
//
// A kernel can be the epilogue of a product that it reads if it goes through the product's elements once, each at its own place: one axis
// is the product's columns, the others together, in the order of its memory, are its rows.
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

// The axes of a kernel in the order of the memory that it reads at `position` of the buffer. None where that is not all of its elements,
// each of them once.
std::optional<std::vector<sym::Expr>> axes_in_order(const Kernel& kernel, sym::Expr position, const loop::Buffer& buffer) {
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
    if (buffer.has_padded_rows && sym::known_eq(expected, buffer.sizes.back())) expected = buffer.strides.end()[-2];
  }
  if (steps.empty() || !sym::known_eq(expected, loop::elements_in_memory(buffer))) return std::nullopt;
  std::vector<sym::Expr> axes;
  for (const Step& step : steps) axes.push_back(step.axis);
  return axes;
}

constexpr std::string_view kPlaceReason = "the consumer does not read each element of the product once, at its place";
constexpr std::string_view kStrideReason = "the consumer reads or writes other memory with a stride along the product's columns";

// Takes the innermost axes, which have so many elements together, and makes them one. None where they are not.
std::optional<sym::Expr> take_innermost(loop::LoopProgram& program, Kernel& kernel, std::vector<sym::Expr>& axes, sym::Expr elements) {
  std::vector<sym::Expr> taken;
  for (sym::Expr count = 1; !axes.empty() && !sym::known_eq(count, elements); axes.pop_back()) {
    count = count * *axes.back().node()->extent;
    taken.insert(taken.begin(), axes.back());
  }
  merge_neighbours(program, kernel, taken);
  if (taken.size() != 1 || !sym::known_eq(*taken[0].node()->extent, elements)) return std::nullopt;
  return taken[0];
}

// The product's element that each of a kernel's has, by axes in the order of the product's memory; or why there is none.
struct ElementsOf {
  std::vector<sym::Expr> axes;
  std::string_view reason = {};
};
ElementsOf elements_of_product(const loop::LoopProgram& program, const Kernel& kernel, BufferId product) {
  if (!only_stores(kernel)) return {{}, "the consumer reduces, over more elements than a block of the product holds"};
  const std::vector<ExprId> loads = loads_of(program.exprs, kernel, product);
  if (loads.size() != 1) return {{}, "the consumer reads several elements of the product for one of its own"};
  const std::vector<ExprId> always = unconditional_loads(program.exprs, kernel);
  if (std::find(always.begin(), always.end(), loads[0]) == always.end())
    return {{}, "the consumer reads the product under a condition, as a pad or a cat does"};
  const sym::Expr position = std::get<loop::Load>(program.exprs.node(loads[0]).op).index[0];
  auto axes = axes_in_order(kernel, position, program.buffer(product));
  if (!axes) return {{}, kPlaceReason};
  return {std::move(*axes)};
}

// Does all memory, but so many places of it, lie contiguously along the columns, or is it the same for all of them?
bool has_columns(const loop::LoopProgram& program, const Kernel& kernel, sym::Expr column, int others) {
  for (const Access& access : accesses(program.exprs, kernel)) {
    const auto linear = sym::linear_in(access.position, column);
    if (access.is_memory && (!linear || !(linear->coefficient.is_const(0) || linear->coefficient.is_const(1)))) --others;
  }
  return others >= 0;
}

Kernel with_columns(const loop::LoopProgram& program, Kernel kernel, std::vector<sym::Expr> rows, sym::Expr column, BufferId product) {
  kernel.outer = std::move(rows);
  kernel.outer.push_back(column);
  kernel.vector = VectorAlong::Outer;
  kernel.product = loads_of(program.exprs, kernel, product)[0];
  return kernel;
}

}  // namespace

bool makes_product(const loop::LoopProgram& program, const loop::Call& call, const std::vector<loop::BufferId>& outputs) {
  if (outputs.size() != 1) return false;
  const loop::Buffer& result = program.buffer(outputs[0]);
  const auto* convolution = std::get_if<Convolution>(&call.op);
  const bool is_matmul = std::holds_alternative<Matmul>(call.op);
  if (!is_matmul && convolution == nullptr) return false;
  const bool is_float = result.dtype == DType::F32 || is_reduced_float(result.dtype);
  const DType left = program.buffer(call.operands[0].buffer).dtype, right = program.buffer(call.operands[1].buffer).dtype;
  const bool is_sum_of_bytes = result.dtype == DType::I32 && right == DType::I8 && (left == DType::U8 || (is_matmul && left == DType::I8));
  if (!is_float && !is_sum_of_bytes) return false;
  if (is_matmul) return true;
  // On a processor convolutions of float16 are of copies in float32.
  if (result.dtype == DType::F16 && program.buffer(call.operands[0].buffer).dtype != DType::F16) return false;
  // With three dims none is, and the channels lie next to each other where each of the dims has one element.
  return !convolution->transposed && convolution->stride.size() <= 2 && call.operands.size() == 2 && result.strides[1].is_const(1);
}

bool makes_product(const loop::LoopProgram& program, const loop::Computation& computation) {
  const auto* call = std::get_if<loop::Call>(&computation.work);
  return call != nullptr && makes_product(program, *call, computation.outputs);
}

bool is_depthwise(const loop::Call& call) {
  if (!std::holds_alternative<Convolution>(call.op)) return false;
  const std::vector<sym::Expr>&image = call.operands[0].sizes, &filters = call.operands[1].sizes;
  return filters[1].is_const(1) && !filters[0].is_const(1) && sym::known_eq(filters[0], image[1]);
}

EpilogueAttempt as_epilogue(loop::LoopProgram& program, Kernel kernel, const loop::Call& call, BufferId product) {
  const loop::Buffer& buffer = program.buffer(product);
  // The dim of the columns: a matrix's last, an image's channels.
  const size_t last = std::holds_alternative<Convolution>(call.op) ? 1 : buffer.sizes.size() - 1;
  ElementsOf found = elements_of_product(program, kernel, product);
  if (!found.reason.empty()) return {{}, found.reason};
  const auto column = take_innermost(program, kernel, found.axes, buffer.sizes[last]);
  if (!column) return {{}, kPlaceReason};
  if (!has_columns(program, kernel, *column, 0)) return {{}, kStrideReason};
  merge_neighbours(program, kernel, found.axes);
  return {with_columns(program, std::move(kernel), std::move(found.axes), *column, product)};
}

EpilogueAttempt as_epilogue_of_pixels(loop::LoopProgram& program, Kernel kernel, BufferId product) {
  const loop::Buffer& buffer = program.buffer(product);
  ElementsOf found = elements_of_product(program, kernel, product);
  if (!found.reason.empty()) return {{}, found.reason};
  const auto filters = take_innermost(program, kernel, found.axes, buffer.sizes[1]);
  if (!filters) return {{}, kPlaceReason};
  const std::vector<sym::Expr> of_image(buffer.sizes.begin() + 2, buffer.sizes.end());
  const auto pixels = take_innermost(program, kernel, found.axes, sym::product(of_image));
  constexpr int kProduct = 1;  // which is never in memory
  if (!pixels || !has_columns(program, kernel, *pixels, kProduct)) return {{}, kStrideReason};
  merge_neighbours(program, kernel, found.axes);
  found.axes.push_back(*filters);
  return {with_columns(program, std::move(kernel), std::move(found.axes), *pixels, product)};
}

}  // namespace toroid::schedule
