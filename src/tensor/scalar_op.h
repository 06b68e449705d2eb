// Element-wise scalar operators: one closed list for every level of the compiler.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace toroid {

enum class ScalarOp : uint8_t {
#define TOROID_SCALAR_OP(Enum, name, arity, result) Enum,
#include "tensor/scalar_op.def"
#undef TOROID_SCALAR_OP
};

std::string_view to_string(ScalarOp op);
std::optional<ScalarOp> parse_scalar_op(std::string_view name);
int arity(ScalarOp op);
// The dtype of the result for operands of `operand` (for Where: of its second and third operand).
DType result_dtype(ScalarOp op, DType operand);

// How the elements of a reduction combine. ArgMin and ArgMax yield the first index (I64); MeanM2 yields the mean and the
// sum of squared differences from it. Min and Max propagate NaN; ArgMin and ArgMax take the first NaN.
enum class ReduceOp : uint8_t { Sum, Prod, Min, Max, Any, All, ArgMin, ArgMax, MeanM2 };
std::string_view to_string(ReduceOp op);
std::optional<ReduceOp> parse_reduce_op(std::string_view name);

// Inclusive scans. Max and Min also yield the index of the latest extremum, as torch.cummax does.
enum class ScanOp : uint8_t { Sum, Prod, Max, Min, LogAddExp };
std::string_view to_string(ScanOp op);
std::optional<ScanOp> parse_scan_op(std::string_view name);

// How scattered elements combine with what is there, in row-major order of the source.
enum class ScatterMode : uint8_t { Set, Add, Mul, Min, Max };
std::string_view to_string(ScatterMode mode);
std::optional<ScatterMode> parse_scatter_mode(std::string_view name);

}  // namespace toroid
