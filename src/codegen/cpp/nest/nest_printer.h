// Prints kernels with stages: one loop nest over tasks, each stage a loop inside with its accumulators and stashes, a vector along one
// axis.
//
//   nest_kernel.cpp     the function and its tasks
//   tiles.cpp           transposed tiles of what is read across rows
//   stages.cpp          the loops of a stage, stores, stashes
//   accumulators.cpp    reductions
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cpp/body.h"
#include "codegen/cpp/kernel_printer.h"
#include "codegen/cpp/scalar_text.h"
#include "schedule/axes.h"
#include "schedule/cpu/grid.h"
#include "schedule/schedule.h"

namespace toroid::codegen {

class NestPrinter : KernelPrinter {
 public:
  NestPrinter(const loop::LoopProgram& program, const Graph& graph, std::string name, bool assertions, const schedule::Kernel& kernel)
      : KernelPrinter(program, graph, std::move(name), assertions), kernel_(kernel), body_(program, names_, vector_axis()) {}

  // A function; with linkage "static" one that a kernel calls which finishes another.
  KernelSource run(std::string_view linkage = "extern \"C\"");

 private:
  using ExprId = loop::ExprId;
  using Accumulate = schedule::Accumulate;
  using Stage = schedule::Stage;
  using Statement = schedule::Statement;
  using VectorAlong = schedule::VectorAlong;

  Contents contents() const;
  // Tells the body's printer how the kernel's values are spelled.
  void set_up_body();
  // The lines that find a task's rows and columns.
  std::vector<std::string> place_of_task(const schedule::Grid& grid);
  // Does the next task have the same columns of the rows behind? A thread has tasks that follow each other. Where each goes through rows,
  // that takes less time than the part beside these rows, which comes too late to find what was read ahead of it.
  bool goes_through_rows(const schedule::Grid& grid) const;
  // Does the loop over a block's rows lie inside that over its columns, so that what is read by columns stays in registers? So it does
  // where sums become bytes alone: of wider elements memory is the slower one, which is written row by row.
  bool goes_down_columns() const;
  // The loop over a block's rows; inside, `body` runs over its columns, or the other way around.
  KernelSource print_epilogue(const std::vector<std::string>& body, std::string_view linkage);
  std::vector<std::string> place_of_row();  // the lines that find it
  std::string block_place() {
    const bool is_of_integers = exprs_.dtype(*kernel_.product) == DType::I32;
    return fmt::format("{} + (row - first_row) * row_stride + ({} - first)",
                       is_of_integers ? "reinterpret_cast<const int32_t*>(block)" : "block", vector_name());
  }

  std::string arguments(const KernelSource& source) const;

  std::optional<sym::Expr> vector_axis() const;

  bool along_outer() const { return kernel_.vector == VectorAlong::Outer; }
  std::string vector_name() { return name_of(*vector_axis()); }

  // Does any lane of the loops hold an 8-byte element? Then vectors have half as many lanes. What is done once for each result may take two
  // registers.
  bool wide_elements();

  // ---- tiles

  size_t tile_number(ExprId id) const;

  // Does memory run against the tile's axis?
  bool is_backward(ExprId id) const;

  std::string tile_place(ExprId id);

  // A tile's place in memory: its first element is at `start` for the first row and column, a column is `jump` elements from the next.
  struct TilePlace {
    std::string_view storage_type;
    std::string start, jump;
    bool is_backward;
  };
  TilePlace place_of_tile(ExprId id);

  // Which rows and columns a task has, and, to fetch them, the one after it.
  void print_place_of_tile(sym::Expr tiles, sym::Expr blocks, bool among_others, std::vector<std::string>& lines);
  // From an element's place to the same one's in the next task's tile.
  std::string to_next_tile(sym::Expr position);
  bool fetches_tiles() const { return kernel_.fetches_tiles && !assertions_; }

  // Reads the tiles along the axis on which their memory is contiguous.
  void print_tiles();

  // Of the next task's tiles a column for each row of these.
  void print_fetches_of_tiles(const std::string& row);

  // ---- accumulators

  DType accumulator_dtype(size_t i) const;
  // Is the result of this sum of F32 its total in F64? What reads it says so.
  bool is_in_f64(size_t i) const { return in_f64_.contains(i); }
  void note_results_in_f64(const std::vector<ExprId>& values);
  static bool is_arg(ReduceOp op) { return op == ReduceOp::ArgMin || op == ReduceOp::ArgMax; }
  std::string lane_type(DType dtype) const { return dtype == DType::Bool ? "mask<W>" : fmt::format("vec<{}, W>", register_type(dtype)); }
  std::string stash_type(DType dtype) const;
  std::string splat_identity(size_t i) const;

  // The finished value of a reduction.
  OperandText accumulator_value(loop::AccumulatorId id);

  OperandText stash_value(loop::StashId id);

  void print_stash(size_t i);

  // Rows of a stash are padded to whole vectors along the vector axis.
  std::string stash_position();
  std::string padded_row() { return fmt::format("(({} + W - 1) / W * W)", index(extent(kernel_.inner.back()))); }
  std::string stash_size();

