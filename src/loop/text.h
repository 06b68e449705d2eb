// The text form of what loops and schedules are made of: buffers, axes, value symbols and expressions. text_reader.h reads it.
//
//   origin 1 "aten::add.Tensor" "add_3" "encoder (Encoder)" "model.py:42"
//   buffer x: f32[8, 64] = input 0
//   buffer rows: i64[8] = input 1
//   buffer y: f32[64, 8] strides [1, 64]
//   axes i14 in 8, i15 in 64
//   value v0 below 100 = rows[i14]
//   e0 = mul~1(x[v0, i15], 0.5)
//
//   origin   an operator of the model, by its number: operator, name, module, source; `origin now 3` says where expressions that are made
//            later
//            come from, unless who makes them knows better
//   buffer   its type; then what it is: input, constant or output of that number, prepared, random; nothing for a temporary. Of a constant
//            that calls write, `updated by` the number of the output that is its new value. Where several
//            have one
//            name, `x@3` is the one with the number 3
//   axes     loop variables from 0 to below an extent, the oldest first: the order of terms in sums follows their age
//   value    an integer that is computed, as an index
//   eN       an expression that is used more than once, or lies deep inside another one
//
// An expression is an operation of its operands, a load `x[i14, i15]`, a number, `index(i14 + 1)` for an integer of axes and sizes
// as an i64, `f64(…)` for a conversion, `bitcast.i32.f32(…)`, `masked(condition, value, otherwise)`, and in kernels `acc0`, `stash0`. A
// number is an f32 if it has a point, an i64 if it has none; `0.5:f64` says another dtype. `~1` is the origin of what it stands behind
// and of all inside; without it that of whatever is around, and at the outside that of the line.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"
#include "loop/loop.h"

namespace toroid::loop {

// Writes parts of one program. First it is told all that the text refers to, in the order of the text.
class LoopTextWriter {
 public:
  explicit LoopTextWriter(const LoopProgram& program);

  void add(ExprId root);  // stands in a line
  void name(ExprId id);   // is referred to by name
  void add(sym::Expr expr);
  void add(std::span<const sym::Expr> exprs);

  // Lines, each behind `indent`: of all buffers; of the axes and values that were added; of named expressions below `roots` that no line
  // holds yet.
  std::string buffers(std::string_view indent) const;
  std::string symbols(std::string_view indent);
  std::string named(std::span<const ExprId> roots, std::string_view indent);

  // In a line whose origin is `origin`.
  std::string expr(ExprId id, ProvenanceId origin = {}) const;
  std::string buffer(BufferId id) const;                            // its name, quoted where it is no word
  std::string plain_name(BufferId id) const;                        // unquoted
  std::string buffers(std::span<const BufferId> list) const;        // "x, y"
  std::string operand(const Operand& operand) const;                // "x[8, 64] strides [1, 8] offset(3)"
  std::string scores(const Call& call, ProvenanceId origin) const;  // " scores [i0, i1, i2, i3] = … where …", or nothing

 private:
  void finish();
  std::string number_of(BufferId id) const;
  std::string expr_inside(ExprId id, ProvenanceId origin) const;

  const LoopProgram& program_;
  std::unordered_map<std::string, int> times_named_;  // of buffers
  std::vector<ExprId> roots_;
  std::unordered_set<ExprId> referred_;
  std::unordered_set<sym::Expr> symbols_;
  std::unordered_set<ExprId> is_named_;
  std::unordered_map<ExprId, size_t> names_;  // of those in a line already
  bool is_finished_ = false;
};

// Lines that are indented by the braces around them.
class BlockText {
 protected:
  explicit BlockText(size_t indent = 0) : indent_(indent) {}

  void line(std::string_view text);
  void open(std::string_view text);  // "text {"
  void close();

  std::string text_;

 private:
  size_t indent_;
};

std::string text_of(std::span<const sym::Expr> exprs);  // "8, s0"
// The operation of a call; operands of control flow are in0, in1, ….
std::string text_of_call(const Op& op);
// " from 1, 2", or nothing.
std::string text_of_origins(std::span<const ProvenanceId> provenance);
// Lines of a graph's origins.
std::string text_of_origins(const Graph& graph, std::string_view indent);
// A name of a computation or step: quoted where a line that begins with it would be taken for something else.
std::string step_name(std::string_view name);
std::string_view care_text(SumCare care);  // "", "fine ", "finest "

}  // namespace toroid::loop
