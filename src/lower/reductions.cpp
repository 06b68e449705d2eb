// Reductions, means with squared deviations, and scans.
#include "lower/lowering.h"

#include <algorithm>

#include "lower/cost.h"
#include "lower/one_hot.h"

namespace toroid {

// A reduction over the one dim that trailing dims were flattened to is a reduction over those, whose indices need no division. Not
// where something else reads the flat form too: what names positions in it is then in the same loop.
std::pair<ValueId, std::vector<int>> Lowering::unflattened(ValueId input, const Reduce& op) const {
  const Node& view = graph_.producer(input);
  const auto last = static_cast<int>(sizes(input).size()) - 1;
  const bool names_positions = op.op == ReduceOp::ArgMin || op.op == ReduceOp::ArgMax;
  if (names_positions || !std::holds_alternative<Reshape>(view.op) || uses_[static_cast<size_t>(input)] != 1 ||
      op.dims != std::vector{last}) {
    return {input, op.dims};
  }
  const auto& source = sizes(view.inputs[0]);
  const auto leading = static_cast<size_t>(last);
  if (source.size() <= leading + 1 || !std::equal(source.begin(), source.begin() + last, sizes(input).begin())) return {input, op.dims};
  std::vector<int> dims;
  for (size_t d = leading; d < source.size(); ++d) dims.push_back(static_cast<int>(d));
  return {view.inputs[0], dims};
}

void Lowering::lower_reduce(const Node& node, const Reduce& op) {
  constexpr int64_t kFewResults = 128;  // fewer do not fill a device
  const auto [input, dims] = unflattened(node.inputs[0], op);
  std::vector<sym::Expr> index;
  std::vector<sym::Expr> axes;
  std::vector<sym::Expr> reduce_axes;
  sym::Expr count = 1;
  for (size_t d = 0; d < sizes(input).size(); ++d) {
    const sym::Expr size = sizes(input)[d];
    const bool reduced = std::binary_search(dims.begin(), dims.end(), static_cast<int>(d));
    if (size.is_const(1)) {
      index.push_back(0);
    } else {
      index.push_back(program_.symbols->axis(size, reduced ? "r" : "i"));
      if (reduced) reduce_axes.push_back(index.back());
    }
    if (reduced) {
      count = count * size;
    } else {
      axes.push_back(index.back());
    }
  }
  if (options_.gathers_before_reductions && sym::evaluate_hint(graph_.type(node.outputs[0]).numel()) < kFewResults &&
      !lowered(input).buffer && is_gathered(exprs(), lowered(input).value)) {
    realise(input);
  }
  const ExprId value = at(input, index);
  const std::vector<ProvenanceId> provenance = merged_provenance(node);
  if (reduce_axes.empty()) {  // over dims of size 1 only: nothing to combine
    const bool is_arg = op.op == ReduceOp::ArgMin || op.op == ReduceOp::ArgMax;
    const ExprId only = is_arg ? value : exprs().convert(value, dtype(node.outputs[0]));
    define(node.outputs[0], axes, is_arg ? exprs().literal(Scalar(sym::Expr(0)), DType::I64) : only, provenance);
    if (op.op == ReduceOp::MeanM2) define(node.outputs[1], axes, exprs().compute(ScalarOp::Sub, {only, only}), provenance);
    return;
  }
  if (op.op == ReduceOp::Sum && reduce_axes.size() == 1) {
    if (const auto one = sum_of_one_hot(exprs(), value, reduce_axes[0])) {
      define(node.outputs[0], axes, exprs().convert(*one, dtype(node.outputs[0])), provenance);
      return realise_if_worth_it(node.outputs[0]);
    }
  }
  if (op.op != ReduceOp::MeanM2) {
    const BufferId out = new_buffer(node.outputs[0]);
    add_computation(loop::Reduction{axes, reduce_axes, op.op, value}, {out}, provenance);
    define_buffer(node.outputs[0], out);
    return;
  }
  // Mean and squared deviations in two passes over the row, corrected (Chan, Golub and LeVeque, 1983): as careful as MeanM2's update, and
  // free of its divisions. With m the first pass's mean, rounded, and d = x - m,
  //
  //   mean = m + sum d / n      squares = sum d^2 - (sum d)^2 / n
  //
  // The correction is as small as m's error. It makes the mean of equal numbers that number, and their squares 0. It is needed only where
  // rows lie far from zero, |m| at least eight times their deviation: elsewhere m's error is far below theirs, and the third pass finds
  // nothing to do.
  //
  // The third pass also squares anew what has no square in F32: where sums are very large or small, deviations are scaled by a power of 2.
  // Results in F32 do without, as PyTorch's layer norms do.
  //
  // What follows from sums alone is in the results' dtype, which may be F64 where the row is F32; elements meet m in their own.
  const DType type = exprs().dtype(value), wide = dtype(node.outputs[0]);
  const auto kept = [&](const char* suffix, DType as, loop::Work work) {
    const BufferId buffer =
        prepared_if_constant(node.outputs[0], new_buffer(graph_.value(node.outputs[0]).name + suffix, as, sizes(node.outputs[0])));
    add_computation(std::move(work), {buffer}, provenance);
    return exprs().load(buffer, axes, as);
  };
  const auto sum_of = [&](const char* suffix, ExprId terms, loop::SumCare care) {
    return kept(suffix, wide, loop::Reduction{axes, reduce_axes, ReduceOp::Sum, terms, care});
  };
  const auto times = [&](ExprId a, ExprId b) { return exprs().compute(ScalarOp::Mul, {a, b}); };
  const auto number = [&](Scalar each) { return exprs().literal(each, wide); };
  const ExprId elements = number(Scalar(count)), zero = number(Scalar(0.0));
  const ExprId rough_mean =
      kept("_rough", type,
           loop::Map{axes, exprs().convert(exprs().compute(ScalarOp::Div, {sum_of("_sum", value, loop::SumCare::Fine), elements}), type)});
  const ExprId deviation = exprs().compute(ScalarOp::Sub, {value, rough_mean}), centre = exprs().convert(rough_mean, wide);
  const ExprId squares = sum_of("_squares", times(deviation, deviation), loop::SumCare::Finest);
  const ExprId is_far = exprs().compute(ScalarOp::Ge, {exprs().convert(times(times(centre, centre), elements), type),
                                                       exprs().convert(times(squares, number(Scalar(64.0))), type)});
  const auto chosen = [&](ExprId condition, ExprId then, ExprId otherwise) {
    return exprs().compute(ScalarOp::Where, {condition, then, otherwise});
  };
  const auto where_needed = [&](ExprId condition, ExprId correction) {
    return chosen(condition, correction, exprs().literal(Scalar(0.0), exprs().dtype(correction)));
  };
  ExprId drift{}, needs = is_far, all_squares = squares;
  if (type == DType::F32 && wide == DType::F64) {
    const ExprId is_large = exprs().compute(ScalarOp::Ge, {squares, number(Scalar(0x1p100))});
    const ExprId is_small = exprs().compute(ScalarOp::Lt, {squares, times(elements, number(Scalar(0x1p-100)))});
    const auto factor = [&](double large, double small, DType as) {
      const auto literal = [&](double each) { return exprs().literal(Scalar(each), as); };
      return chosen(is_large, literal(large), chosen(is_small, literal(small), literal(1.0)));
    };
    needs = exprs().compute(ScalarOp::BitOr, {is_far, exprs().compute(ScalarOp::BitOr, {is_large, is_small})});
    const ExprId scaled = times(deviation, factor(0x1p-80, 0x1p80, type)), back = factor(0x1p80, 0x1p-80, wide);
    drift = times(sum_of("_drift", where_needed(needs, scaled), loop::SumCare::Finest), back);
    const ExprId again = sum_of("_again", where_needed(needs, times(scaled, scaled)), loop::SumCare::Finest);
    all_squares = chosen(needs, times(again, times(back, back)), squares);
  } else {
    drift = sum_of("_drift", where_needed(is_far, deviation), loop::SumCare::Fine);
  }
  const ExprId shift = where_needed(needs, exprs().compute(ScalarOp::Div, {drift, elements}));
  const ExprId corrected = exprs().compute(ScalarOp::Sub, {all_squares, times(drift, shift)});
  define(node.outputs[0], axes, exprs().compute(ScalarOp::Add, {centre, shift}), provenance);
  define(node.outputs[1], axes, exprs().compute(ScalarOp::Max, {corrected, zero}), provenance);
  for (ValueId output : node.outputs) realise(output);  // once a row, also where other kernels read them
}

void Lowering::lower_scan(const Node& node, const Scan& op) {
  const ValueId input = node.inputs[0];
  std::vector<sym::Expr> axes;
  for (sym::Expr size : sizes(input)) axes.push_back(program_.symbols->axis(size, "i"));
  if (axes.empty()) axes.push_back(program_.symbols->axis(1, "i"));
  const ExprId value = at(input, sizes(input).empty() ? std::vector<sym::Expr>{} : axes);
  std::vector<BufferId> outputs;
  for (ValueId output : node.outputs) outputs.push_back(new_buffer(output));
  add_computation(loop::ScanLoop{axes, static_cast<size_t>(op.dim), op.op, value}, outputs, merged_provenance(node));
  for (size_t i = 0; i < outputs.size(); ++i) define_buffer(node.outputs[i], outputs[i]);
}

}  // namespace toroid
