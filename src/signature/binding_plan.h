// How a program's size symbols follow from the shapes of a call's inputs, and what must be checked about them.
//
//   inputs  x: f32[s0, 128]   y: f32[2*s1 + 1]
//   plan    s0 = size 0 of x      s1 = (size 0 of y - 1) / 2, exactly      check: size 1 of x = 128     guards …
//
// The plan is made once for a program. Its contract's tables follow from it (contract_tables.h), which the evaluator and compiled programs
// share, so both refuse the same calls with the same words.
#pragma once

#include <optional>
#include <string>
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

// What is left of `expr` beside `symbol`, if a number that `expr` stands for tells the symbol: u0 + s0 - 1 does, u0*u0 and 2*u0 do not.
std::optional<sym::Expr> rest_beside(sym::Expr expr, sym::Expr symbol);

// The input's name for callers.
std::string input_name(const Program& program, size_t input);

}  // namespace toroid
