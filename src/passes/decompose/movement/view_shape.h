// Arithmetic on the sizes and bounds of views, shared by the families that slice.
#pragma once

#include "passes/decompose/engine/decompose.h"

namespace toroid {

// start, start+step, … below an end: what Python's x[start:end:step] selects from a dim.
struct Bounds {
  sym::Expr start;
  sym::Expr length;
  sym::Expr step = 1;
};

// A position along a dim, counted from its start: negative ones count from the end. Its sign may be known only while the program runs.
sym::Expr from_start(sym::Expr position, sym::Expr size);
// Negative bounds count from the end and all are clamped to the dim; absent ones mean the whole of it.
Bounds slice_bounds(sym::Expr size, std::optional<sym::Expr> start, std::optional<sym::Expr> end, sym::Expr step = 1);
// The bounds of the arguments start, end and step of aten::slice and its kin.
Bounds slice_bounds(const Args& a, sym::Expr size);

// An index of a dim where negative ones count from the end. Throws Error{InvalidModel} when it is out of range for sure.
sym::Expr wrap_index(sym::Expr index, sym::Expr size);

// What sizes must satisfy and may or may not is a guard of the program. What they do not satisfy for sure is none: the operation's own rule
// tells.
void guard(Decomposer& d, sym::Expr fact);

// The argument, or nothing when it is absent or None.
std::optional<sym::Expr> optional_integer(const Args& a, std::string_view name);

// dims[from] moves to position `to`, the others keep their order; what torch.movedim does for one dim.
Tensor move_dim(Tensor x, int64_t from, int64_t to);

// The elements of x in the order of its memory, which `type` (with its strides) tells; the first is the one at its storage offset.
// Throws Error{Unsupported} when there are gaps between them.
Tensor storage_of(Tensor x, const TensorType& type);

// The type of the node's argument `name` as the model records it: with its strides and offset.
TensorType recorded_type(const Decomposer& d, const Args& a, std::string_view name);

}  // namespace toroid
