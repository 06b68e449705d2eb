// sum of 4 million elements         =>  64 sums of 65,536 elements in parallel, then a sum of 64
// sums of a million rows of ten     =>  64 times ten sums of 15,625 rows in parallel, then ten sums of 64
//
// The number of blocks depends on the sizes alone, never on the number of threads, so results are reproducible. The blocks' totals and
// their sum are in double.
#include <algorithm>

#include "schedule/axes.h"
#include "schedule/cpu/loops.h"
#include "schedule/fusion/group.h"

namespace toroid::schedule {
namespace {

// Of columns: so many are one task, and a block has at least so many rows.
constexpr int64_t kBlocks = 64;
constexpr int64_t kColumnsOfTask = 512, kFewTasks = 16, kLargeTable = 1 << 20, kLeastRows = 256;
constexpr int64_t kFewBlocks = 4, kMostBlocks = 256, kLeastRowsOfBlock = 128;  // of columns that fill a device

bool can_split(ReduceOp op) { return op != ReduceOp::ArgMin && op != ReduceOp::ArgMax && op != ReduceOp::MeanM2; }

double neutral(ReduceOp op) {
  switch (op) {
    case ReduceOp::Prod:
    case ReduceOp::All: return 1;
    case ReduceOp::Min: return std::numeric_limits<double>::infinity();
    case ReduceOp::Max: return -std::numeric_limits<double>::infinity();
    default: return 0;
  }
}

// Do the reduced elements lie beside each other in no tensor that is read, but those of neighbouring results in some? Lanes then run along
// the results. `but_repeated`: what all results read, a number of each row, is no such tensor.
bool is_of_columns(const loop::LoopProgram& program, const loop::Reduction& reduction, bool but_repeated) {
  bool along_results = false;
  for (loop::ExprId id : loop::reachable(program.exprs, {reduction.value})) {
    const auto* load = std::get_if<loop::Load>(&program.exprs.node(id).op);
    if (load == nullptr) continue;
    const sym::Expr position = position_of(program.buffer(load->buffer), load->index);
    auto lie_along = [&](sym::Expr axis) { return !axis.is_const() && is_contiguous(position, axis); };
    const auto differs = [&](sym::Expr axis) { return !axis.is_const() && sym::depends_on(position, axis); };
    if (but_repeated && std::none_of(reduction.axes.begin(), reduction.axes.end(), differs)) continue;
    if (std::any_of(reduction.reduce_axes.begin(), reduction.reduce_axes.end(), lie_along)) return false;
    along_results = along_results || std::any_of(reduction.axes.begin(), reduction.axes.end(), lie_along);
  }
  return along_results;
}

// 1: it stays whole.
int64_t block_count(const loop::Reduction& reduction, bool of_columns, const SplitRule& rule) {
  const int64_t results = sym::evaluate_hint(product_of_extents(reduction.axes)),
                row = sym::evaluate_hint(product_of_extents(reduction.reduce_axes));
  if (!of_columns) {
    if (results >= rule.few_results || row < rule.large_row) return 1;
    return rule.blocks_of_all ? rule.blocks / std::max<int64_t>(results, 1) : rule.blocks;
  }
  if (rule.columns > 0) {
    if (row < kLeastRowsOfBlock || results < kLargeTable / row) return 1;
    const int64_t blocks = std::min({rule.columns / std::max<int64_t>(results, 1), row / kLeastRowsOfBlock, kMostBlocks});
    return blocks < kFewBlocks ? 1 : blocks;
  }
  const int64_t tasks = (results + kColumnsOfTask - 1) / kColumnsOfTask;
  if (tasks >= kFewTasks || row < 4 * kLeastRows || results < kLargeTable / row) return 1;
  return std::min(kBlocks / std::max<int64_t>(tasks, 1), row / kLeastRows);
}

// About as many blocks as that, of equal size where that can be: those of unequal size need a mask.
int64_t equal_blocks(sym::Expr row, int64_t blocks) {
  if (!row.is_const()) return blocks;
  for (int64_t count = blocks; 2 * count > blocks; --count) {
    if (row.value() % count == 0) return count;
  }
  return blocks;
}

}  // namespace

void split_large_reductions(loop::LoopProgram& program, const SplitRule& rule) {
  std::vector<loop::Computation> result;
  for (loop::Computation& computation : program.computations) {
    const bool is_other = rule.on_host && *rule.on_host != loop::is_on_host(program, computation);
    const auto* reduction = is_other ? nullptr : std::get_if<loop::Reduction>(&computation.work);
    const DType dtype = reduction != nullptr ? program.exprs.dtype(reduction->value) : DType::F32;
    const bool bounded = reduction != nullptr && (is_floating(dtype) || reduction->op == ReduceOp::Sum || reduction->op == ReduceOp::Any ||
                                                  reduction->op == ReduceOp::All);
    const bool of_columns = bounded && can_split(reduction->op) && is_of_columns(program, *reduction, rule.columns > 0);
    const int64_t wanted = bounded && can_split(reduction->op) ? block_count(*reduction, of_columns, rule) : 1;
    if (wanted < 2) {
      result.push_back(std::move(computation));
      continue;
    }
    sym::Context& symbols = program.exprs.symbols();
    const sym::Expr row = product_of_extents(reduction->reduce_axes);
    const int64_t blocks = equal_blocks(row, wanted);
    const sym::Expr block_size = sym::ceil_div(row, blocks);
    const sym::Expr block = symbols.axis(blocks, "b");
    const sym::Expr within = symbols.axis(block_size, "r");
    const sym::Expr position = block * block_size + within;
    sym::Substitution axes;
    sym::Expr stride = 1;
    for (size_t d = reduction->reduce_axes.size(); d-- > 0;) {
      const sym::Expr axis = reduction->reduce_axes[d];
      const sym::Expr quotient = sym::floor_div(position, stride);
      axes.emplace_back(axis, d == 0 ? quotient : sym::mod(quotient, *axis.node()->extent));
      stride = stride * *axis.node()->extent;
    }
    loop::ExprId value = program.exprs.substitute(reduction->value, axes);
    if (!sym::known_divisible(row, blocks)) {
      const loop::ExprId inside = program.exprs.convert(program.exprs.index(sym::lt(position, row)), DType::Bool);
      value = program.exprs.masked(inside, value, program.exprs.literal(Scalar(neutral(reduction->op)), dtype));
    }
    const loop::Buffer out = program.buffer(computation.outputs[0]);
    auto new_buffer = [&](const char* suffix, DType type, std::vector<sym::Expr> sizes) {
      loop::Buffer buffer{.name = out.name + suffix, .dtype = type, .sizes = std::move(sizes), .strides = {}, .on_host = out.on_host};
      if (out.kind == loop::BufferKind::Prepared) buffer.kind = out.kind;
      buffer.strides = contiguous_strides(buffer.sizes);
      return program.add_buffer(buffer);
    };
    // The blocks of a row beside each other, or the columns of a block.
    const auto at = [&](std::vector<sym::Expr> list, sym::Expr each) {
      list.insert(of_columns ? list.begin() : list.end(), each);
      return list;
    };
    const bool has_totals = reduction->op == ReduceOp::Sum && dtype == DType::F32;
    const DType of_parts = has_totals ? DType::F64 : dtype;
    const loop::BufferId partial = new_buffer("_partial", of_parts, at(out.sizes, blocks));
    const auto reduced = [&](std::vector<sym::Expr> over, sym::Expr each, loop::ExprId terms) {
      return loop::Reduction{std::move(over), {each}, reduction->op, terms, reduction->care};
    };
    result.push_back({reduced(at(reduction->axes, block), within, value), {partial}, computation.name, computation.provenance});
    auto fresh_axes = [&] {
      std::vector<sym::Expr> fresh;
      for (sym::Expr axis : reduction->axes) fresh.push_back(axis.is_const() ? axis : symbols.axis(*axis.node()->extent, "i"));
      return fresh;
    };
    const sym::Expr last = symbols.axis(blocks, "r");
    const std::vector<sym::Expr> final_axes = fresh_axes();
    const loop::ExprId part = program.exprs.load(partial, at(final_axes, last), of_parts);
    const std::string name = computation.name + "_blocks";
    if (!has_totals || out.dtype == DType::F64) {
      result.push_back({reduced(final_axes, last, part), computation.outputs, name, computation.provenance});
      continue;
    }
    const loop::BufferId total = new_buffer("_total", DType::F64, out.sizes);
    result.push_back({reduced(final_axes, last, part), {total}, name, computation.provenance});
    const std::vector<sym::Expr> map_axes = fresh_axes();
    result.push_back({loop::Map{map_axes, program.exprs.convert(program.exprs.load(total, map_axes, DType::F64), DType::F32)},
                      computation.outputs, name, computation.provenance});
  }
  program.computations = std::move(result);
}

}  // namespace toroid::schedule