  // ---- stages

  // What a stage's accumulators need around its loops.
  struct AroundLoops {
    std::vector<std::string> before, after;
    std::vector<std::string> before_block, after_block;    // of each block of steps (schedule::Blocks)
    std::vector<std::string> after_rows;                   // of a vector that went through several rows
    std::vector<std::string> before_vector, after_vector;  // of each vector of results (goes_through_windows)
  };

  void print_stage(const Stage& stage, std::vector<std::string>& out);

  AroundLoops print_statements(const Stage& stage, bool has_vector);
  // The loops of a stage, whose bodies the levels of body_ collected.
  struct StageLoops;
  void print_loops(StageLoops& loops);
  // The innermost loops over several rows at once, and over the lanes of one.
  void print_rows(StageLoops& loops);
  void print_lanes(StageLoops& loops);
  // Of windows: the loop over the results' lanes and, inside, those over a window.
  void print_windows(StageLoops& loops);
  // Of an epilogue: the loops over columns and, inside, rows.
  void print_columns(const std::vector<std::string>& of_rows, StageLoops& loops);

  // Do the loops over a few steps lie inside that over the results' lanes, so that accumulators stay in registers? As of pooling, but for
  // float sums, which choose_rows takes several rows at a time.
  bool goes_through_windows(const Stage& stage) const;

  // Of columns: are all rows taken at once, and do the accumulators have a part of them each?
  bool has_turns_of_parts(const Stage& stage) const;
  // Rows that are taken at once are summed in two parts; in blocks, which are many numbers anyway, in one.
  int parts_of_rows(const Stage& stage) const { return has_turns_of_parts(stage) ? stage.turns : stage.blocks.steps > 0 ? 1 : 2; }
  int turns_of_rows(const Stage& stage) const { return has_turns_of_parts(stage) ? 1 : stage.turns; }

  // Opens the block of what a stage does where the condition holds in some lane. What the condition is made of may serve the stage too:
  // these values come before the stage's own.
  void print_condition(ExprId condition, std::vector<std::string>& values, std::vector<std::string>& out);

  // Of an accumulator in a stage.
  struct Sum {
    const Accumulate& statement;
    const Stage& stage;
    size_t i;
    ReduceOp op;
    DType dtype;
    std::string name;              // its variable
    std::string_view result_type;  // of the finished value
    bool in_f64;                   // the result is the total in F64
    bool in_blocks;                // schedule::Blocks: each is added to the total
    bool is_rounded;               // see contraction.h
  };
  // What a step takes in: a value, or a product of two that is added in one operation.
  struct Term {
    OperandText value;
    std::optional<OperandText> factor;
  };
  Sum sum_of(const Accumulate& s, const Stage& stage) const;
  Term term_of(const Sum& sum);
  // `sum` with the term in it.
  std::string combined(const Sum& of, const Term& term, const OperandText& sum) const;

  ProvenanceId origin_of(const Statement& statement) const;

  void print_accumulate(const Accumulate& s, bool has_vector, const Stage& stage, AroundLoops& around);

  void print_accumulate_one(const Sum& sum, AroundLoops& around);
  // Lanes along the results: a row of sums in memory, a column each.
  void print_accumulate_columns(const Sum& sum, AroundLoops& around);
  // What they begin and end with, and their totals over blocks.
  void print_totals_of_columns(const Sum& sum, int rows_of_sums, AroundLoops& around);
  // The rows at hand have sums of their own, in registers; `at`: the row of sums that they are added to then.
  void print_parts_of_rows(const Sum& sum, const Term& term, const std::string& at, AroundLoops& around);
  // Lanes along what is reduced: sums in registers, folded behind the loop.
  void print_accumulate_lanes(const Sum& sum, AroundLoops& around);
  void print_fold_of_lanes(const Sum& sum, const std::string& lambda, AroundLoops& around);

  void print_arg(const Accumulate& s, size_t i, ReduceOp op, std::vector<std::string>& before);

  // The integers in which lanes count positions.
  std::string_view position_type() const;

  // Each lane keeps its own extremum and where it was.
  void print_arg_lanes(const Accumulate& s, size_t i, ReduceOp op, std::vector<std::string>& before, std::vector<std::string>& after);

  // A value that is the same in all lanes, once in each of them.
  static OperandText in_lanes(const OperandText& value, DType dtype);

  // What a store to `dtype` rounds by itself need not be rounded before.
  loop::ExprId before_rounding(loop::ExprId value, DType dtype) const;

  void print_store(const schedule::Store& s);

  bool is_written_around(loop::BufferId buffer) const;

  void print_keep(const schedule::Keep& s);

  const schedule::Kernel& kernel_;
  BodyPrinter body_;
  bool lanes_vary_ = false;
  int64_t row_of_block_ = 0;  // elements of a row of sums or kept values, where lanes run along the results
  std::set<size_t> in_f64_;   // accumulators
  int loaded_ = 0;
};

}  // namespace toroid::codegen
