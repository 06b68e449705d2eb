#include "schedule/cuda/sorted_scatter.h"

#include <algorithm>
#include <unordered_set>

#include "schedule/cpu/form_estimate.h"
#include "schedule/cpu/loops.h"
#include "schedule/cuda/cuda_grid.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kWorthSorting = 512;             // elements that a thread would go through
constexpr int64_t kMostSorted = int64_t{1} << 29;  // that are sorted
constexpr int64_t kMost16 = int64_t{1} << 16, kMost32 = int64_t{1} << 31;

// Destinations that lie beside each other, and how many such there are: the elements of the last dims, of which a key is always a multiple.
struct Units {
  int64_t size;
  sym::Expr count;
};
Units units_of(std::span<const sym::Expr> sizes, sym::Expr key) {
  Units result{1, sym::product(sizes)};
  for (size_t d = sizes.size(); d-- > 1;) {
    if (!sizes[d].is_const() || sizes[d].value() <= 0) break;
    const int64_t size = result.size * sizes[d].value();
    if (!sym::known_divisible(key, size)) break;
    result = {size, sym::product(sizes.first(d))};
  }
  return result;
}

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

std::optional<SortedScatter> sort_destinations(loop::LoopProgram& program, ScatterKernel& kernel, int vector) {
  const ScatterThreads threads = scatter_threads(program, kernel);
  const sym::Expr elements = product_of_extents(threads.serial);
  if (threads.serial.empty() || sym::evaluate_hint(elements) < kWorthSorting || !sym::known_le(elements, kMostSorted)) return std::nullopt;
  const std::optional<Destination> destination = destination_of(program, kernel);
  if (!destination) return std::nullopt;

  const Units units = units_of(program.buffer(kernel.out).sizes, destination->key);
  const auto add_buffer = [&](const char* what, DType dtype, sym::Expr size) {
    return program.add_buffer({.name = kernel.name + what, .dtype = dtype, .sizes = {size}, .strides = {1}});
  };
  const DType dtype = sym::known_le(units.count, kMost16) ? DType::I16 : sym::known_le(units.count, kMost32) ? DType::I32 : DType::I64;
  const int64_t bias = dtype == DType::I16 && !sym::known_le(units.count, kMost16 / 2) ? kMost16 / 2 : 0;
  const BufferId keys = add_buffer("_keys", dtype, elements), sorted = add_buffer("_sorted", dtype, elements),
                 order = add_buffer("_order", DType::I64, elements);
  sym::Expr place = 0;
  for (sym::Expr axis : threads.serial) place = place * extent(axis) + axis;
  const sym::Expr key = (units.size == 1 ? destination->key : sym::floor_div(destination->key, units.size)) - bias;
  const ExprId value = program.exprs.convert(program.exprs.index(key), dtype);
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
  kernel.ordered = ScatterKernel::Ordered{.keys = sorted, .elements = order, .unit = units.size, .bias = bias};
  const auto fits = [&](int neighbours) {
    const auto linear = sym::linear_in(destination->within, threads.parallel.back());
    return units.size % neighbours == 0 && linear && linear->coefficient.is_const(1) && sym::known_divisible(linear->rest, neighbours);
  };
  if (kernel.mode != ScatterMode::Set && !threads.parallel.empty()) {
    while (vector > 1 && !fits(vector)) vector /= 2;
    kernel.ordered->vector = vector;
  }
  if (kernel.mode != ScatterMode::Set)
    kernel.ordered->parts = add_buffer("_parts", program.exprs.dtype(kernel.value), parts_of_chunks(program, kernel));
  kernel.reads.insert(kernel.reads.end(), {sorted, order});
  return SortedScatter{std::move(writes), std::move(sort)};
}

void fill_result(const loop::LoopProgram& program, ScatterKernel& kernel, std::span<const Step> writers) {
  if (!kernel.ordered) return;
  for (const Step& step : writers) {
    const auto* writer = std::get_if<Kernel>(&step);
    if (writer == nullptr || writer->writes != std::vector<BufferId>{kernel.base} || !writer->inner.empty() || !writer->finish.empty())
      continue;
    if (writer->stages.size() != 1 || writer->stages[0].statements.size() != 1) return;
    const auto* store = std::get_if<Store>(&writer->stages[0].statements[0]);
    if (store == nullptr || !std::holds_alternative<loop::Literal>(program.exprs.node(store->value).op)) return;
    std::erase(kernel.reads, kernel.base);
    kernel.ordered->fill = store->value;
    kernel.base = kernel.out;
    return;
  }
}

bool round_result(const loop::LoopProgram& program, ScatterKernel& scatter, const Step& next) {
  const auto* kernel = std::get_if<Kernel>(&next);
  if (!scatter.ordered || !scatter.ordered->fill || !scatter.ordered->parts || kernel == nullptr || !kernel->finish.empty()) return false;
  if (kernel->reads != std::vector<BufferId>{scatter.out} || kernel->writes.size() != 1 || kernel->stages.size() != 1) return false;
  const auto* store = std::get_if<Store>(&kernel->stages[0].statements[0]);
  const auto* load = store == nullptr ? nullptr : std::get_if<loop::Load>(&program.exprs.node(store->value).op);
  const loop::Buffer &from = program.buffer(scatter.out), &to = program.buffer(kernel->writes[0]);
  if (load == nullptr || kernel->stages[0].statements.size() != 1 || load->index != std::vector<sym::Expr>{store->position}) return false;
  if (from.kind != loop::BufferKind::Temporary || from.sizes != to.sizes || !is_reduced_float(to.dtype) || from.dtype != DType::F32)
    return false;
  if (product_of_extents(kernel->outer) != sym::product(to.sizes)) return false;
  scatter.out = scatter.base = kernel->writes[0];
  scatter.ordered->rounds_once = true;
  return true;
}

void leave_out_unread_fills(const loop::LoopProgram& program, Schedule& schedule) {
  std::unordered_set<BufferId> read;
  for (const auto* steps : {&schedule.prepare, &schedule.steps}) {
    for (const Step& step : *steps) {
      for (BufferId id : reads_of(step)) read.insert(id);
    }
  }
  const auto is_unread_fill = [&](const Step& step) {
    const auto* kernel = std::get_if<Kernel>(&step);
    if (kernel == nullptr || !kernel->reads.empty() || kernel->writes.size() != 1) return false;
    const loop::BufferKind kind = program.buffer(kernel->writes[0]).kind;
    return (kind == loop::BufferKind::Prepared || kind == loop::BufferKind::Temporary) && !read.contains(kernel->writes[0]);
  };
  std::erase_if(schedule.prepare, is_unread_fill);
  std::erase_if(schedule.steps, is_unread_fill);
}

}  // namespace toroid::schedule
