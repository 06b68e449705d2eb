#include "schedule/cuda/sorted_scatter.h"

#include <algorithm>
#include <limits>

#include "schedule/cpu/form_estimate.h"
#include "schedule/cpu/loops.h"
#include "schedule/cuda/cuda_grid.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kWorthSorting = 512;             // elements that a thread would go through
constexpr int64_t kMostSorted = int64_t{1} << 29;  // that are sorted

}  // namespace

std::optional<Destination> destination_of(const loop::LoopProgram& program, const ScatterKernel& kernel) {
  const ScatterThreads threads = scatter_threads(program, kernel);
  sym::Substitution to_zero;
  for (sym::Expr axis : threads.parallel) to_zero.emplace_back(axis, sym::Expr(0));
  const sym::Expr key = sym::substitute(kernel.position, to_zero), within = kernel.position - key;
  const auto depends = [&](sym::Expr e, const std::vector<sym::Expr>& axes) {
    return std::any_of(axes.begin(), axes.end(), [&](sym::Expr axis) { return depends_on_through_values(program.exprs, e, axis); });
  };
  if (depends(key, threads.parallel) || depends(within, threads.serial)) return std::nullopt;
  for (sym::Expr symbol : within.is_const() ? std::vector<sym::Expr>{} : sym::free_symbols(within)) {
    if (program.exprs.value_symbol(symbol) != nullptr) return std::nullopt;
  }
  return Destination{key, within};
}

sym::Expr parts_of_chunks(const loop::LoopProgram& program, const ScatterKernel& kernel) {
  const ScatterThreads threads = scatter_threads(program, kernel);
  return 2 * sym::ceil_div(product_of_extents(threads.serial), scatter_chunk(program, kernel)) * product_of_extents(threads.parallel);
}

std::optional<SortedScatter> sort_destinations(loop::LoopProgram& program, ScatterKernel& kernel) {
  const ScatterThreads threads = scatter_threads(program, kernel);
  const sym::Expr elements = product_of_extents(threads.serial);
  if (threads.serial.empty() || sym::evaluate_hint(elements) < kWorthSorting || !sym::known_le(elements, kMostSorted)) return std::nullopt;
  const std::optional<Destination> destination = destination_of(program, kernel);
  if (!destination) return std::nullopt;

  const bool is_small = sym::known_le(sym::product(program.buffer(kernel.out).sizes), std::numeric_limits<int32_t>::max());
  const auto add_buffer = [&](const char* what, DType dtype, sym::Expr size) {
    return program.add_buffer({.name = kernel.name + what, .dtype = dtype, .sizes = {size}, .strides = {1}});
  };
  const DType dtype = is_small ? DType::I32 : DType::I64;
  const BufferId keys = add_buffer("_keys", dtype, elements), sorted = add_buffer("_sorted", dtype, elements),
                 order = add_buffer("_order", DType::I64, elements);
  sym::Expr place = 0;
  for (sym::Expr axis : threads.serial) place = place * extent(axis) + axis;
  const ExprId value = program.exprs.convert(program.exprs.index(destination->key), dtype);
  Kernel writes;
  writes.name = kernel.name + "_keys";
  writes.outer = threads.serial;
  writes.stages = {Stage{.statements = {Store{keys, place, value}}}};
  writes.writes = {keys};
  writes.provenance = kernel.provenance;
  for (ExprId id : loop::reachable(program.exprs, {value})) {
    const auto* load = std::get_if<loop::Load>(&program.exprs.node(id).op);
    if (load != nullptr && std::find(writes.reads.begin(), writes.reads.end(), load->buffer) == writes.reads.end())
      writes.reads.push_back(load->buffer);
  }
  CallStep sort{.name = kernel.name + "_order",
                .call = {Sort{.dim = 0, .descending = false, .stable = true}, {{keys, {elements}, {1}, 0}}},
                .outputs = {sorted, order},
                .provenance = kernel.provenance};
  kernel.ordered = ScatterKernel::Ordered{sorted, order};
  if (kernel.mode != ScatterMode::Set)
    kernel.ordered->parts = add_buffer("_parts", program.exprs.dtype(kernel.value), parts_of_chunks(program, kernel));
  kernel.reads.insert(kernel.reads.end(), {sorted, order});
  return SortedScatter{std::move(writes), std::move(sort)};
}

}  // namespace toroid::schedule
