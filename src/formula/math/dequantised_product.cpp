#include "formula/math/dequantised_product.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "formula/basics/operators.h"

namespace toroid {
namespace {

// value = (quantised - zero) * scale, all of one shape; zero is I32. Undefined: 0, 1.
struct Dequantised {
  Tensor quantised, zero, scale;
};

bool is_byte(DType dtype) { return dtype == DType::I8 || dtype == DType::U8; }

const Node& node_of(Tensor t) { return t.builder().graph().producer(t.id()); }
Tensor operand(Tensor t, size_t i) { return t.builder().wrap(node_of(t).inputs[i]); }

// Is it the same along the dim? By what it is made of, so it may be without being found out.
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

// The same view of another tensor of the same shape.
Tensor viewed(const Op& op, Tensor t, const Sizes& sizes) {
  if (!t.defined()) return t;
  Builder& b = t.builder();
  if (const auto* permute = std::get_if<Permute>(&op)) return b.permute(t, Dims(permute->dims.begin(), permute->dims.end()));
  return b.reshape(t, sizes);
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

// The same along the contracted dim of a factor?
bool fits(const Dequantised& factor, size_t contracted) {
  return (!factor.zero.defined() || is_constant_along(factor.zero, contracted)) &&
         (!factor.scale.defined() || is_constant_along(factor.scale, contracted));
}

// The row or column of what is the same along the dim; one element where it is the same along both.
Tensor one_along(Tensor t, int64_t dim) {
  Builder& b = t.builder();
  Tensor one = b.slice(t, dim, 0, 1);
  const auto other = static_cast<size_t>(1 - dim);
  return is_constant_along(t, other) ? b.slice(one, 1 - dim, 0, 1) : one;
}
Tensor scale_along(const Dequantised& factor, int64_t dim) { return factor.scale.builder().cast(one_along(factor.scale, dim), DType::F32); }

// Is it known to be a number of about a byte?
bool is_small(Tensor t) {
  constexpr double kMost = 1 << 8;
  if (!t.defined()) return true;
  const Node& node = node_of(t);
  if (const auto* full = std::get_if<Full>(&node.op)) {
    if (const auto* real = std::get_if<double>(&full->value)) return std::fabs(*real) <= kMost;
    const auto* expr = std::get_if<sym::Expr>(&full->value);
    return expr != nullptr && expr->is_const() && std::fabs(static_cast<double>(expr->value())) <= kMost;
  }
  const bool shows = std::holds_alternative<Permute>(node.op) || std::holds_alternative<Reshape>(node.op) ||
                     std::holds_alternative<Expand>(node.op) || std::holds_alternative<Cast>(node.op);
  return shows && is_small(operand(t, 0));
}

// As int8, the zero point moved with it.
void make_signed(Dequantised& factor, DType zero_dtype) {
  if (factor.quantised.dtype() == DType::I8) return;
  Builder& b = factor.quantised.builder();
  constexpr int64_t kMiddle = 128;
  auto moved = [&](Tensor t) { return b.binary(ScalarOp::Sub, t, Scalar(sym::Expr(kMiddle))); };
  factor.zero = factor.zero.defined() ? moved(factor.zero) : b.full(factor.quantised.sizes(), zero_dtype, sym::Expr(-kMiddle));
  factor.quantised = b.cast(moved(b.cast(factor.quantised, DType::I32)), DType::I8);
}

Tensor integer_product(Dequantised x, Dequantised y) {
  Builder& b = x.quantised.builder();
  // A tensor's zero points may be of any size.
  constexpr int64_t kDepthFor32Bits = 1 << 12;
  const bool fits_32_bits = is_small(x.zero) && is_small(y.zero) && x.quantised.size(1).value() <= kDepthFor32Bits;
  const DType type = fits_32_bits ? DType::I32 : DType::I64;
  // It is a whole number, also where it is kept as a float.
  for (Dequantised* factor : {&x, &y}) {
    if (factor->zero.defined()) factor->zero = b.cast(factor->zero, type);
  }
  make_signed(y, type);  // on the left the kernels take both
  Tensor p = b.cast(x.quantised, DType::I32), q = b.cast(y.quantised, DType::I32);
  Tensor sums = b.matmul(p, q);
  auto sum_along = [&](Tensor t, int64_t dim) { return b.keep(b.cast(b.sum(t, {dim}), type), {dim}); };
  Tensor zero_q = y.zero.defined() ? one_along(y.zero, 0) : Tensor();
  if (x.zero.defined() || zero_q.defined()) sums = b.cast(sums, type);
  if (x.zero.defined()) {
    Tensor of_columns = sum_along(q, 0);  // of constants as a rule, so it is made once
    if (zero_q.defined()) of_columns = of_columns - b.binary(ScalarOp::Mul, zero_q, Scalar(x.quantised.size(1)));
    sums = sums - one_along(x.zero, 1) * of_columns;
  }
  if (zero_q.defined()) sums = sums - zero_q * sum_along(p, 1);
  Tensor scale = x.scale.defined() ? scale_along(x, 1) : Tensor();
  if (y.scale.defined()) scale = scale.defined() ? scale * scale_along(y, 0) : scale_along(y, 0);
  Tensor result = b.cast(sums, DType::F32);
  return scale.defined() ? result * scale : result;
}

}  // namespace

Tensor dequantised_product(Tensor x, Tensor y) {
  constexpr int64_t kMostDepth = 1 << 15;  // whose products of bytes have sums of 32 bits
  const sym::Expr depth = x.size(1);
  if (!depth.is_const() || depth.value() < 1 || !is_floating(y.dtype()) || y.dtype() == DType::F64) return {};
  const std::optional<Dequantised> right = dequantised(y);
  if (!right || !fits(*right, 0)) return {};
  if (const std::optional<Dequantised> left = dequantised(x);
      left && fits(*left, 1) && left->scale.defined() && y.dtype() == DType::F32 && depth.value() <= kMostDepth) {
    return integer_product(*left, *right);
  }
  if (right->zero.defined() || !right->scale.defined() || right->quantised.dtype() != DType::I8) return {};
  Builder& b = x.builder();
  Tensor sums = b.matmul(b.cast(x, DType::F32), b.cast(right->quantised, DType::F32));
  return b.cast(sums * scale_along(*right, 0), y.dtype());
}

}  // namespace toroid
