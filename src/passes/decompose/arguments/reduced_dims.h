// The arguments `dim` and `keepdim` of reductions, in all their spellings.
#pragma once

#include "formula/basics/over_dims.h"
#include "passes/decompose/arguments/reduced_dims.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {

// Whether the operator's overload has this argument at all.
bool has_parameter(const Args& a, std::string_view name);

// `dim` may be an int, a list or None, and may be missing as `keepdim` may; an empty list means all dims.
OverDims over_dims(const Args& a, Tensor x);

}  // namespace toroid
