// A rough price of evaluating a scalar expression once: what decides between computing again and keeping in memory.
#pragma once

#include <span>

#include "loop/loop.h"

namespace toroid {

struct ExprCost {
  int nodes = 0;           // expression nodes, each counted once
  int loads = 0;           // of elements that change along some axis
  int arithmetic = 0;      // cheap operations
  int transcendental = 0;  // exp, log, division-like and dearer

  // Cheaper to compute again at each use than to write and read back.
  bool is_cheap() const { return transcendental == 0 && loads <= 1 && arithmetic <= 4; }
};

ExprCost cost_of(const loop::ExprTable& exprs, loop::ExprId id);
// Is a value over these axes read again from no more memory than it would be written to? So it is where it takes few cheap operations on
// one tensor of as many elements, which are no wider, and on some that repeat along an axis: a normalised row of its sums and the row
// itself.
bool reads_as_little(const loop::LoopProgram& program, std::span<const sym::Expr> axes, loop::ExprId value);
// Is it a short function, dear operations included, of one element that has at most half as many bytes, and of constants?
bool is_function_of_narrower(const loop::LoopProgram& program, std::span<const sym::Expr> axes, loop::ExprId value);
bool is_transcendental(ScalarOp op);
// Does it read elements at places that other elements name?
bool is_gathered(const loop::ExprTable& exprs, loop::ExprId value);

}  // namespace toroid
