// Spells scalar operators in C++, for single values and for lanes of a vector.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor/scalar_op.h"

namespace toroid::codegen {

// An operand as text. `lanes`: it is a vector (a mask for Bool); else a scalar, which is broadcast where needed.
struct OperandText {
  std::string text;
  bool lanes = false;
  bool atom = false;  // needs no parentheses inside an infix expression
};

// In parentheses, if it needs them as an operand.
std::string wrapped(const OperandText& operand);

// The sign between its two operands, in C++ as in Python; "" of an operator that is no sign.
std::string_view infix_sign(ScalarOp op);
// The same between truth values, of those that are the one or the other of two: "|" of a sum, "&" of a product; "" of all others.
std::string_view truth_sign(ScalarOp op);

// The text of op(operands), whose operands have `dtype` (Where: of its second). When any operand is a vector, so is the result.
std::string scalar_text(ScalarOp op, DType dtype, const std::vector<OperandText>& operands);
std::string convert_text(DType from, DType to, const OperandText& operand);
// The same bits as another dtype of equal size, as they are in memory.
std::string bitcast_text(DType from, DType to, const OperandText& operand);
std::string literal_text(DType dtype, double value);
std::string literal_text(DType dtype, int64_t value);
// Combines an accumulator with a value: "acc + x", "op_max_v(acc, x)".
std::string combine_text(ReduceOp op, DType dtype, const OperandText& accumulator, const OperandText& value);
// What leaves a reduction unchanged.
std::string identity_text(ReduceOp op, DType dtype);
// Operators computed by a call into the runtime, in double precision.
bool is_special_function(ScalarOp op);

}  // namespace toroid::codegen
