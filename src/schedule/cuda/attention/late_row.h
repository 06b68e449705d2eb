// The one row of a cache that a step of decoding writes: what writes it, and where (internal to schedule/ and program/).
//
//   scatter keys = keys_before set ...     at row position[0], an input of the program
//
// All other rows are there before the call.
#pragma once

#include <optional>

#include "schedule/schedule.h"

namespace toroid::schedule {

// Of an I64 input of the program: the row's index, which may be negative.
struct LateRow {
  BufferId buffer;
  sym::Expr offset;
  bool operator==(const LateRow&) const = default;
};

// Where the scatter sets elements of the operand [batch, head, row, column], the new value of a constant, and all that it sets is in one
// row of each head.
std::optional<LateRow> row_set_by(const loop::LoopProgram& program, const ScatterKernel& scatter, const loop::Operand& operand);
// What the row's index is called in the scatter's position and value.
std::optional<sym::Expr> symbol_of_row(const loop::LoopProgram& program, const ScatterKernel& scatter);

}  // namespace toroid::schedule
