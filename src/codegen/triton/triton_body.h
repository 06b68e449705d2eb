// The body of a kernel in Triton: its lines, the names of values, and what of a tile is loaded and stored.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/cpp/print_index.h"
#include "codegen/triton/triton_index.h"
#include "codegen/triton/triton_tile.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

namespace toroid::codegen {

// What a kernel calls its pointers.
using TritonPointers = std::unordered_map<loop::BufferId, std::string>;

// Its functions print lines where they need any, and throw NotInTriton.
class TritonBody {
 public:
  // All of it must outlive the body.
  TritonBody(const loop::LoopProgram& program, const schedule::Kernel& kernel, const TritonTile& tile, SymbolNames& names,
             const TritonPointers& pointers);

  const std::string& lines() const { return lines_; }
  // Is an index or a divisor checked? Are values rounded to 16 bits, so that products must not be fused?
  bool reports_errors() const { return reports_errors_; }
  bool rounds() const { return rounds_; }

  void line(const std::string& text);
  // Gives the text a new name, which begins with `base`.
  std::string named(std::string_view base, const std::string& text);
  std::string printed(sym::Expr index) { return index_.print(index); }
  // Lines until close_block stand inside `line`, a loop or a condition, and so do the names of values.
  void open_block(const std::string& text);
  void close_block();

  // The rows of the program's tile, and their elements unless it is looped; then open_elements is for each piece, from `first` on.
  void open_rows();
  void open_elements(const std::string& first);

  // An element, or beyond the row `otherwise`.
  std::string element_or(const std::string& element, const std::string& otherwise) const;
  // A tile in all its elements, of one dtype.
  std::string whole(const std::string& element, DType dtype) const;

  std::string value(loop::ExprId id);
  void set_accumulated(loop::AccumulatorId id, std::string name, DType dtype) { accumulated_[id] = {std::move(name), dtype}; }
  void set_stashed(loop::StashId id, std::string name) { stashed_[id] = std::move(name); }

  // `value`: a name. `of_elements`: for each element of the row, else once a row.
  void store(loop::BufferId buffer, sym::Expr position, const std::string& value, bool of_elements);

 private:
  void decode(const std::vector<sym::Expr>& axes, const std::string& place);
  // What of a tile is there; "" for all of it.
  std::string mask(bool of_elements) const;
  std::string there_and(const std::string& what, bool of_elements) const;

  std::string base_of(const loop::ExprNode& node) const;
  std::string text_of(const loop::ExprNode& node);
  std::string value_where(const loop::Masked& op);
  std::string load(const loop::Load& e);
  // A position for each row at least, so that there is a mask for each.
  std::string place(sym::Expr position);
  // Directly, or by an index that is read from a place that does.
  bool depends_on(sym::Expr position, const std::vector<sym::Expr>& axes) const;
  bool varies_inside(loop::ExprId id) const;

  // Of elements that are there an index out of bounds is an error, the first of which the host is told; it becomes 0.
  std::string index_read(sym::Expr symbol);
  // A divisor; 0 is an error, and becomes 1.
  std::string nonzero(loop::ExprId id, const std::string& divisor);
  // As Failure of the other printer has it: code and step, index, size.
  void report(const std::string& bad, int code, const std::string& index, const std::string& size);

  const loop::LoopProgram& program_;
  const loop::ExprTable& exprs_;
  const schedule::Kernel& kernel_;
  const TritonTile& tile_;
  SymbolNames& names_;
  const TritonPointers& pointers_;
  TritonIndex index_;
  std::string lines_;
  size_t depth_ = 1;
  int counter_ = 0;
  bool rounds_ = false, reports_errors_ = false;
  std::vector<std::unordered_map<loop::ExprId, std::string>> scopes_ = {{}};
  std::vector<std::unordered_map<sym::Expr, std::string>> read_ = {{}};  // indices, by scope
  std::vector<std::string> conditions_;
  std::unordered_map<loop::AccumulatorId, std::pair<std::string, DType>> accumulated_;
  std::unordered_map<loop::StashId, std::string> stashed_;
};

}  // namespace toroid::codegen
