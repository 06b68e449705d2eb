#include "passes/decompose/arguments/operands.h"
#include "formula/basics/precision.h"

namespace toroid {

bool is_number_argument(const Args& a, std::string_view name) {
  const Argument& argument = a.raw(name);
  return std::holds_alternative<sym::Expr>(argument) || std::holds_alternative<double>(argument) || std::holds_alternative<bool>(argument);
}

namespace {

// PyTorch's classes of dtypes: one of a higher class decides alone.
int class_of(DType dtype) { return dtype == DType::Bool ? 0 : is_integral(dtype) ? 1 : 2; }

}  // namespace

DType promoted_dtype(const Args& a, std::initializer_list<std::string_view> names) {
  std::vector<Tensor> tensors;
  DType of_numbers = DType::Bool;
  for (std::string_view name : names) {
    if (!a.has(name)) continue;
    if (is_number_argument(a, name)) {
      of_numbers = promote(of_numbers, number_dtype(a.scalar(name)));
    } else {
      tensors.push_back(require_real(a.tensor(name)));
    }
  }
  if (tensors.empty()) return of_numbers;
  const DType of_tensors = result_dtype(tensors);
  return class_of(of_numbers) > class_of(of_tensors) ? of_numbers : of_tensors;
}

Tensor operand(Decomposer& d, const Args& a, std::string_view name, DType dtype) {
  require_real(dtype);
  if (is_number_argument(a, name)) return d.b.scalar(dtype, a.scalar(name));
  return d.b.cast(require_real(a.tensor(name)), dtype);
}

}  // namespace toroid
