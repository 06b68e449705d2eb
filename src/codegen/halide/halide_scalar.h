// Scalar operators of the loop IR as expressions of Halide, in its Python bindings.
//
// What is printed means what the operator means (tensor/scalar_op.def) for NaN, infinities and the sign of zero too. Pipelines are compiled
// with Halide's strict_float, without which it takes all floats to be finite. Truth values are Halide's UInt(1); float16 and bfloat16 are
// computed in Float(32).
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "tensor/scalar_op.h"

namespace toroid::codegen {

// Why a kernel is not printed for Halide: "floor_div of f32".
class NotInHalide : public std::exception {
 public:
  explicit NotInHalide(std::string why) : why_(std::move(why)) {}
  const char* what() const noexcept override { return why_.c_str(); }

 private:
  std::string why_;
};

std::string halide_type(DType dtype);     // "hl.Float(32)", of values in a kernel. Throws NotInHalide.
std::string halide_storage(DType dtype);  // of elements in memory: 16-bit floats as their bits, truth values as bytes. Throws NotInHalide.
std::string halide_literal(const Scalar& value, DType dtype);
// `operands` are names. dtype: of the operands, of Where the second one's. Throws NotInHalide.
std::string halide_scalar(ScalarOp op, DType dtype, const std::vector<std::string>& operands);
std::string halide_convert(DType from, DType to, const std::string& operand);
std::string halide_loaded(DType storage, const std::string& element);  // an element of memory as a value
std::string halide_stored(DType storage, const std::string& value);    // … and back

// Reductions: what an element is that changes nothing, and what combines two.
std::string halide_identity(ReduceOp op, DType dtype);
std::string halide_combine(ReduceOp op, DType dtype, const std::string& a, const std::string& b);

// What stands before each pipeline: the import, and the functions that the above call.
extern const std::string_view kHalidePrelude;

}  // namespace toroid::codegen
