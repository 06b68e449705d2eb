// PyTorch's rules for the dtype of a result, and the operators on tensors that follow them.
#include "graph/builder.h"
#include "graph/shape_error.h"
#include "symbolic/real.h"

namespace toroid {

namespace {
// PyTorch's order of categories: bool < integer < float < complex.
int category(DType dtype) { return dtype == DType::Bool ? 0 : is_integral(dtype) ? 1 : is_floating(dtype) ? 2 : 3; }
}  // namespace

DType result_dtype(std::span<const Tensor> tensors) {
  require(!tensors.empty(), "an operator over no tensors has no dtype");
  std::optional<DType> dimensioned;
  std::optional<DType> rank0;
  for (const Tensor& tensor : tensors) {
    std::optional<DType>& slot = tensor.rank() > 0 ? dimensioned : rank0;
    slot = slot ? promote(*slot, tensor.dtype()) : tensor.dtype();
  }
  if (!dimensioned) return *rank0;
  if (!rank0 || category(*rank0) <= category(*dimensioned)) return *dimensioned;
  return promote(*dimensioned, *rank0);
}

DType number_dtype(const Scalar& number) {
  const auto* expr = std::get_if<sym::Expr>(&number);
  if (expr != nullptr) return sym::is_real(*expr) ? DType::F32 : DType::I64;
  return std::holds_alternative<bool>(number) ? DType::Bool : DType::F32;
}

DType result_dtype(Tensor tensor, const Scalar& number) {
  const DType own = number_dtype(number);
  return category(own) <= category(tensor.dtype()) ? tensor.dtype() : own;
}

namespace {
Tensor true_divide(Builder& b, DType dtype, Tensor x, Tensor y) {
  if (!is_floating(dtype)) dtype = DType::F32;
  return b.pointwise(ScalarOp::Div, {b.cast(x, dtype), b.cast(y, dtype)});
}
}  // namespace

Tensor operator+(Tensor a, Tensor b) { return a.builder().binary(ScalarOp::Add, a, b); }
Tensor operator-(Tensor a, Tensor b) { return a.builder().binary(ScalarOp::Sub, a, b); }
Tensor operator*(Tensor a, Tensor b) { return a.builder().binary(ScalarOp::Mul, a, b); }
Tensor operator/(Tensor a, Tensor b) { return true_divide(a.builder(), result_dtype(std::vector<Tensor>{a, b}), a, b); }
Tensor operator+(Tensor a, double b) { return a.builder().binary(ScalarOp::Add, a, Scalar(b)); }
Tensor operator-(Tensor a, double b) { return a.builder().binary(ScalarOp::Sub, a, Scalar(b)); }
Tensor operator*(Tensor a, double b) { return a.builder().binary(ScalarOp::Mul, a, Scalar(b)); }
Tensor operator/(Tensor a, double b) {
  const DType dtype = result_dtype(a, Scalar(b));
  return true_divide(a.builder(), dtype, a, a.builder().scalar(dtype, b));
}
Tensor operator+(double a, Tensor b) { return b.builder().binary(ScalarOp::Add, Scalar(a), b); }
Tensor operator-(double a, Tensor b) { return b.builder().binary(ScalarOp::Sub, Scalar(a), b); }
Tensor operator*(double a, Tensor b) { return b.builder().binary(ScalarOp::Mul, Scalar(a), b); }
Tensor operator/(double a, Tensor b) {
  const DType dtype = result_dtype(b, Scalar(a));
  return true_divide(b.builder(), dtype, b.builder().scalar(dtype, a), b);
}
Tensor operator-(Tensor a) { return a.builder().unary(ScalarOp::Neg, a); }

}  // namespace toroid
