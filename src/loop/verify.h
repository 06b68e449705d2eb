// What the compiler takes for granted of loops: for those that did not come from it, but from a text.
//
// Every failure is an Error{InvalidModel} that says which rule is broken.
#pragma once

#include <span>
#include <vector>

#include "loop/loop.h"

namespace toroid::loop {

// A dtype that kernels can hold in memory, and as many strides as sizes.
void verify(const Buffer& buffer);

// The number is one of the dtype.
void verify(const Literal& literal, DType dtype);
void verify_masked(DType condition, DType value, DType otherwise);
void verify_bitcast(DType operand, DType from, DType to);
void verify_convert(DType from, DType to);
DType verified_dtype(ScalarOp op, const ExprTable& exprs, std::span<const ExprId> operands);

// Everything below the roots uses axes of `axes` only, no results of kernels' own unless `in_kernel`, and loads with as many indices as the
// buffer
// has dims, or one in a kernel.
void verify_uses(const LoopProgram& program, const std::vector<ExprId>& roots, std::span<const sym::Expr> positions,
                 std::span<const sym::Expr> axes, bool in_kernel);
// Of an attention's scores; `in_kernel` as above.
void verify_scores(const LoopProgram& program, const Call& call, bool in_kernel);
// What such a reduction of values gives may go to a buffer of this dtype.
void verify_reduce_dtype(ReduceOp op, DType value, DType storage);
// Only sizes: no axis, and no value.
void verify_sizes(std::span<const sym::Expr> exprs);

// One computation: its outputs, axes and dtypes.
void verify(const LoopProgram& program, const Computation& computation, std::span<const Graph> subgraphs);
// A call's operands and results, which are of `results`.
void verify_call(const LoopProgram& program, const Call& call, std::span<const BufferId> results, std::span<const Graph> subgraphs);

}  // namespace toroid::loop
