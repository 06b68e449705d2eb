// What each ScalarOp computes: one element at a time, with PyTorch's results for NaN, signs, overflow and rounding.
//
// Floats are computed in double and rounded to their dtype by the caller; for + - * / and sqrt that equals computing
// in the dtype itself, for the others it is at least as exact. Integers and Bool are computed in int64_t and wrapped
// to their dtype; an int64_t of U64 holds its bits. Predicates (eq, isnan, …) give 0 or 1. Where and the Philox
// operators are left to the caller: they take three operands.
#pragma once

#include <cstdint>

#include "tensor/scalar_op.h"

namespace toroid {

// `dtype` is the operands' (nextafter and the shifts depend on it). Unary operators ignore `b`. Throws
// Error{InvalidInput} for an integer divided by zero.
double apply(ScalarOp op, DType dtype, double a, double b);
int64_t apply(ScalarOp op, DType dtype, int64_t a, int64_t b);
uint64_t apply(ScalarOp op, DType dtype, uint64_t a, uint64_t b);  // U64

}  // namespace toroid
