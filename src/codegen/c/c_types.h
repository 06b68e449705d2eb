// Types, literals and operators in C.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "tensor/dtype.h"

namespace toroid::codegen::c {

// As elements lie in memory, and as they are computed with. Throws Error{Unsupported} for dtypes that are not computed with.
std::string_view storage_type(DType dtype);
std::string_view value_type(DType dtype);

// An element of the array `p` at `index` as a value, and a value written there.
std::string load(DType dtype, std::string_view p, std::string_view index);
std::string store(DType dtype, std::string_view p, std::string_view index, std::string_view value);

std::string literal(DType dtype, const Scalar& value, std::string_view symbolic);
// `dtype`: of the operands. Throws Error{Unsupported} for operators that C's library does not have.
std::string apply(ScalarOp op, DType dtype, std::span<const std::string> operands);
std::string convert(DType from, DType to, std::string_view value);

// Includes, and functions that the texts above call.
extern const std::string_view kPrelude;

}  // namespace toroid::codegen::c
