#include <algorithm>

#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/nest/nest_printer.h"
#include "support/match.h"

namespace toroid::codegen {

using loop::ExprId;
using schedule::Accumulate;
using schedule::Keep;
using schedule::Kernel;
using schedule::kVectorBlock;
using schedule::Stage;
using schedule::Statement;
using schedule::Store;
using schedule::VectorAlong;

KernelPrinter::Contents NestPrinter::contents() const {
  Contents contents;
  for (const Stage& stage : kernel_.stages) {
    for (const Statement& statement : stage.statements) {
      match(
          statement,
          [&](const Accumulate& s) {
            contents.values.push_back(s.value);
            contents.positions.push_back(s.position);
          },
          [&](const Store& s) {
            contents.values.push_back(s.value);
            contents.positions.push_back(s.position);
          },
          [&](const Keep& s) { contents.values.push_back(s.value); });
    }
  }
  for (const auto* axes : {&kernel_.outer, &kernel_.inner}) {
    for (sym::Expr axis : *axes) contents.positions.push_back(axis);
  }
  return contents;
}

void NestPrinter::set_up_body() {
  lanes_vary_ = kernel_.vector != VectorAlong::None;
  set_origins(body_, kernel_.provenance);
  body_.contraction = Contraction(exprs_, kernel_.unfused, kernel_.form.has_value());
  body_.accumulators_vary = kernel_.vector == VectorAlong::Outer;
  body_.stashes_vary = lanes_vary_;
  body_.accumulator = [&](loop::AccumulatorId id) { return accumulator_value(id); };
  body_.stash = [&](loop::StashId id) { return stash_value(id); };
  if (kernel_.tile) body_.tile = [&](ExprId id) { return tile_place(id); };
  if (kernel_.product) {
    body_.tile = [&](ExprId id) { return id == *kernel_.product ? block_place() : std::string(); };
    body_.tile_name = "product";
  }
}

std::vector<std::string> NestPrinter::place_of_task(const schedule::Grid& grid) {
  std::vector<std::string> lines;
  if (kernel_.vector == VectorAlong::Outer) {
    const std::string end = index(extent(kernel_.outer.back()));
    const bool is_one_block = grid.blocks.is_const(1) && !kernel_.tile;
    std::string block = "task", rows = "rows";
    if (kernel_.tile) {
      print_place_of_tile(grid.tiles, grid.blocks, !grid.axes.empty(), lines);
      block = "tile.column";
    } else if (is_one_block) {
      rows = "task";
    } else if (!grid.axes.empty()) {
      const bool by_rows = goes_through_rows(grid);
      const std::string fastest = factor(by_rows ? schedule::product_of_extents(grid.axes) : grid.blocks);
      lines.push_back(fmt::format("const int64_t block = task {} {};", by_rows ? '/' : '%', fastest));
      lines.push_back(fmt::format("const int64_t rows = task {} {};", by_rows ? '%' : '/', fastest));
      block = "block";
    }
    decode_task(grid.axes, rows, lines);
    lines.push_back(is_one_block ? "const int64_t first = 0;" : fmt::format("const int64_t first = {} * {};", block, grid.block_columns));
    lines.push_back(is_one_block ? fmt::format("const int64_t last = {};", end)
                                 : fmt::format("const int64_t last = min64(first + {}, {});", grid.block_columns, end));
  } else {
    decode_task(grid.axes, "task", lines);
  }
  return lines;
}

KernelSource NestPrinter::run(std::string_view linkage) {
  std::vector<loop::BufferId> reads = kernel_.reads;
  if (kernel_.product) std::erase(reads, std::get<loop::Load>(exprs_.node(*kernel_.product).op).buffer);
  take_parameters(reads, kernel_.writes);
  std::vector<KernelSource> finish;
  for (const Kernel& each : kernel_.finish) {
    NestPrinter printer(program_, graph_, fmt::format("{}_finish{}", source_.name, finish.size()), assertions_, each);
    printer.source_.access_names = std::move(source_.access_names);  // whose numbers go on
    finish.push_back(printer.run("static"));
    source_.access_names = std::move(finish.back().access_names);
  }
  const Contents contents = this->contents();
  const schedule::Grid grid = schedule::grid_of(kernel_);
  row_of_block_ = std::max(grid.block_columns, kVectorBlock);
  // Where tasks go through the rows of a block, all rows are counted.
  if (!grid.axes.empty() && !goes_through_rows(grid)) leftover_axis_ = grid.axes[0];
  take_sizes(contents);
  for (sym::Expr axis : kernel_.outer) name_of(axis);  // the outermost is the first
  note_results_in_f64(contents.values);
  for (const KernelSource& each : finish) {
    for (sym::Expr size : each.sizes) take_sizes(size);
  }

  set_up_body();
  // The task's body first: it decides what the signature needs.
  std::vector<std::string> task;
  for (size_t s = 0; s < kernel_.stages.size(); ++s) print_stage(kernel_.stages[s], task);
  drop_repeated_origins(task);
  source_.reports_errors = body_.uses_error() || !kernel_.stashes.empty() || assertions_;
  source_.uses_runtime = body_.uses_runtime();
  for (const KernelSource& each : finish) {
    source_.reports_errors = source_.reports_errors || each.reports_errors;
    source_.uses_runtime = source_.uses_runtime || each.uses_runtime;
    take_sizes(each.tasks);
    text_.write(each.text);
  }
  source_.counts_tasks = !finish.empty();
  if (kernel_.product) return print_epilogue(task, linkage);

  source_.tasks = grid.tasks;

  print_header(kernel_.provenance);
  std::optional<TextBuffer::Scope> function(text_.block(signature(linkage)));
  if (lanes_vary_) text_.write(fmt::format("constexpr int W = {};", wide_elements() ? "kLanes8" : "kLanes4"));
  print_checked_buffers();
  for (size_t i = 0; i < kernel_.stashes.size(); ++i) {
    print_stash(i);
    text_.write(fmt::format("if (!stash{}.data) return report(3, error);", i));
  }
  {
    auto loop = text_.block("for (int64_t task = begin; task < end; ++task) {");
    for (const std::string& line : place_of_task(grid)) text_.write(line);
    std::optional<TextBuffer::Scope> rows;
    if (kernel_.tile) {
      print_tiles();
      const std::string row = name_of(*kernel_.tile);
      rows.emplace(text_.block(fmt::format("for (int64_t {} = first_row; {} < last_row; ++{}) {{", row, row, row)));
      if (fetches_tiles()) print_fetches_of_tiles(row);
    }
    for (const std::string& line : task) text_.write(line);
  }
  if (!kernel_.streaming_stores.empty() && !assertions_) text_.write("store_fence();");
  if (!finish.empty()) {
    auto last = text_.block("if (__atomic_sub_fetch(remaining, end - begin, __ATOMIC_ACQ_REL) == 0) {");
    for (const KernelSource& each : finish) text_.write(fmt::format("{}({}0, {});", each.name, arguments(each), index(each.tasks)));
  }
  function.reset();
  source_.text = text_.str();
  return std::move(source_);
}

bool NestPrinter::goes_through_rows(const schedule::Grid& grid) const {
  return kernel_.vector == VectorAlong::Outer && !kernel_.tile && !grid.axes.empty() && !grid.blocks.is_const(1) && !kernel_.inner.empty();
}

bool NestPrinter::goes_down_columns() const {
  if (!kernel_.product || exprs_.dtype(*kernel_.product) != DType::I32 || assertions_) return false;
  return std::all_of(kernel_.writes.begin(), kernel_.writes.end(),
                     [&](loop::BufferId id) { return size_bytes(program_.buffer(id).dtype) == 1; });
}

std::vector<std::string> NestPrinter::place_of_row() {
  std::vector<std::string> lines;
  decode_task({kernel_.outer.begin(), kernel_.outer.end() - 1}, "row", lines);
  return lines;
}

KernelSource NestPrinter::print_epilogue(const std::vector<std::string>& body, std::string_view linkage) {
  source_.is_epilogue = true;
  print_header(kernel_.provenance);
  std::optional<TextBuffer::Scope> function(text_.block(signature(linkage)));
  text_.write(fmt::format("constexpr int W = {};", wide_elements() ? "kLanes8" : "kLanes4"));
  print_checked_buffers();
  std::optional<TextBuffer::Scope> loop;
  if (!goes_down_columns()) {
    loop.emplace(text_.block("for (int64_t row = first_row; row < last_row; ++row) {"));
    for (const std::string& line : place_of_row()) text_.write(line);
  }
  for (const std::string& line : body) text_.write(line);
  loop.reset();
  function.reset();
  source_.text = text_.str();
  return std::move(source_);
}

std::string NestPrinter::arguments(const KernelSource& source) const {
  std::string text;
  for (const KernelParameter& parameter : source.parameters) {
    text += identifier(program_.buffer(parameter.buffer).name) + (assertions_ ? ".start, " : ", ");
  }
  for (sym::Expr size : source.sizes) text += identifier(size.node()->name) + ", ";
  if (source.uses_runtime) text += "runtime, ";
  if (assertions_) text += "checks, ";
  if (source.reports_errors) text += "error, ";
  return text;
}

std::optional<sym::Expr> NestPrinter::vector_axis() const {
  if (kernel_.vector == VectorAlong::Inner) return kernel_.inner.back();
  if (kernel_.vector == VectorAlong::Outer) return kernel_.outer.back();
  return std::nullopt;
}

bool NestPrinter::wide_elements() {
  std::vector<ExprId> values;
  const bool has_inner = std::any_of(kernel_.stages.begin(), kernel_.stages.end(), [](const Stage& stage) { return stage.inner; });
  for (const Stage& stage : kernel_.stages) {
    if (has_inner && !stage.inner) continue;
    for (const Statement& statement : stage.statements) {
      match(statement, [&](const auto& s) { values.push_back(s.value); });
    }
  }
  std::set<ExprId> conditions;
  const std::vector<ExprId> all = loop::reachable(exprs_, values);
  for (ExprId id : all) {
    const auto* convert = std::get_if<loop::Convert>(&exprs_.node(id).op);
    if (convert && exprs_.dtype(id) == DType::Bool && std::holds_alternative<loop::Index>(exprs_.node(convert->operand).op)) {
      conditions.insert(convert->operand);
    }
  }
  for (ExprId id : all) {
    if (size_bytes(exprs_.dtype(id)) == 8 && body_.varies(id) && !conditions.count(id)) return true;
  }
  return false;
}

KernelSource print_nest(const loop::LoopProgram& program, const Graph& graph, std::string name, bool assertions, const Kernel& kernel) {
  return NestPrinter(program, graph, std::move(name), assertions, kernel).run();
}

}  // namespace toroid::codegen
