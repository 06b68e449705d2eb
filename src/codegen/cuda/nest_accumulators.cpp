// What the threads of a row add, and how they combine it.
#include "codegen/cuda/nest_printer.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/scalar_text.h"

namespace toroid::codegen::cuda {

// Sums that are to be exact are in double, but for the few elements that a thread has in registers.
DType NestPrinter::own_dtype(const schedule::Accumulator& acc) const {
  const bool is_wide = acc.op == ReduceOp::Sum && acc.dtype == DType::F32 && acc.care == loop::SumCare::Finest && gpu_.items == 0;
  return is_wide ? DType::F64 : acc.dtype;
}

std::string NestPrinter::combine_text(ReduceOp op, DType dtype, const OperandText& a, const OperandText& b) {
  const bool is_extremum = (op == ReduceOp::Min || op == ReduceOp::Max) && register_type(dtype) == "float";
  if (is_extremum) return fmt::format("{}({}, {})", op == ReduceOp::Min ? "least_of" : "most_of", a.text, b.text);
  return codegen::combine_text(op, dtype, a, b);
}

// What a stage adds to, but for sums of columns.
template <class F>
void NestPrinter::each_accumulator(const Stage& stage, F f) const {
  for (const Statement& statement : stage.statements) {
    const auto* s = std::get_if<Accumulate>(&statement);
    if (s != nullptr && !accumulator_of(*s).of_columns) f(static_cast<size_t>(s->accumulator));
  }
}

const schedule::Accumulator& NestPrinter::accumulator_of(const Accumulate& s) const {
  return kernel_->accumulators[static_cast<size_t>(s.accumulator)];
}

void NestPrinter::declare_accumulators(const Stage& stage) {
  each_accumulator(stage, [this](size_t i) { declare_accumulator(i); });
}

void NestPrinter::combine_accumulators(const Stage& stage, bool is_inside) {
  each_accumulator(stage, [&](size_t i) { combine(i, is_inside); });
}

// Is the stage's condition the same for all threads that meet?
bool NestPrinter::combines_inside_of(const Stage& stage) const {
  const bool meet = gpu_.row_threads == gpu_.threads || gpu_.row_threads == 32;
  return stage.condition && stage.inner && !gpu_.columns && gpu_.row_threads >= 32 && meet &&
         std::none_of(stage.statements.begin(), stage.statements.end(), [&](const Statement& statement) {
           const auto* s = std::get_if<Accumulate>(&statement);
           return s != nullptr && is_arg(accumulator_of(*s).op);
         });
}

void NestPrinter::declare_results(const Stage& stage) {
  each_accumulator(stage, [this](size_t i) {
    const schedule::Accumulator& acc = kernel_->accumulators[i];
    const DType dtype = combined_dtype(acc);
    body_.line(fmt::format("{} acc{} = {};", register_type(dtype), i, identity_text(acc.op, dtype)));
  });
}

// Sums of floats that are kept in double are added so.
DType NestPrinter::combined_dtype(const schedule::Accumulator& acc) {
  const bool wide = acc.op == ReduceOp::Sum && acc.dtype == DType::F32 && acc.care != loop::SumCare::Usual;
  return wide ? DType::F64 : acc.dtype;
}

// Of the reductions through shared memory that all threads come to, one after the other: places take turns. One alone has no turns.
std::string NestPrinter::place_of_next() {
  size_t all = 0;
  for (const Stage& stage : kernel_->stages) {
    if (!combines_inside_of(stage)) each_accumulator(stage, [&](size_t) { ++all; });
  }
  if (gpu_.row_threads <= 32 || all < 2) return "";
  const size_t number = combined_++;
  return fmt::format(", {}", number + 1 == all && all % 2 == 1 ? 2 : number % 2);
}

void NestPrinter::declare_accumulator(size_t i) {
  const schedule::Accumulator& acc = kernel_->accumulators[i];
  const std::string_view type = register_type(own_dtype(acc));
  if (is_arg(acc.op) && of_thread() > 1) {
    body_.line(fmt::format("Best<{}> best{}[{}];", type, i, of_thread()));
    body_.line("UNROLLED");
    body_.line(fmt::format("for (int k = 0; k < {}; ++k) best{}[k] = {{0, -1}};", of_thread(), i));
  } else if (is_arg(acc.op)) {
    body_.line(fmt::format("Best<{}> best{} = {{0, -1}};", type, i));
  } else {
    const std::string identity = identity_text(acc.op, own_dtype(acc));
    if (of_thread() == 1) return body_.line(fmt::format("{} sum{} = {};", type, i, identity));
    body_.line(fmt::format("{} sum{}[{}];", type, i, of_thread()));
    body_.line("UNROLLED");
    body_.line(fmt::format("for (int k = 0; k < {}; ++k) sum{}[k] = {};", of_thread(), i, identity));
  }
}

void NestPrinter::accumulate(const Accumulate& s) {
  const auto i = static_cast<size_t>(s.accumulator);
  const schedule::Accumulator& acc = kernel_->accumulators[i];
  const std::string value = body_.value(s.value);
  if (acc.of_columns) return body_.line(fmt::format("column{}[{}] += is_row ? {} : 0.0f;", i, body_.stash_index, value));
  if (is_arg(acc.op)) {
    const std::string at = index(s.position);
    return body_.line(fmt::format("best{0}{5} = better<{1}>(best{0}{5}, Best<{2}>{{{3}, {4}}});", i, acc.op == ReduceOp::ArgMin,
                                  register_type(acc.dtype), value, at, body_.column));
  }
  const DType own = own_dtype(acc);
  const std::string sum = fmt::format("sum{}{}", i, body_.column), x = own == acc.dtype ? value : fmt::format("(double){}", value);
  body_.line(fmt::format("{} = {};", sum, combine_text(acc.op, own, {sum, false, true}, {x, false, true})));
}

// The same of neighbouring columns. `total`: of column k; positions are combined before.
void NestPrinter::combine_several(size_t i, const std::string& type, const std::string& total) {
  const schedule::Accumulator& acc = kernel_->accumulators[i];
  const bool arg = is_arg(acc.op);
  const std::string both = arg ? fmt::format("better<{}>(a, b)", acc.op == ReduceOp::ArgMin)
                               : combine_text(acc.op, type == "double" ? DType::F64 : acc.dtype, {"a", false, true}, {"b", false, true});
  const auto combine = [&](std::string_view what) {
    if (gpu_.row_threads == 1) return;
    waits_ = true;
    body_.line(fmt::format("combine_columns<{0}, {1}, {2}>({3}{4}, []({5} a, {5} b) {{ return {5}({6}); }});", gpu_.row_threads,
                           gpu_.threads / gpu_.row_threads, of_thread(), what, i, type, both));
  };
  if (arg) combine("best");
  body_.line(fmt::format("{} acc{}[{}];", arg ? "int64_t" : type, i, of_thread()));
  body_.line("UNROLLED");
  body_.line(fmt::format("for (int k = 0; k < {}; ++k) acc{}[k] = {};", of_thread(), i, total));
  if (!arg) combine("acc");
}

// Of the threads of the row. `is_inside`: of those that have gone through the stage, all of them or none; the result is declared.
void NestPrinter::combine(size_t i, bool is_inside) {
  const schedule::Accumulator& acc = kernel_->accumulators[i];
  const bool arg = is_arg(acc.op);
  const DType dtype = combined_dtype(acc);
  const bool wide = dtype != acc.dtype;
  const std::string type = arg ? fmt::format("Best<{}>", register_type(dtype)) : std::string(register_type(dtype));
  const bool several = of_thread() > 1;
  std::string total = fmt::format("{}{}{}", arg ? "best" : "sum", i, several ? "[k]" : "");
  if (wide) total = fmt::format("(double){}", total);
  if (several) return combine_several(i, type, arg ? fmt::format("op_max(best{}[k].position, (int64_t)0)", i) : total);
  if (gpu_.row_threads > 1) {
    const std::string how = gpu_.columns ? fmt::format("combine_column<{}, {}>", gpu_.row_threads, gpu_.threads / gpu_.row_threads)
                                         : fmt::format("combine_row<{}{}>", gpu_.row_threads, is_inside ? "" : place_of_next());
    const std::string both = arg ? fmt::format("better<{}>(a, b)", acc.op == ReduceOp::ArgMin)
                                 : combine_text(acc.op, dtype, {"a", false, true}, {"b", false, true});
    total = fmt::format("{}({}, []({} a, {} b) {{ return ({}){}; }})", how, total, type, type, type, arg ? both : "(" + both + ")");
    waits_ = true;
  }
  if (arg) total = fmt::format("op_max(({}).position, (int64_t)0)", total);
  body_.line(fmt::format("{}acc{} = {};", is_inside ? "" : "const auto ", i, total));
}

}  // namespace toroid::codegen::cuda
