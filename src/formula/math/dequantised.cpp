#include "formula/math/dequantised.h"

#include <algorithm>

namespace toroid {
namespace {

bool is_byte(DType dtype) { return dtype == DType::I8 || dtype == DType::U8; }

// The same view of another tensor of the same shape.
Tensor viewed(const Op& op, Tensor t, const Sizes& sizes) {
  if (!t.defined()) return t;
  Builder& b = t.builder();
  if (const auto* permute = std::get_if<Permute>(&op)) return b.permute(t, Dims(permute->dims.begin(), permute->dims.end()));
  return b.reshape(t, sizes);
}

}  // namespace

bool is_constant_along(Tensor t, size_t dim) {
  if (t.sizes()[dim].is_const(1)) return true;
  const Node& node = node_of(t);
  if (std::holds_alternative<Full>(node.op)) return true;
  if (const auto* permute = std::get_if<Permute>(&node.op))
    return is_constant_along(operand(t, 0), static_cast<size_t>(permute->dims[dim]));
  if (std::holds_alternative<Expand>(node.op)) return is_constant_along(operand(t, 0), dim);
  if (std::holds_alternative<Cast>(node.op) || std::holds_alternative<Pointwise>(node.op)) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!is_constant_along(operand(t, i), dim)) return false;
    }
    return true;
  }
  if (std::holds_alternative<Reshape>(node.op)) {  // that leaves the last dim, or the dims up to this one, as they are
    const Tensor from = operand(t, 0);
    const size_t rank = t.sizes().size(), old_rank = from.sizes().size();
    if (dim + 1 == rank && old_rank > 0 && sym::known_eq(t.size(-1), from.size(-1))) return is_constant_along(from, old_rank - 1);
    if (dim >= old_rank) return false;
    if (std::equal(t.sizes().begin(), t.sizes().begin() + static_cast<std::ptrdiff_t>(dim) + 1, from.sizes().begin()))
      return is_constant_along(from, dim);
  }
  return false;
}

std::optional<Dequantised> dequantised(Tensor t) {
  const Node& node = node_of(t);
  if (std::holds_alternative<Permute>(node.op) || std::holds_alternative<Reshape>(node.op)) {
    const Op op = node.op;
    const Sizes sizes = t.sizes();
    std::optional<Dequantised> inner = dequantised(operand(t, 0));
    if (!inner) return std::nullopt;
    return Dequantised{viewed(op, inner->quantised, sizes), viewed(op, inner->zero, sizes), viewed(op, inner->scale, sizes)};
  }
  if (std::holds_alternative<Cast>(node.op)) {
    const Tensor from = operand(t, 0);
    if (is_byte(from.dtype())) {
      const bool is_exact = is_floating(t.dtype()) || t.dtype() == DType::I16 || t.dtype() == DType::I32 || t.dtype() == DType::I64;
      return is_exact ? std::optional<Dequantised>({from, {}, {}}) : std::nullopt;
    }
    // A difference of integers made a float, or a float in another precision: where the program itself asks for one it is no plain cast.
    if (!is_floating(t.dtype()) || (!is_integral(from.dtype()) && !is_floating(from.dtype()))) return std::nullopt;
    return dequantised(from);
  }
  const auto* pointwise = std::get_if<Pointwise>(&node.op);
  if (pointwise == nullptr || node.inputs.size() != 2) return std::nullopt;
  Tensor first = operand(t, 0), second = operand(t, 1);
  if (pointwise->op == ScalarOp::Sub) {
    std::optional<Dequantised> of = dequantised(first);
    if (!of || of->zero.defined() || of->scale.defined()) return std::nullopt;
    of->zero = second;
    return of;
  }
  if (pointwise->op != ScalarOp::Mul || !is_floating(t.dtype())) return std::nullopt;
  std::optional<Dequantised> of = dequantised(first);
  if (!of) {
    of = dequantised(second);
    second = first;
  }
  if (!of) return std::nullopt;
  of->scale = of->scale.defined() ? of->scale * second : second;
  return of;
}

std::optional<double> stated_number(const Scalar& scalar) {
  if (const auto* real = std::get_if<double>(&scalar)) return *real;
  const auto* expr = std::get_if<sym::Expr>(&scalar);
  return expr != nullptr && expr->is_const() ? std::optional(static_cast<double>(expr->value())) : std::nullopt;
}

std::optional<double> stated_number(Tensor t) {
  const Node* node = &node_of(t);
  while (std::holds_alternative<Cast>(node->op) || std::holds_alternative<Expand>(node->op) || std::holds_alternative<Reshape>(node->op) ||
         std::holds_alternative<Permute>(node->op))
    node = &t.builder().graph().producer(node->inputs[0]);
  const auto* full = std::get_if<Full>(&node->op);
  return full != nullptr ? stated_number(full->value) : std::nullopt;
}

}  // namespace toroid
