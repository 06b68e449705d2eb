// Small integer tensors whose elements are known while compiling: index tables that no short formula gives.
#pragma once

#include <optional>
#include <vector>

#include "passes/decompose/engine/decompose.h"

namespace toroid {

// An I64 constant with these elements in row-major order, kept in the program.
// Throws Error{Unsupported} for a table of more than 2^22 elements, which neither a program nor the compiler should hold.
void require_small_table(int64_t elements);
Tensor literal(Decomposer& d, const std::vector<int64_t>& sizes, const std::vector<int64_t>& values);

// The elements of an integer tensor that is a constant of the model or of the formula; nothing for what is computed, passed in, or written
// by the program, whose later calls find others.
std::optional<std::vector<int64_t>> constant_integers(const Decomposer& d, Tensor x);

}  // namespace toroid
