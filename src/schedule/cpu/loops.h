// What is asked of a kernel's loops and accesses when they are chosen (internal to schedule/).
#pragma once

#include <span>
#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

// An integer expression of a kernel.
struct Access {
  sym::Expr position;
  bool is_memory;  // of a load or store, not an index used as a number
  bool is_load = false;
};
std::vector<Access> accesses(const loop::ExprTable& exprs, const Kernel& kernel);

// Loads that every iteration performs: those inside a Masked may lie out of bounds in others.
std::vector<ExprId> unconditional_loads(const loop::ExprTable& exprs, const Kernel& kernel);

bool only_axes_and_sizes(sym::Expr e);

// Does the value change along the axis, be it through an index that is read from a tensor?
bool depends_on_through_values(const loop::ExprTable& exprs, sym::Expr e, sym::Expr axis);

// The product of the sizes' hints, or `most` if it is more.
int64_t product_hint(std::span<const sym::Expr> sizes, int64_t most);

// The buffer's bytes by its sizes' hints, as long as it has up to `most` elements; else more than `most`.
int64_t bytes_hint(const loop::Buffer& buffer, int64_t most);

// Do steps along this axis go to the next element?
bool is_contiguous(sym::Expr position, sym::Expr along);

bool is_written_around(const Kernel& kernel, BufferId buffer);

// Enough for what is fetched from memory to come meanwhile.
bool computes_much(const loop::ExprTable& exprs, const Stage& stage);

// Makes one axis of neighbours in `axes`, some of the kernel's, that every access walks as one.
void merge_neighbours(loop::LoopProgram& program, Kernel& kernel, std::vector<sym::Expr>& axes);

// Where lanes run along the results, computes what follows from reductions alone once for each result.
void keep_row_values(loop::LoopProgram& program, Kernel& kernel);

// Finds stages that do nothing for most rows.
void choose_conditions(const loop::ExprTable& exprs, Kernel& kernel);

// Divides sums of floats along rows that are or may be long into blocks.
void choose_blocks(Kernel& kernel);

}  // namespace toroid::schedule
