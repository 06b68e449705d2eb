// Kernels with stages: one loop nest over tasks, each stage a loop inside with its accumulators and stashes, a vector along one axis.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/body.h"
#include "codegen/cpp/kernel_printer.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/scalar_text.h"
#include "schedule/axes.h"
#include "schedule/cpu/grid.h"
#include "support/match.h"

namespace toroid::codegen {

using schedule::kTileSide;
using schedule::kVectorBlock;
namespace {

using loop::ExprId;
using schedule::Accumulate;
using schedule::is_float_sum;
using schedule::Keep;
using schedule::Kernel;
using schedule::kVectorBlock;
using schedule::Stage;
using schedule::Statement;
using schedule::Store;
using schedule::VectorAlong;

class NestPrinter : KernelPrinter {
 public:
  NestPrinter(const loop::LoopProgram& program, const Graph& graph, std::string name, bool assertions, const Kernel& kernel)
      : KernelPrinter(program, graph, std::move(name), assertions), kernel_(kernel), body_(program, names_, vector_axis()) {}

  KernelSource run(std::string_view linkage = "extern \"C\"") {
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

    const std::vector<sym::Expr>& task_axes = grid.axes;
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
      std::vector<std::string> lines;
      if (kernel_.vector == VectorAlong::Outer) {
        const std::string end = index(extent(kernel_.outer.back()));
        const bool is_one_block = grid.blocks.is_const(1) && !kernel_.tile;
        std::string block = "task", rows = "rows";
        if (kernel_.tile) {
          print_place_of_tile(grid.tiles, grid.blocks, !task_axes.empty(), lines);
          block = "tile.column";
        } else if (is_one_block) {
          rows = "task";
        } else if (!task_axes.empty()) {
          const bool by_rows = goes_through_rows(grid);
          const std::string fastest = factor(by_rows ? schedule::product_of_extents(task_axes) : grid.blocks);
          lines.push_back(fmt::format("const int64_t block = task {} {};", by_rows ? '/' : '%', fastest));
          lines.push_back(fmt::format("const int64_t rows = task {} {};", by_rows ? '%' : '/', fastest));
          block = "block";
        }
        decode_task(task_axes, rows, lines);
        lines.push_back(is_one_block ? "const int64_t first = 0;"
                                     : fmt::format("const int64_t first = {} * {};", block, grid.block_columns));
        lines.push_back(is_one_block ? fmt::format("const int64_t last = {};", end)
                                     : fmt::format("const int64_t last = min64(first + {}, {});", grid.block_columns, end));
      } else {
        decode_task(task_axes, "task", lines);
      }
      for (const std::string& line : lines) text_.write(line);
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

 private:
  // Does the next task have the same columns of the rows behind? A thread has tasks that follow each other. Where each goes through rows,
  // that takes less time than the part beside these rows, which comes too late to find what was read ahead of it.
  bool goes_through_rows(const schedule::Grid& grid) const {
    return kernel_.vector == VectorAlong::Outer && !kernel_.tile && !grid.axes.empty() && !grid.blocks.is_const(1) &&
           !kernel_.inner.empty();
  }
  // The loop over a block's rows; inside, `body` runs over its columns.
  KernelSource print_epilogue(const std::vector<std::string>& body, std::string_view linkage) {
    source_.is_epilogue = true;
    print_header(kernel_.provenance);
    std::optional<TextBuffer::Scope> function(text_.block(signature(linkage)));
    text_.write(fmt::format("constexpr int W = {};", wide_elements() ? "kLanes8" : "kLanes4"));
    print_checked_buffers();
    {
      auto loop = text_.block("for (int64_t row = first_row; row < last_row; ++row) {");
      std::vector<std::string> lines;
      decode_task({kernel_.outer.begin(), kernel_.outer.end() - 1}, "row", lines);
      for (const std::string& line : lines) text_.write(line);
      for (const std::string& line : body) text_.write(line);
    }
    function.reset();
    source_.text = text_.str();
    return std::move(source_);
  }
  std::string block_place() { return fmt::format("block + (row - first_row) * row_stride + ({} - first)", vector_name()); }

  std::string arguments(const KernelSource& source) const {
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

  std::optional<sym::Expr> vector_axis() const {
    if (kernel_.vector == VectorAlong::Inner) return kernel_.inner.back();
    if (kernel_.vector == VectorAlong::Outer) return kernel_.outer.back();
    return std::nullopt;
  }

  bool along_outer() const { return kernel_.vector == VectorAlong::Outer; }
  std::string vector_name() { return name_of(*vector_axis()); }

  // Does any lane of the loops hold an 8-byte element? Then vectors have half as many lanes. What is done once for each result may take two
  // registers.
  bool wide_elements() {
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

  // ---- tiles

  size_t tile_number(ExprId id) const {
    const auto& list = kernel_.tiled_loads;
    return static_cast<size_t>(std::find(list.begin(), list.end(), id) - list.begin());
  }

  // Does memory run against the tile's axis?
  bool is_backward(ExprId id) const {
    const auto step = sym::linear_in(std::get<loop::Load>(exprs_.node(id).op).index[0], *kernel_.tile);
    return step->coefficient.is_const(-1);
  }

  std::string tile_place(ExprId id) {
    const size_t number = tile_number(id);
    if (number == kernel_.tiled_loads.size()) return {};
    const std::string row = name_of(*kernel_.tile);
    const std::string place = is_backward(id) ? "last_row - 1 - " + row : row + " - first_row";
    return fmt::format("tile{} + ({}) * {} + ({} - first)", number, place, kTileStride, vector_name());
  }

  // A tile's place in memory: its first element is at `start` for the first row and column, a column is `jump` elements from the next.
  struct TilePlace {
    std::string_view storage_type;
    std::string start, jump;
    bool is_backward;
  };
  TilePlace place_of_tile(ExprId id) {
    const auto& load = std::get<loop::Load>(exprs_.node(id).op);
    const auto jump = sym::linear_in(load.index[0], *vector_axis());
    const auto step = sym::linear_in(jump->rest, *kernel_.tile);
    return {storage_type(program_.buffer(load.buffer).dtype), body_.pointer(load.buffer, step->rest), factor(jump->coefficient),
            is_backward(id)};
  }

  // Which rows and columns a task has, and, to fetch them, the one after it.
  void print_place_of_tile(sym::Expr tiles, sym::Expr blocks, bool among_others, std::vector<std::string>& lines) {
    const std::string rows = index(tiles), columns = index(blocks), all = factor(tiles * blocks);
    auto tile_at = [&](std::string_view task) {
      return among_others ? fmt::format("tile_at({} % {}, {}, {})", task, all, rows, columns)
                          : fmt::format("tile_at({}, {}, {})", task, rows, columns);
    };
    lines.push_back(fmt::format("const TileAt tile = {};", tile_at("task")));
    lines.push_back(fmt::format("const int64_t first_row = tile.row * {};", kTileSide));
    lines.push_back(fmt::format("const int64_t last_row = min64(first_row + {}, {});", kTileSide, index(extent(*kernel_.tile))));
    if (among_others) lines.push_back(fmt::format("const int64_t rows = task / {};", all));
    if (!fetches_tiles()) return;
    lines.push_back(fmt::format("const TileAt next = {};", tile_at(among_others ? "(task + 1)" : "min64(task + 1, end - 1)")));
    lines.push_back(fmt::format("const int64_t next_row = next.row * {}, next_first = next.column * {};", kTileSide, kTileSide));
  }
  // From an element's place to the same one's in the next task's tile.
  std::string to_next_tile(sym::Expr position) {
    const sym::Expr row = sym::linear_in(position, *kernel_.tile)->coefficient;
    return fmt::format(" + (next_row - first_row) * {} + (next_first - first)", factor(row));
  }
  bool fetches_tiles() const { return kernel_.fetches_tiles && !assertions_; }

  // Reads the tiles along the axis on which their memory is contiguous.
  void print_tiles() {
    for (size_t i = 0; i < kernel_.tiled_loads.size(); ++i) {
      const TilePlace place = place_of_tile(kernel_.tiled_loads[i]);
      text_.write(fmt::format("alignas(64) {} tile{}[{}];", place.storage_type, i, kTileSide * kTileStride));
      text_.write(fmt::format("turn_tile<{}>({} {} + first * {}, {}, last - first, last_row - first_row, tile{});", kTileStride,
                              place.start, place.is_backward ? "- (last_row - 1)" : "+ first_row", place.jump, place.jump, i));
    }
  }

  // Of the next task's tiles a column for each row of these.
  void print_fetches_of_tiles(const std::string& row) {
    for (ExprId id : kernel_.tiled_loads) {
      const TilePlace place = place_of_tile(id);
      text_.write(fmt::format("fetch_run<{}>({} {} + (next_first + {} - first_row) * {});", kTileSide, place.start,
                              place.is_backward ? fmt::format("- (next_row + {})", kTileSide - 1) : "+ next_row", row, place.jump));
    }
  }

  // ---- accumulators

  DType accumulator_dtype(size_t i) const {
    const schedule::Accumulator& acc = kernel_.accumulators[i];
    return acc.op == ReduceOp::Any || acc.op == ReduceOp::All ? DType::Bool : acc.dtype;
  }
  // Is the result of this sum of F32 its total in F64? What reads it says so.
  bool is_in_f64(size_t i) const { return in_f64_.contains(i); }
  void note_results_in_f64(const std::vector<ExprId>& values) {
    for (ExprId id : loop::reachable(exprs_, values)) {
      const auto* result = std::get_if<loop::Accumulated>(&exprs_.node(id).op);
      if (result == nullptr || exprs_.dtype(id) != DType::F64) continue;
      const auto i = static_cast<size_t>(result->id);
      if (kernel_.accumulators[i].op == ReduceOp::Sum && kernel_.accumulators[i].dtype == DType::F32) in_f64_.insert(i);
    }
  }
  static bool is_arg(ReduceOp op) { return op == ReduceOp::ArgMin || op == ReduceOp::ArgMax; }
  std::string lane_type(DType dtype) const { return dtype == DType::Bool ? "mask<W>" : fmt::format("vec<{}, W>", register_type(dtype)); }
  std::string stash_type(DType dtype) const {
    return dtype == DType::Bool ? (lanes_vary_ ? "int32_t" : "bool") : std::string(register_type(dtype));
  }
  std::string splat_identity(size_t i) const {
    const DType dtype = accumulator_dtype(i);
    const std::string identity = identity_text(kernel_.accumulators[i].op, dtype);
    if (dtype == DType::Bool) return fmt::format("splat_mask<W>({})", identity);
    return fmt::format("splat<{}, W>({})", register_type(dtype), identity);
  }

  // The finished value of a reduction.
  OperandText accumulator_value(loop::AccumulatorId id) {
    const size_t i = static_cast<size_t>(id);
    if (!along_outer()) return {fmt::format("result{}", i), false, true};
    const std::string name = fmt::format("result{}_{}", i, ++loaded_);
    if (is_arg(kernel_.accumulators[i].op)) {
      body_.line(body_.innermost(),
                 fmt::format("const auto {} = convert<int64_t>(load_raw(Full<W>{{}}, best{}_at + ({} - first)));", name, i, vector_name()));
      return {name, true, true};
    }
    const std::string_view of = is_in_f64(i) ? "_total" : "";
    body_.line(body_.innermost(),
               fmt::format("const auto {} = load_raw(Full<W>{{}}, sum{}{} + ({} - first));", name, i, of, vector_name()));
    return {name, true, true};
  }

  OperandText stash_value(loop::StashId id) {
    const std::string at = fmt::format("stash{}.data + {}", static_cast<uint32_t>(id), stash_position());
    if (!lanes_vary_) return {fmt::format("load1({})", at), false};
    return {fmt::format("load_raw(Full<W>{{}}, {})", at), true};
  }

  void print_stash(size_t i) {
    const std::string type = stash_type(kernel_.stashes[i]);
    if (!assertions_) return text_.write(fmt::format("Row<{}> stash{}({});", type, i, stash_size()));
    text_.write(
        fmt::format("const CheckedRow<{}> stash{}({}, {}, checks, error);", type, i, stash_size(), source_.access_names->buffers.size()));
    source_.access_names->buffers.push_back(fmt::format("stash{}", i));
  }

  // Rows of a stash are padded to whole vectors along the vector axis.
  std::string stash_position() {
    sym::Expr position = 0;
    std::vector<sym::Expr> axes = kernel_.inner;
    const std::string vector = lanes_vary_ ? vector_name() : "";
    if (!along_outer() && lanes_vary_) axes.pop_back();
    for (sym::Expr axis : axes) position = position * extent(axis) + axis;
    if (!lanes_vary_) return fmt::format("({})", index(position));
    if (along_outer()) return fmt::format("({}) * {} + ({} - first)", index(position), row_of_block_, vector);
    if (position.is_const(0)) return vector;
    return fmt::format("({}) * {} + {}", index(position), padded_row(), vector);
  }
  std::string padded_row() { return fmt::format("(({} + W - 1) / W * W)", index(extent(kernel_.inner.back()))); }
  std::string stash_size() {
    sym::Expr count = 1;
    std::vector<sym::Expr> axes = kernel_.inner;
    if (!along_outer() && lanes_vary_) axes.pop_back();
    for (sym::Expr axis : axes) count = count * extent(axis);
    if (!lanes_vary_) return index(count);
    if (along_outer()) return fmt::format("({}) * {}", index(count), row_of_block_);
    if (count.is_const(1)) return padded_row();
    return fmt::format("({}) * {}", index(count), padded_row());
  }

  // ---- stages

  void print_stage(const Stage& stage, std::vector<std::string>& out) {
    std::vector<sym::Expr> loops;
    if (stage.inner) loops = kernel_.inner;
    if (along_outer()) loops.push_back(kernel_.outer.back());
    std::vector<std::string> condition_values, condition;
    if (stage.condition) print_condition(*stage.condition, condition_values, condition);
    body_.begin_nest(loops, along_outer());
    const bool vector_loop = lanes_vary_ && (along_outer() || stage.inner);
    const size_t innermost = body_.innermost();

    if (!assertions_) {
      for (const schedule::Fetch& each : stage.fetches) {
        std::string function(to_string(each.to));
        std::replace(function.begin(), function.end(), ' ', '_');
        body_.line(innermost, fmt::format("{}({} + {}{});", function, identifier(program_.buffer(each.buffer).name), index(each.position),
                                          kernel_.tile ? to_next_tile(each.position) : ""));
      }
    }
    AroundLoops around;
    for (const Statement& statement : stage.statements) {
      body_.set_origin(origin_of(statement));
      if (const std::string* comment = body_.origins.comment(origin_of(statement))) {
        for (auto* lines : {&around.before, &around.after, &around.before_block, &around.after_block}) lines->push_back(*comment);
      }
      match(
          statement, [&](const Accumulate& s) { print_accumulate(s, vector_loop, stage, around); }, [&](const Store& s) { print_store(s); },
          [&](const Keep& s) { print_keep(s); });
    }

    // Loops around what the levels collected.
    std::vector<std::string> level0 = body_.take_level(0);
    // Accumulators first: without any loop, level 0 is the body itself.
    out.insert(out.end(), around.before.begin(), around.before.end());
    out.insert(out.end(), condition_values.begin(), condition_values.end());
    out.insert(out.end(), level0.begin(), level0.end());
    out.insert(out.end(), condition.begin(), condition.end());
    std::string indent = stage.condition ? "  " : "";
    auto add = [&](const std::vector<std::string>& lines) {
      for (const std::string& line : lines) out.push_back(indent + line);
    };
    auto open = [&](std::string line) {
      out.push_back(indent + std::move(line));
      indent += "  ";
    };
    auto close = [&](std::string_view line) {
      indent.resize(indent.size() - 2);
      out.push_back(indent + std::string(line));
    };
    // Opens the loop over blocks of `begin` to `end`, which become those of one block.
    auto open_blocks = [&](std::string& begin, std::string& end) {
      open(fmt::format("for (int64_t from = 0; from < {}; from += {}) {{", end, stage.blocks.steps));
      add(around.before_block);
      begin = "from";
      end = fmt::format("min64(from + {}, {})", stage.blocks.steps, end);
    };
    auto close_blocks = [&] {
      add(around.after_block);
      close("}");
    };
    const size_t plain_loops = innermost - (vector_loop ? 1 : 0) - (stage.rows > 1 ? 1 : 0);
    const bool blocks_of_rows = stage.blocks.steps > 0 && stage.blocks.of_rows,
               blocks_of_vectors = stage.blocks.steps > 0 && !stage.blocks.of_rows;
    for (size_t d = 0; d < plain_loops; ++d) {
      const std::string name = name_of(loops[d]);
      std::string begin = "0", end = index(extent(loops[d]));
      if (blocks_of_rows && stage.rows == 1 && d + 1 == plain_loops) open_blocks(begin, end);
      open(fmt::format("for (int64_t {} = {}; {} < {}; ++{}) {{", name, begin, name, end, name));
      add(body_.take_level(d + 1));
    }
    if (vector_loop) {
      const std::string v = vector_name();
      std::string begin = along_outer() ? "first" : "0";
      std::string end = along_outer() ? "last" : index(extent(*vector_axis()));
      if (stage.rows > 1) {
        const sym::Expr row = loops[plain_loops];
        std::string first_row = "0", last_row = index(extent(row));
        if (blocks_of_rows) open_blocks(first_row, last_row);
        const bool in_parts = !around.after_rows.empty();
        const int turns = turns_of_rows(stage);
        const std::string parts = in_parts ? fmt::format(", {}, {}", parts_of_rows(stage), turns) : "";
        // The loop outside goes on with the next accumulator.
        const std::string turn = turns > 1 && plain_loops > 0 ? fmt::format("{} % {}", name_of(loops[plain_loops - 1]), turns) : "0";
        open(fmt::format("for_rows<W, {}{}>({}{}, {}, {}, {}, [&](auto lanes, int64_t {}, int64_t {}{}) INLINE_BODY {{", stage.rows, parts,
                         in_parts ? turn + ", " : "", first_row, last_row, begin, end, name_of(row), v, in_parts ? ", int part" : ""));
        add(body_.take_level(plain_loops + 1));
        add(body_.take_level(innermost));
        if (!in_parts) {
          close("});");
        } else {
          indent.resize(indent.size() - 2);
          open(fmt::format("}}, [&](int64_t {}, int64_t turn) INLINE_BODY {{", v));
          add(around.after_rows);
          close("});");
        }
        if (blocks_of_rows) close_blocks();
      } else {
        if (blocks_of_vectors) {
          open(fmt::format("for_blocks<W, {}>({}, {}, [&](int64_t from, int64_t to) INLINE_BODY {{", stage.blocks.steps, begin, end));
          add(around.before_block);
          begin = "from", end = "to";
        }
        const bool in_turn = stage.turns > 1 && !along_outer();
        if (stage.turns > 1 && along_outer()) {
          out.push_back(fmt::format("{}const int64_t turn = {} % {};", indent, name_of(loops[plain_loops - 1]), stage.turns));
        }
        const std::string turns = in_turn ? fmt::format("_in_turn<W, {}>", stage.turns) : "<W>";
        open(fmt::format("for_lanes{}({}, {}, [&](auto lanes, int64_t {}{}) INLINE_BODY {{", turns, begin, end, v,
                         in_turn ? ", int turn" : ""));
        add(body_.take_level(innermost));
        close("});");
        if (blocks_of_vectors) {
          add(around.after_block);
          close("});");
        }
      }
    }
    for (size_t d = plain_loops; d-- > 0;) {
      close("}");
      if (blocks_of_rows && stage.rows == 1 && d + 1 == plain_loops) close_blocks();
    }
    if (stage.condition && !along_outer()) add(around.after);
    if (stage.condition) close("}");
    if (!stage.condition || along_outer()) out.insert(out.end(), around.after.begin(), around.after.end());
  }

  // Of columns: are all rows taken at once, and do the accumulators have a part of them each?
  bool has_turns_of_parts(const Stage& stage) const {
    return stage.turns > 1 && kernel_.inner.size() == 1 && extent(kernel_.inner.back()).is_const(stage.rows);
  }
  // Rows that are taken at once are summed in two parts; in blocks, which are many numbers anyway, in one.
  int parts_of_rows(const Stage& stage) const { return has_turns_of_parts(stage) ? stage.turns : stage.blocks.steps > 0 ? 1 : 2; }
  int turns_of_rows(const Stage& stage) const { return has_turns_of_parts(stage) ? 1 : stage.turns; }

  // Opens the block of what a stage does where the condition holds in some lane. What the condition is made of may serve the stage too:
  // these values come before the stage's own.
  void print_condition(ExprId condition, std::vector<std::string>& values, std::vector<std::string>& out) {
    if (!along_outer()) {
      body_.begin_nest({});
      const std::string holds = body_.value(condition).text;
      values = body_.take_level(0);
      out.push_back(fmt::format("if ({}) {{", holds));
      return;
    }
    const std::string needed = fmt::format("body_needed{}", ++loaded_);
    body_.begin_nest({kernel_.outer.back()}, true);
    const std::string holds = in_lanes(body_.value(condition), DType::Bool).text;
    values = body_.take_level(0);
    out.push_back(fmt::format("bool {} = false;", needed));
    out.push_back(fmt::format("for_lanes<W>(first, last, [&](auto lanes, int64_t {}) INLINE_BODY {{", vector_name()));
    for (const std::string& line : body_.take_level(1)) out.push_back("  " + line);
    out.push_back(fmt::format("  {} |= any_lane(active(lanes) & {});", needed, holds));
    out.push_back("});");
    out.push_back(fmt::format("if ({}) {{", needed));
  }

  // What a stage's accumulators need around its loops.
  struct AroundLoops {
    std::vector<std::string> before, after;
    std::vector<std::string> before_block, after_block;  // of each block of steps (schedule::Blocks)
    std::vector<std::string> after_rows;                 // of a vector that went through several rows
  };

  ProvenanceId origin_of(const Statement& statement) const {
    return match(
        statement, [&](const Accumulate& s) { return kernel_.accumulators[static_cast<size_t>(s.accumulator)].origin; },
        [&](const auto& s) { return exprs_.node(s.value).origin; });
  }

  void print_accumulate(const Accumulate& s, bool vector_loop, const Stage& stage, AroundLoops& around) {
    std::vector<std::string>&before = around.before, &after = around.after;
    const size_t i = static_cast<size_t>(s.accumulator);
    const ReduceOp op = kernel_.accumulators[i].op;
    const DType dtype = accumulator_dtype(i);
    const int turns = stage.turns;
    const std::string acc = fmt::format("sum{}", i);
    const bool in_f64 = is_in_f64(i);
    const std::string_view result_type = dtype == DType::Bool ? "int32_t" : register_type(in_f64 ? DType::F64 : dtype);
    const size_t innermost = body_.innermost();
    if (is_arg(op)) {
      if (vector_loop)
        print_arg_lanes(s, i, op, before, after);
      else
        print_arg(s, i, op, before);
      return;
    }
    if (!vector_loop && is_float_sum(kernel_.accumulators[i])) {
      before.push_back(fmt::format("double {} = 0.0;", acc));
      body_.line(innermost, fmt::format("{} += {};", acc, body_.value(s.value).text));
      after.push_back(fmt::format("const {0} result{1} = {0}({2});", result_type, i, acc));
      return;
    }
    const auto product = op == ReduceOp::Sum ? body_.contraction.product(s.value) : std::nullopt;
    OperandText value = body_.value(product ? product->a : s.value), factor = product ? body_.value(product->b) : OperandText();
    auto combine = [&](const OperandText& sum) {
      return product ? fused_text(dtype, value, factor, sum).text : combine_text(op, dtype, sum, value);
    };
    const bool is_rounded = kernel_.form && op == ReduceOp::Prod && is_floating(dtype);  // see contraction.h
    if (!vector_loop) {
      before.push_back(fmt::format("{} {} = {};", register_type(dtype), acc, identity_text(op, dtype)));
      body_.line(innermost, fmt::format("{} = {};", acc, combine({acc, false, true})));
      after.push_back(fmt::format("const {} result{} = {};", register_type(dtype), i, is_rounded ? fmt::format("rounded({})", acc) : acc));
      return;
    }
    value = in_lanes(value, dtype);
    const bool in_blocks = stage.blocks.steps > 0 && is_float_sum(kernel_.accumulators[i]);
    const std::string_view type = dtype == DType::Bool ? "int32_t" : register_type(dtype);
    if (along_outer()) {
      const bool is_sum = is_float_sum(kernel_.accumulators[i]);
      const int rows_of_sums = is_sum ? turns : 1;
      before.push_back(fmt::format("{} {}[{}];", type, acc, rows_of_sums * row_of_block_));
      const std::string at = fmt::format("{} + {}({} - first)", acc, rows_of_sums > 1 ? "turn * kColumns + " : "", vector_name());
      const std::string old = fmt::format("load_raw(Full<W>{{}}, {})", at);
      if (in_blocks || in_f64) {
        before.push_back(fmt::format("double {}_total[{}];", acc, row_of_block_));
        before.push_back(in_blocks ? fmt::format("begin_totals<W, {1}>({0}, {0}_total, last - first);", acc, rows_of_sums)
                                   : fmt::format("begin_sums<W, {1}>({0}, last - first);", acc, rows_of_sums));
      }
      if (in_blocks) {
        // Between blocks; of a loop inside others each block follows another one.
        const std::string between = kernel_.inner.size() > 1 ? "" : "if (from > 0) ";
        around.before_block.push_back(fmt::format("{0}add_to_totals<W, {2}>({1}, {1}_total, last - first);", between, acc, rows_of_sums));
      }
      if (in_blocks || in_f64) {
        const std::string_view end = !in_blocks ? "set_totals" : in_f64 ? "complete_totals" : "take_totals";
        after.push_back(fmt::format("{0}<W, {2}>({1}, {1}_total, last - first);", end, acc, rows_of_sums));
      } else if (is_sum) {
        before.push_back(fmt::format("begin_sums<W, {1}>({0}, last - first);", acc, rows_of_sums));
        if (turns > 1) after.push_back(fmt::format("take_turns<W, {1}>({0}, last - first);", acc, turns));
      } else {
        before.push_back(
            fmt::format("for (int64_t l = 0; l < {}; l += W) store_raw(Full<W>{{}}, {} + l, {});", row_of_block_, acc, splat_identity(i)));
      }
      if (is_sum && stage.rows > 1) {
        // The rows at hand have sums of their own, in registers.
        const std::string parts = acc + "_parts";
        const int count = parts_of_rows(stage);
        before.push_back(fmt::format("{} {}[{}] = {{}};", lane_type(dtype), parts, count));
        body_.line(innermost, fmt::format("{0}[part] = {1};", parts, combine({parts + "[part]", true, true})));
        const std::string result = count == 1 ? parts + "[0]" : fmt::format("({0}[0] + {0}[1])", parts);
        const std::string keep =
            has_turns_of_parts(stage)
                ? fmt::format("for (int n = 0; n < {}; ++n) store_raw<{}, W>(Full<W>{{}}, {} + n * kColumns + ({} - first), {}[n]);", count,
                              type, acc, vector_name(), parts)
                : fmt::format("store_raw<{}, W>(Full<W>{{}}, {}, {} + {});", type, at, old, result);
        around.after_rows.push_back(keep);
        around.after_rows.push_back(fmt::format("for (auto& each : {}) each = {};", parts, splat_identity(i)));
        return;
      }
      body_.line(innermost, fmt::format("store_raw<{}, W>(Full<W>{{}}, {}, {});", type, at, combine({old, true, true})));
      return;
    }
    // The result of a stage that may be left out is there without it.
    if (stage.condition) before.push_back(fmt::format("{} result{} = {};", result_type, i, identity_text(op, in_f64 ? DType::F64 : dtype)));
    const std::string declared = stage.condition ? "" : fmt::format("const {} ", result_type);
    std::string at = acc;
    std::vector<std::string>&before_block = in_blocks ? around.before_block : before, &after_block = in_blocks ? around.after_block : after;
    const std::string lambda =
        fmt::format("[](auto a, auto b) INLINE_BODY {{ return {}; }}", combine_text(op, dtype, {"a", true, true}, {"b", true, true}));
    if (turns > 1) {
      before_block.push_back(fmt::format("{} {}s[{}];", lane_type(dtype), acc, turns));
      before_block.push_back(fmt::format("for (auto& each : {}s) each = {};", acc, splat_identity(i)));
      if (!in_blocks && !in_f64) after.push_back(fmt::format("const auto {0} = fold_turns({0}s, {1});", acc, lambda));
      at = acc + "s[turn]";
    } else {
      before_block.push_back(fmt::format("{} {} = {};", lane_type(dtype), acc, splat_identity(i)));
    }
    const std::string combined = combine({at, true, true});
    if (dtype == DType::Bool) {
      const std::string kept = fmt::format("((active(lanes) & ({0})) | (~active(lanes) & {1}))", combined, at);
      body_.line(innermost, fmt::format("{} = {};", at, kept));
      const bool wants_one = op == ReduceOp::Any || op == ReduceOp::Max;
      after.push_back(fmt::format("const bool result{} = {}({});", i, wants_one ? "any_lane" : "all_lanes", acc));
      return;
    }
    body_.line(innermost, fmt::format("{} = select(active(lanes), {}, {});", at, combined, at));
    if (in_f64 && !in_blocks) {  // one block
      const std::string sum = turns > 1 ? fmt::format("fold_turns({}s, {})", acc, lambda) : acc;
      const bool in_double = kernel_.accumulators[i].care == loop::SumCare::Finest;
      const std::string folded = in_double ? fmt::format("fold_in_double({})", sum) : fmt::format("double(fold({}, {}))", sum, lambda);
      after.push_back(fmt::format("{}result{} = {};", declared, i, folded));
      return;
    }
    if (in_blocks) {
      before.push_back(fmt::format("Total<W> {}_total;", acc));
      after_block.push_back(fmt::format("add_to({}_total, {});", acc, turns > 1 ? fmt::format("fold_turns({}s, {})", acc, lambda) : acc));
      after.push_back(fmt::format("{3}result{1} = {0}(sum_of({2}_total));", result_type, i, acc, declared));
      return;
    }
    const std::string folded = fmt::format("fold({}, {})", acc, lambda);
    after.push_back(fmt::format("{}result{} = {};", declared, i, is_rounded ? fmt::format("rounded({})", folded) : folded));
  }

  void print_arg(const Accumulate& s, size_t i, ReduceOp op, std::vector<std::string>& before) {
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

  // The integers in which lanes count positions.
  std::string_view position_type() const {
    sym::Expr count = 1;
    for (sym::Expr axis : kernel_.inner) count = count * extent(axis);
    return sym::known_lt(count, int64_t{1} << 31) ? "int32_t" : "int64_t";
  }

  // Each lane keeps its own extremum and where it was.
  void print_arg_lanes(const Accumulate& s, size_t i, ReduceOp op, std::vector<std::string>& before, std::vector<std::string>& after) {
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
          fmt::format("for (int64_t l = 0; l < {2}; l += W) store_raw(Full<W>{{}}, best{0} + l, vec<{1}, W>{{}}), "
                      "store_raw(Full<W>{{}}, best{0}_at + l, ~vec<{3}, W>{{}});",
                      i, type, row_of_block_, count));
      body_.line(innermost, fmt::format("const int64_t best{}_lane = {} - first;", i, vector_name()));
      body_.line(innermost, fmt::format("auto best{0}_now = load_raw(Full<W>{{}}, best{0} + best{0}_lane);", i));
      body_.line(innermost, fmt::format("auto best{0}_now_at = load_raw(Full<W>{{}}, best{0}_at + best{0}_lane);", i));
      body_.line(innermost, fmt::format("keep_extremum<{0}>(active(lanes), {1}, {2}, best{3}_now, best{3}_now_at);", greatest, value.text,
                                        position, i));
      body_.line(innermost, fmt::format("store_raw<{1}, W>(Full<W>{{}}, best{0} + best{0}_lane, best{0}_now);", i, type));
      body_.line(innermost, fmt::format("store_raw<{1}, W>(Full<W>{{}}, best{0}_at + best{0}_lane, best{0}_now_at);", i, count));
      return;
    }
    before.push_back(fmt::format("vec<{0}, W> best{1} = {{}}; vec<{2}, W> best{1}_at = ~vec<{2}, W>{{}};", type, i, count));
    body_.line(innermost, fmt::format("keep_extremum<{0}>(active(lanes), {1}, {2} + ramp<{3}, W>(), best{4}, best{4}_at);", greatest,
                                      value.text, position, count, i));
    after.push_back(fmt::format("const int64_t result{0} = fold_position<{1}>(best{0}, best{0}_at);", i, greatest));
  }

  // A value that is the same in all lanes, once in each of them.
  static OperandText in_lanes(const OperandText& value, DType dtype) {
    if (value.lanes) return value;
    return {dtype == DType::Bool ? fmt::format("splat_mask<W>({})", value.text)
                                 : fmt::format("splat<{}, W>({})", register_type(dtype), value.text),
            true, true};
  }

  // What a store to `dtype` rounds by itself need not be rounded before.
  loop::ExprId before_rounding(loop::ExprId value, DType dtype) const {
    const auto* bits = std::get_if<loop::BitcastTo>(&exprs_.node(value).op);
    return bits != nullptr && bits->from == dtype && bits->to == dtype ? bits->operand : value;
  }

  void print_store(const Store& s) {
    const loop::Buffer& buffer = program_.buffer(s.buffer);
    const OperandText value = body_.value(before_rounding(s.value, buffer.dtype));
    body_.prepare_index(s.position);
    const size_t innermost = body_.innermost();
    const bool lanes = body_.varies(s.position);
    if (!lanes) {
      // An axis of at most one element may leave its mark on the value only: the first lane is the only one.
      const std::string first =
          !value.lanes ? value.text : fmt::format("({})[0]{}", value.text, exprs_.dtype(s.value) == DType::Bool ? " != 0" : "");
      body_.line(innermost, fmt::format("store1({}, {});", body_.pointer(s.buffer, s.position), first));
      return;
    }
    const std::string text = in_lanes(value, compute_dtype(buffer.dtype)).text;
    const auto linear = sym::linear_in(s.position, *vector_axis());
    if (linear && linear->coefficient.is_const(1)) {
      body_.line(innermost, fmt::format("store({}, {}, {});", is_written_around(s.buffer) ? "around(lanes)" : "lanes",
                                        body_.pointer(s.buffer, s.position), text));
    } else {
      body_.line(innermost, fmt::format("scatter(lanes, [&](int l) {{ return {} + {}; }}, {});", body_.memory(s.buffer),
                                        body_.lane_index(s.position), text));
    }
  }

  bool is_written_around(loop::BufferId buffer) const {
    const std::vector<loop::BufferId>& list = kernel_.streaming_stores;
    return !assertions_ && std::find(list.begin(), list.end(), buffer) != list.end();
  }

  void print_keep(const Keep& s) {
    const OperandText value = body_.value(s.value);
    const std::string at = fmt::format("stash{}.data + {}", static_cast<uint32_t>(s.stash), stash_position());
    if (!lanes_vary_) {
      body_.line(body_.innermost(), fmt::format("store1({}, {});", at, value.text));
    } else {
      const DType dtype = exprs_.dtype(s.value);
      body_.line(body_.innermost(), fmt::format("store_raw(Full<W>{{}}, {}, {});", at, in_lanes(value, dtype).text));
    }
  }

  const Kernel& kernel_;
  BodyPrinter body_;
  bool lanes_vary_ = false;
  int64_t row_of_block_ = 0;  // elements of a row of sums or kept values, where lanes run along the results
  std::set<size_t> in_f64_;   // accumulators
  int loaded_ = 0;
};

}  // namespace

KernelSource print_nest(const loop::LoopProgram& program, const Graph& graph, std::string name, bool assertions, const Kernel& kernel) {
  return NestPrinter(program, graph, std::move(name), assertions, kernel).run();
}

}  // namespace toroid::codegen
