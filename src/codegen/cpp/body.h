// Prints the statements inside a kernel's loops: each expression once, at the outermost loop where it can be computed.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "codegen/cpp/contraction.h"
#include "codegen/cpp/origin.h"
#include "codegen/cpp/print_index.h"
#include "codegen/cpp/scalar_text.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

namespace toroid::codegen {

// Loop levels: level 0 is the task, level d the inside of the d-th loop. The lines of a level come before the loop inside it.
class BodyPrinter {
 public:
  // `names`: the kernel's.
  BodyPrinter(const loop::LoopProgram& program, SymbolNames& names, std::optional<sym::Expr> vector_axis)
      : program_(program), exprs_(program.exprs), names_(names), vector_axis_(vector_axis) {}

  // Begins a nest with these loops, outermost first; what was computed at level 0 stays known. last_runs: the innermost loop has at least
  // one iteration whenever it is come to. Loads, divisions and checks of indices stay inside a loop that may have none: there may be
  // nothing to load, the divisor may be zero, and no index needs to be valid.
  void begin_nest(std::vector<sym::Expr> loops, bool last_runs = false);
  // The expression's value, printed at its own level.
  OperandText value(loop::ExprId id);
  // Makes value symbols that an index mentions available.
  void prepare_index(sym::Expr index);
  std::string index(sym::Expr e) const;  // of the first lane
  std::string lane_index(sym::Expr e);   // of lane `l`
  bool varies(loop::ExprId id);          // from lane to lane
  bool varies(sym::Expr e);
  size_t level_of(sym::Expr e);  // at which the index is known
  // The start of a buffer's memory: "x", or "x.by(2)" in an assertion build.
  std::string memory(loop::BufferId buffer) const;
  // Pointer text for an element: "x + 128 * i0 + j".
  std::string pointer(loop::BufferId buffer, sym::Expr position) const;
  void line(size_t level, std::string text);
  // Lines from now on come from this operator of the model, but those of values that have an origin of their own.
  void set_origin(ProvenanceId origin) { origin_ = origin; }
  size_t innermost() const { return loops_.size(); }
  std::vector<std::string> take_level(size_t level) { return std::exchange(levels_[level], {}); }

  // How accumulators and stashes are spelled, set by the kernel printer.
  std::function<OperandText(loop::AccumulatorId)> accumulator;
  std::function<OperandText(loop::StashId)> stash;
  // The place in a tile for loads that go through one; empty text for others.
  std::function<std::string(loop::ExprId)> tile;
  std::string_view tile_name;                          // of the value that is loaded; empty: its buffer's
  Origins origins;                                     // those that comments tell apart
  std::vector<std::string>* access_origins = nullptr;  // of an assertion build: where accesses come from, by the number that they pass on
  Contraction contraction;
  bool accumulators_vary = false;  // one per lane
  bool stashes_vary = false;

  bool uses_error() const { return uses_error_; }
  bool uses_runtime() const { return uses_runtime_; }

 private:
  struct Scope {  // a masked region
    std::vector<std::string> lines;
    std::unordered_map<loop::ExprId, OperandText> known;
    std::unordered_map<sym::Expr, size_t> known_symbols;
    std::string mask;  // lane mask in force; empty: none
  };

  size_t level_of(loop::ExprId id);
  OperandText compute(loop::ExprId id);
  std::optional<std::string> in_narrow_vectors(const loop::Compute& op);
  OperandText checked_divisor(const OperandText& divisor, DType dtype);
  OperandText load(const loop::Load& op, DType dtype);
  OperandText number(sym::Expr e);
  OperandText condition(sym::Expr e);
  std::optional<std::string> lane_range(sym::Expr e);  // a condition that holds up to some lane or from some lane on
  bool in_runs(sym::Expr position);                    // do lanes follow each other if the last is W - 1 beyond the first?
  bool moves_by_at_most_one(sym::Expr e);              // from lane to lane
  std::optional<sym::Expr> repeated_part(sym::Expr position);
  OperandText masked(const loop::Masked& op, DType dtype);
  void emit(size_t level, std::string text);
  void insert(size_t level, const std::vector<std::string>& lines);
  void push(std::vector<std::string>& lines, std::string text) const;
  // Temporaries end in _v and a number; no buffer does (see Generator::make_names_unique).
  std::string fresh(std::string_view base) { return fmt::format("{}_v{}", base, ++counter_); }
  OperandText define(size_t level, std::string_view base, DType dtype, OperandText text);

  const loop::LoopProgram& program_;
  const loop::ExprTable& exprs_;
  SymbolNames& names_;
  std::optional<sym::Expr> vector_axis_;
  std::vector<sym::Expr> loops_;
  size_t doubtful_ = 0;  // the level inside the innermost loop that may have no iterations
  std::vector<std::vector<std::string>> levels_{1};
  std::unordered_map<loop::ExprId, std::pair<size_t, OperandText>> known_;
  std::unordered_map<sym::Expr, size_t> known_symbols_;  // value symbols -> level
  std::vector<Scope> scopes_;
  std::unordered_map<loop::ExprId, size_t> level_memo_;
  std::unordered_map<loop::ExprId, bool> varies_memo_;
  ProvenanceId origin_{0};
  int counter_ = 0;
  bool uses_error_ = false;
  bool uses_runtime_ = false;
};

}  // namespace toroid::codegen
