// Scalar operators of the loop IR in Triton, on tiles.
//
// What is printed means what the operator means (tensor/scalar_op.def) for NaN, infinities and the sign of zero too. Divisions and roots
// are rounded as IEEE 754 says; functions are libdevice's, which CUDA's own are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "tensor/scalar_op.h"

namespace toroid::codegen {

// Why a kernel is not printed in Triton: "floor_div of i64".
class NotInTriton : public std::exception {
 public:
  explicit NotInTriton(std::string why) : why_(std::move(why)) {}
  const char* what() const noexcept override { return why_.c_str(); }

 private:
  std::string why_;
};

std::string triton_type(DType dtype);  // "tl.float32". Throws NotInTriton.
std::string triton_literal(const Scalar& value, DType dtype);
// `operands` are names. dtype: of the operands, of Where the second one's. Throws NotInTriton.
std::string triton_scalar(ScalarOp op, DType dtype, const std::vector<std::string>& operands);
std::string triton_convert(DType from, DType to, const std::string& operand);

// Reductions: what an element is that changes nothing, what combines two tiles, and a tile's elements along dim 1, which stays.
std::string triton_identity(ReduceOp op, DType dtype);
std::string triton_combine(ReduceOp op, DType dtype, const std::string& a, const std::string& b);
// Of ArgMin and ArgMax: the function that takes two elements, each with its place, and gives the better one.
std::string triton_better(ReduceOp op);
std::string triton_reduce(ReduceOp op, DType dtype, const std::string& tile);

// What stands before each kernel: imports, and the functions that the above call.
extern const std::string_view kTritonPrelude;

}  // namespace toroid::codegen
