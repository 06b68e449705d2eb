#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/nest/nest_printer.h"

namespace toroid::codegen {

using loop::ExprId;
using schedule::Accumulate;
using schedule::is_float_sum;
using schedule::Stage;

DType NestPrinter::accumulator_dtype(size_t i) const {
  const schedule::Accumulator& acc = kernel_.accumulators[i];
  return acc.op == ReduceOp::Any || acc.op == ReduceOp::All ? DType::Bool : acc.dtype;
}

void NestPrinter::note_results_in_f64(const std::vector<ExprId>& values) {
  for (ExprId id : loop::reachable(exprs_, values)) {
    const auto* result = std::get_if<loop::Accumulated>(&exprs_.node(id).op);
    if (result == nullptr || exprs_.dtype(id) != DType::F64) continue;
    const auto i = static_cast<size_t>(result->id);
    if (kernel_.accumulators[i].op == ReduceOp::Sum && kernel_.accumulators[i].dtype == DType::F32) in_f64_.insert(i);
  }
}

std::string NestPrinter::splat_identity(size_t i) const {
  const DType dtype = accumulator_dtype(i);
  const std::string identity = identity_text(kernel_.accumulators[i].op, dtype);
  if (dtype == DType::Bool) return fmt::format("splat_mask<W>({})", identity);
  return fmt::format("splat<{}, W>({})", register_type(dtype), identity);
}

OperandText NestPrinter::accumulator_value(loop::AccumulatorId id) {
  const size_t i = static_cast<size_t>(id);
  if (!along_outer()) return {fmt::format("result{}", i), false, true};
  const std::string name = fmt::format("result{}_{}", i, ++loaded_);
  if (is_arg(kernel_.accumulators[i].op)) {
    body_.line(body_.innermost(),
               fmt::format("const auto {} = convert<int64_t>(load_raw(Full<W>{{}}, best{}_at + ({} - first)));", name, i, vector_name()));
    return {name, true, true};
  }
  const std::string_view of = is_in_f64(i) ? "_total" : "";
  body_.line(body_.innermost(), fmt::format("const auto {} = load_raw(Full<W>{{}}, sum{}{} + ({} - first));", name, i, of, vector_name()));
  return {name, true, true};
}

NestPrinter::Sum NestPrinter::sum_of(const Accumulate& s, const Stage& stage) const {
  const auto i = static_cast<size_t>(s.accumulator);
  const schedule::Accumulator& accumulator = kernel_.accumulators[i];
  const DType dtype = accumulator_dtype(i);
  const bool in_f64 = is_in_f64(i);
  return {.statement = s,
          .stage = stage,
          .i = i,
          .op = accumulator.op,
          .dtype = dtype,
          .name = fmt::format("sum{}", i),
          .result_type = dtype == DType::Bool ? "int32_t" : register_type(in_f64 ? DType::F64 : dtype),
          .in_f64 = in_f64,
          .in_blocks = stage.blocks.steps > 0 && is_float_sum(accumulator),
          .is_rounded = kernel_.form && accumulator.op == ReduceOp::Prod && is_floating(dtype)};
}

NestPrinter::Term NestPrinter::term_of(const Sum& sum) {
  const ExprId value = sum.statement.value;
  const auto product = sum.op == ReduceOp::Sum ? body_.contraction.product(value) : std::nullopt;
  Term term = {body_.value(product ? product->a : value), std::nullopt};
  if (product) term.factor = body_.value(product->b);
  return term;
}

std::string NestPrinter::combined(const Sum& of, const Term& term, const OperandText& sum) const {
  return term.factor ? fused_text(of.dtype, term.value, *term.factor, sum).text : combine_text(of.op, of.dtype, sum, term.value);
}

void NestPrinter::print_accumulate(const Accumulate& s, bool has_vector, const Stage& stage, AroundLoops& around) {
  const Sum sum = sum_of(s, stage);
  if (is_arg(sum.op)) {
    return has_vector ? print_arg_lanes(s, sum.i, sum.op, around.before, around.after) : print_arg(s, sum.i, sum.op, around.before);
  }
  if (!has_vector) return print_accumulate_one(sum, around);
  if (along_outer()) return print_accumulate_columns(sum, around);
  print_accumulate_lanes(sum, around);
}

void NestPrinter::print_accumulate_one(const Sum& sum, AroundLoops& around) {
  if (is_float_sum(kernel_.accumulators[sum.i])) {
    around.before.push_back(fmt::format("double {} = 0.0;", sum.name));
    body_.line(body_.innermost(), fmt::format("{} += {};", sum.name, body_.value(sum.statement.value).text));
    around.after.push_back(fmt::format("const {0} result{1} = {0}({2});", sum.result_type, sum.i, sum.name));
    return;
  }
  const Term term = term_of(sum);
  around.before.push_back(fmt::format("{} {} = {};", register_type(sum.dtype), sum.name, identity_text(sum.op, sum.dtype)));
  body_.line(body_.innermost(), fmt::format("{} = {};", sum.name, combined(sum, term, {sum.name, false, true})));
  around.after.push_back(fmt::format("const {} result{} = {};", register_type(sum.dtype), sum.i,
                                     sum.is_rounded ? fmt::format("rounded({})", sum.name) : sum.name));
}

void NestPrinter::print_accumulate_columns(const Sum& sum, AroundLoops& around) {
  Term term = term_of(sum);
  term.value = in_lanes(term.value, sum.dtype);
  const std::string_view type = sum.dtype == DType::Bool ? "int32_t" : register_type(sum.dtype);
  const bool is_sum = is_float_sum(kernel_.accumulators[sum.i]);
  const int rows_of_sums = is_sum ? sum.stage.turns : 1;
  around.before.push_back(fmt::format("{} {}[{}];", type, sum.name, rows_of_sums * row_of_block_));
  if (goes_through_windows(sum.stage)) {
    const std::string here = sum.name + "_here";
    around.before_vector.push_back(fmt::format("auto {} = {};", here, splat_identity(sum.i)));
    body_.line(body_.innermost(), fmt::format("{} = {};", here, combined(sum, term, {here, true, true})));
    around.after_vector.push_back(
        fmt::format("store_raw<{}, W>(Full<W>{{}}, {} + ({} - first), {});", type, sum.name, vector_name(), here));
    return;
  }
  print_totals_of_columns(sum, rows_of_sums, around);
  const std::string at = fmt::format("{} + {}({} - first)", sum.name, rows_of_sums > 1 ? "turn * kColumns + " : "", vector_name());
  if (is_sum && sum.stage.rows > 1) return print_parts_of_rows(sum, term, at, around);
  const std::string old = fmt::format("load_raw(Full<W>{{}}, {})", at);
  body_.line(body_.innermost(), fmt::format("store_raw<{}, W>(Full<W>{{}}, {}, {});", type, at, combined(sum, term, {old, true, true})));
}

void NestPrinter::print_totals_of_columns(const Sum& sum, int rows_of_sums, AroundLoops& around) {
  const std::string& name = sum.name;
  const bool has_totals = sum.in_blocks || sum.in_f64;
  if (has_totals) {
    around.before.push_back(fmt::format("double {}_total[{}];", name, row_of_block_));
    around.before.push_back(sum.in_blocks ? fmt::format("begin_totals<W, {1}>({0}, {0}_total, last - first);", name, rows_of_sums)
                                          : fmt::format("begin_sums<W, {1}>({0}, last - first);", name, rows_of_sums));
  }
  if (sum.in_blocks) {
    // Between blocks; of a loop inside others each block follows another one.
    const std::string between = kernel_.inner.size() > 1 ? "" : "if (from > 0) ";
    around.before_block.push_back(fmt::format("{0}add_to_totals<W, {2}>({1}, {1}_total, last - first);", between, name, rows_of_sums));
  }
  if (has_totals) {
    const std::string_view end = !sum.in_blocks ? "set_totals" : sum.in_f64 ? "complete_totals" : "take_totals";
    around.after.push_back(fmt::format("{0}<W, {2}>({1}, {1}_total, last - first);", end, name, rows_of_sums));
  } else if (is_float_sum(kernel_.accumulators[sum.i])) {
    around.before.push_back(fmt::format("begin_sums<W, {1}>({0}, last - first);", name, rows_of_sums));
    if (rows_of_sums > 1) around.after.push_back(fmt::format("take_turns<W, {1}>({0}, last - first);", name, rows_of_sums));
  } else {
    around.before.push_back(
        fmt::format("for (int64_t l = 0; l < last - first; l += W) store_raw(Full<W>{{}}, {} + l, {});", name, splat_identity(sum.i)));
  }
}

void NestPrinter::print_parts_of_rows(const Sum& sum, const Term& term, const std::string& at, AroundLoops& around) {
  const std::string parts = sum.name + "_parts";
  const std::string_view type = register_type(sum.dtype);
  const int count = parts_of_rows(sum.stage);
  around.before.push_back(fmt::format("{} {}[{}] = {{}};", lane_type(sum.dtype), parts, count));
  body_.line(body_.innermost(), fmt::format("{0}[part] = {1};", parts, combined(sum, term, {parts + "[part]", true, true})));
  const std::string result = count == 1 ? parts + "[0]" : fmt::format("({0}[0] + {0}[1])", parts);
  const std::string keep =
      has_turns_of_parts(sum.stage)
          ? fmt::format("for (int n = 0; n < {}; ++n) store_raw<{}, W>(Full<W>{{}}, {} + n * kColumns + ({} - first), {}[n]);", count, type,
                        sum.name, vector_name(), parts)
          : fmt::format("store_raw<{}, W>(Full<W>{{}}, {}, load_raw(Full<W>{{}}, {}) + {});", type, at, at, result);
  around.after_rows.push_back(keep);
  around.after_rows.push_back(fmt::format("for (auto& each : {}) each = {};", parts, splat_identity(sum.i)));
}

void NestPrinter::print_accumulate_lanes(const Sum& sum, AroundLoops& around) {
  Term term = term_of(sum);
  term.value = in_lanes(term.value, sum.dtype);
  const std::string& name = sum.name;
  // The result of a stage that may be left out is there without it.
  if (sum.stage.condition) {
    around.before.push_back(
        fmt::format("{} result{} = {};", sum.result_type, sum.i, identity_text(sum.op, sum.in_f64 ? DType::F64 : sum.dtype)));
  }
  const std::string lambda =
      fmt::format("[](auto a, auto b) INLINE_BODY {{ return {}; }}", combine_text(sum.op, sum.dtype, {"a", true, true}, {"b", true, true}));
  const int turns = sum.stage.turns;
  std::vector<std::string>& before_block = sum.in_blocks ? around.before_block : around.before;
  std::string at = name;
  if (turns > 1) {
    before_block.push_back(fmt::format("{} {}s[{}];", lane_type(sum.dtype), name, turns));
    before_block.push_back(fmt::format("for (auto& each : {}s) each = {};", name, splat_identity(sum.i)));
    if (!sum.in_blocks && !sum.in_f64) around.after.push_back(fmt::format("const auto {0} = fold_turns({0}s, {1});", name, lambda));
    at = name + "s[turn]";
  } else {
    before_block.push_back(fmt::format("{} {} = {};", lane_type(sum.dtype), name, splat_identity(sum.i)));
  }
  const std::string next = combined(sum, term, {at, true, true});
  if (sum.dtype == DType::Bool) {
    body_.line(body_.innermost(), fmt::format("{0} = ((active(lanes) & ({1})) | (~active(lanes) & {0}));", at, next));
    const bool wants_one = sum.op == ReduceOp::Any || sum.op == ReduceOp::Max;
    around.after.push_back(fmt::format("const bool result{} = {}({});", sum.i, wants_one ? "any_lane" : "all_lanes", name));
    return;
  }
  body_.line(body_.innermost(), fmt::format("{0} = select(active(lanes), {1}, {0});", at, next));
  print_fold_of_lanes(sum, lambda, around);
}

void NestPrinter::print_fold_of_lanes(const Sum& sum, const std::string& lambda, AroundLoops& around) {
  const std::string declared = sum.stage.condition ? "" : fmt::format("const {} ", sum.result_type);
  const std::string of_turns = sum.stage.turns > 1 ? fmt::format("fold_turns({}s, {})", sum.name, lambda) : sum.name;
  if (sum.in_f64 && !sum.in_blocks) {  // one block
    const bool in_double = kernel_.accumulators[sum.i].care == loop::SumCare::Finest;
    const std::string folded =
        in_double ? fmt::format("fold_in_double({})", of_turns) : fmt::format("double(fold({}, {}))", of_turns, lambda);
    around.after.push_back(fmt::format("{}result{} = {};", declared, sum.i, folded));
    return;
  }
  if (sum.in_blocks) {
    around.before.push_back(fmt::format("Total<W> {}_total;", sum.name));
    around.after_block.push_back(fmt::format("add_to({}_total, {});", sum.name, of_turns));
    around.after.push_back(fmt::format("{3}result{1} = {0}(sum_of({2}_total));", sum.result_type, sum.i, sum.name, declared));
    return;
  }
  const std::string folded = fmt::format("fold({}, {})", sum.name, lambda);
  around.after.push_back(fmt::format("{}result{} = {};", declared, sum.i, sum.is_rounded ? fmt::format("rounded({})", folded) : folded));
}

void NestPrinter::print_arg(const Accumulate& s, size_t i, ReduceOp op, std::vector<std::string>& before) {
  const OperandText value = body_.value(s.value);
  const DType dtype = kernel_.accumulators[i].dtype;
  before.push_back(fmt::format("int64_t result{} = -1;", i));
  before.push_back(fmt::format("{} best{} = 0;", register_type(dtype), i));
  const std::string better = op == ReduceOp::ArgMax ? ">" : "<";
  std::string test = fmt::format("result{0} < 0 || {1} {2} best{0}", i, value.text, better);
  if (is_floating(dtype)) test += fmt::format(" || ({0} != {0} && best{1} == best{1})", value.text, i);
  body_.line(body_.innermost(), fmt::format("if ({}) {{", test));
  body_.line(body_.innermost(), fmt::format("  result{} = {};", i, body_.index(s.position)));
  body_.line(body_.innermost(), fmt::format("  best{} = {};", i, value.text));
  body_.line(body_.innermost(), "}");
}

std::string_view NestPrinter::position_type() const {
  sym::Expr count = 1;
  for (sym::Expr axis : kernel_.inner) count = count * extent(axis);
  return sym::known_lt(count, int64_t{1} << 31) ? "int32_t" : "int64_t";
}

void NestPrinter::print_arg_lanes(const Accumulate& s, size_t i, ReduceOp op, std::vector<std::string>& before,
                                  std::vector<std::string>& after) {
  const DType dtype = kernel_.accumulators[i].dtype;
  const OperandText value = in_lanes(body_.value(s.value), dtype);
  const std::string_view type = register_type(dtype);
  const std::string_view count = position_type();
  const std::string_view greatest = op == ReduceOp::ArgMax ? "true" : "false";
  const size_t innermost = body_.innermost();
  const std::string position = fmt::format("splat<{}, W>({})", count, body_.index(s.position));
  if (along_outer()) {
    before.push_back(fmt::format("{0} best{1}[{2}]; {3} best{1}_at[{2}];", type, i, row_of_block_, count));
    before.push_back(
        fmt::format("for (int64_t l = 0; l < last - first; l += W) store_raw(Full<W>{{}}, best{0} + l, vec<{1}, W>{{}}), "
                    "store_raw(Full<W>{{}}, best{0}_at + l, ~vec<{2}, W>{{}});",
                    i, type, count));
    body_.line(innermost, fmt::format("const int64_t best{}_lane = {} - first;", i, vector_name()));
    body_.line(innermost, fmt::format("auto best{0}_now = load_raw(Full<W>{{}}, best{0} + best{0}_lane);", i));
    body_.line(innermost, fmt::format("auto best{0}_now_at = load_raw(Full<W>{{}}, best{0}_at + best{0}_lane);", i));
    body_.line(innermost,
               fmt::format("keep_extremum<{0}>(active(lanes), {1}, {2}, best{3}_now, best{3}_now_at);", greatest, value.text, position, i));
    body_.line(innermost, fmt::format("store_raw<{1}, W>(Full<W>{{}}, best{0} + best{0}_lane, best{0}_now);", i, type));
    body_.line(innermost, fmt::format("store_raw<{1}, W>(Full<W>{{}}, best{0}_at + best{0}_lane, best{0}_now_at);", i, count));
    return;
  }
  before.push_back(fmt::format("vec<{0}, W> best{1} = {{}}; vec<{2}, W> best{1}_at = ~vec<{2}, W>{{}};", type, i, count));
  body_.line(innermost, fmt::format("keep_extremum<{0}>(active(lanes), {1}, {2} + ramp<{3}, W>(), best{4}, best{4}_at);", greatest,
                                    value.text, position, count, i));
  after.push_back(fmt::format("const int64_t result{0} = fold_position<{1}>(best{0}, best{0}_at);", i, greatest));
}

}  // namespace toroid::codegen
