// The text of what one thread computes: expressions as locals in nested scopes, each once where all that use it can see it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/cpp/print_index.h"
#include "loop/loop.h"
#include "support/text/text_buffer.h"

namespace toroid::codegen::cuda {

// A float as a number times what is left, where it is made by multiplications and divisions by numbers.
std::pair<double, loop::ExprId> scaled(const loop::ExprTable& exprs, loop::ExprId id);

class ThreadBody {
 public:
  ThreadBody(const loop::LoopProgram& program, SymbolNames& names);

  // ---- lines and scopes
  void line(std::string_view text) { lines_ += std::string(2 * depth_, ' ') + std::string(text) + "\n"; }
  void lines(std::string_view text);  // several, each with its end
  void open(std::string_view head);
  void close(std::string_view tail = "}");
  std::string take() { return std::move(lines_); }

  // ---- expressions: names of locals that are declared first
  std::string value(loop::ExprId id);
  // Declares the indices in it that are read from tensors, checked.
  std::string index(sym::Expr e);
  std::string name_of(sym::Expr symbol) { return names_.of(symbol); }
  std::string fresh(std::string_view base);
  std::string memory(loop::BufferId buffer) const;
  // Declares in this scope what below the roots does not change along the axes, so that a loop over them, which runs at least once, finds
  // it there.
  void hoist(const std::vector<loop::ExprId>& roots, const std::vector<sym::Expr>& axes);

  // A load, in this scope: an element of what one access loaded.
  void define(loop::ExprId load, std::string text) { scopes_.back().values[load] = std::move(text); }

  std::string stash_index = "0";                  // of the element at hand among the thread's
  std::string column = {};                        // "[k]", of the sum at hand, where a thread has several
  std::unordered_set<loop::ExprId> unfused = {};  // products that are rounded
  bool reports_errors = false, is_special = false;
  bool is_rounded_to_16_bits = false;                         // all that comes of the values
  std::vector<std::pair<sym::Expr, std::string>> reals = {};  // axes, and their names as floats
  bool is_of_scores = false;  // what comes of the values are scores of attention, whose errors count as such, not relatively

 private:
  struct Scope {
    std::unordered_map<loop::ExprId, std::string> values;
    std::unordered_set<sym::Expr> symbols;
  };

  std::string text_of(loop::ExprId id);
  std::string compute(loop::ExprId id, const loop::Compute& op);
  // The index as a float, of axes that are there as such: a sum whose parts are integers of at most 24 bits, and so exact.
  std::optional<std::string> real_place(sym::Expr place) const;
  // The x of 1 + erf(x).
  std::optional<loop::ExprId> one_plus_erf(const loop::Compute& op) const;
  // The x of x / 2 (1 + erf(x / sqrt(2))).
  std::optional<loop::ExprId> gelu(const loop::Compute& op) const;
  std::optional<std::string> equality_of_index(const loop::Compute& op);
  std::string masked(const loop::Masked& op, DType dtype);
  std::string checked_divisor(const std::string& divisor, DType dtype);

  const loop::LoopProgram& program_;
  const loop::ExprTable& exprs_;
  SymbolNames& names_;
  std::string lines_;
  size_t depth_ = 1;
  std::unordered_map<std::string, int> counts_;
  std::vector<Scope> scopes_ = {{}};
};

}  // namespace toroid::codegen::cuda
