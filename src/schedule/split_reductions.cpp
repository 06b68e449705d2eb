// sum of 4 million elements  =>  64 sums of 65,536 elements in parallel, then a sum of 64.
//
// The number of blocks depends on the sizes alone, never on the number of threads, so results are reproducible.
#include "schedule/group.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kFewRows = 8;
constexpr int64_t kLargeRow = 1 << 16;
constexpr int64_t kBlocks = 64;

bool can_split(ReduceOp op) { return op != ReduceOp::ArgMin && op != ReduceOp::ArgMax && op != ReduceOp::Welford; }

double neutral(ReduceOp op) {
  switch (op) {
    case ReduceOp::Prod: case ReduceOp::All: return 1;
    case ReduceOp::Min: return std::numeric_limits<double>::infinity();
    case ReduceOp::Max: return -std::numeric_limits<double>::infinity();
    default: return 0;
  }
}

}  // namespace

void split_large_reductions(loop::LoopProgram& program) {
  std::vector<loop::Computation> result;
  for (loop::Computation& computation : program.computations) {
    const auto* reduction = std::get_if<loop::Reduction>(&computation.work);
    sym::Expr rows = 1;
    sym::Expr row = 1;
    if (reduction != nullptr) {
      for (sym::Expr axis : reduction->axes) rows = rows * (axis.is_const() ? sym::Expr(1) : *axis.node()->extent);
      for (sym::Expr axis : reduction->reduce_axes) row = row * (axis.is_const() ? sym::Expr(1) : *axis.node()->extent);
    }
    const DType dtype = reduction != nullptr ? program.exprs.dtype(reduction->value) : DType::F32;
    const bool bounded = reduction != nullptr && (is_floating(dtype) || reduction->op == ReduceOp::Sum ||
                                                  reduction->op == ReduceOp::Any || reduction->op == ReduceOp::All);
    if (reduction == nullptr || !can_split(reduction->op) || !bounded || sym::evaluate_hint(rows) >= kFewRows ||
        sym::evaluate_hint(row) < kLargeRow) {
      result.push_back(std::move(computation));
      continue;
    }
    sym::Context& symbols = program.exprs.symbols();
    const sym::Expr block_size = sym::ceil_div(row, kBlocks);
    const sym::Expr block = symbols.axis(kBlocks, "b");
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
    if (!sym::known_divisible(row, kBlocks)) {
      const loop::ExprId inside = program.exprs.convert(program.exprs.index(sym::lt(position, row)), DType::Bool);
      value = program.exprs.masked(inside, value, program.exprs.literal(Scalar(neutral(reduction->op)), dtype));
    }
    const loop::Buffer out = program.buffer(computation.outputs[0]);
    loop::Buffer partial{.name = out.name + "_partial", .dtype = dtype, .sizes = out.sizes, .strides = {}};
    if (out.kind == loop::BufferKind::Prepared) partial.kind = out.kind;
    partial.sizes.push_back(kBlocks);
    partial.strides = contiguous_strides(partial.sizes);
    const loop::BufferId partial_id = program.add_buffer(partial);
    std::vector<sym::Expr> partial_axes = reduction->axes;
    partial_axes.push_back(block);
    result.push_back({loop::Reduction{partial_axes, {within}, reduction->op, value}, {partial_id}, computation.name,
                      computation.provenance});
    sym::Substitution fresh;
    std::vector<sym::Expr> final_axes;
    for (sym::Expr axis : reduction->axes) {
      final_axes.push_back(axis.is_const() ? axis : symbols.axis(*axis.node()->extent, "i"));
    }
    const sym::Expr last = symbols.axis(kBlocks, "r");
    std::vector<sym::Expr> index = final_axes;
    index.push_back(last);
    result.push_back({loop::Reduction{final_axes, {last}, reduction->op, program.exprs.load(partial_id, index, dtype)},
                      computation.outputs, computation.name + "_blocks", computation.provenance});
  }
  program.computations = std::move(result);
}

}  // namespace toroid::schedule
