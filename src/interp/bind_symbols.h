// Finds the size symbols of a program from the shapes of a call's inputs, and what must be checked about them.
//
//   inputs  x: f32[s0, 128]   y: f32[2*s1 + 1]
//   plan    s0 = size 0 of x      s1 = (size 0 of y - 1) / 2, exactly      check: size 1 of x = 128     guards …
//
// The plan is made once for a program; the evaluator runs it, and the wrapper of a compiled program is printed from
// it, so both refuse the same calls with the same words.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace toroid {

struct InputSize {
  uint32_t input;  // in Program::inputs
  uint32_t dim;
};
// symbol = (size - rest) / coefficient; the coefficient is not 0, and the division must be exact.
struct SymbolDefinition {
  sym::Expr symbol;
  InputSize source;
  sym::Expr rest;
  int64_t coefficient = 1;
};
struct SizeCheck {
  InputSize source;
  sym::Expr expected;
};
struct BindingPlan {
  std::vector<SymbolDefinition> definitions;  // in an order in which each needs only earlier ones
  std::vector<SizeCheck> checks;
  std::vector<sym::Expr> guards;        // each must be nonzero
  std::vector<sym::Expr> later_guards;  // … over data-dependent symbols, which nodes of the program define
};

// The bytes of the program's tensors where a call's sizes could make them more than 63 bits hold, each form once: of 2*s0 and 4*s0
// only the latter. Tensors that are never stored count too, since loops run over them.
std::vector<sym::Expr> tensor_bytes(const Program& program);

// Throws Error{Unsupported} when a size symbol can be found neither from the inputs' shapes nor from the number that is to define it.
BindingPlan plan_bindings(const Program& program);

// The value of every symbol bound so far; grows when nodes define data-dependent sizes.
class SymbolValues {
 public:
  void set(sym::Expr symbol, int64_t value) { values_[symbol] = value; }
  void forget(sym::Expr symbol) { values_.erase(symbol); }
  std::optional<int64_t> find(sym::Expr symbol) const;
  int64_t evaluate(sym::Expr expr) const;  // throws Error{InvalidInput} naming a symbol without a value
  std::vector<int64_t> evaluate(std::span<const sym::Expr> exprs) const;

 private:
  std::unordered_map<sym::Expr, int64_t> values_;
};

// Throws Error{InvalidInput} when one of `bytes` (of tensor_bytes) does not fit 63 bits. Those with a symbol that has no value yet are
// left for later.
void check_bytes(const SymbolValues& symbols, std::span<const sym::Expr> bytes);

struct InputShape {
  DType dtype;
  std::span<const int64_t> sizes;
};
// Runs the plan. Throws Error{InvalidInput} that names the violated fact: count, rank, dtype, size, range or guard.
SymbolValues bind_symbols(const Program& program, const BindingPlan& plan, std::span<const InputShape> inputs);

// A number that was read out of a tensor is what `expr` stands for from now on: gives the one symbol in it that has no value yet
// its value, or checks the number. Then checks the guards that were waiting for it. Throws Error{InvalidInput} when a fact that
// the program relies on does not hold.
void bind_number(SymbolValues& symbols, std::span<const sym::Expr> later_guards, sym::Expr expr, int64_t value);

}  // namespace toroid
