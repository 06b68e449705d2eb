// Gradients of activations, softmax, losses, indexing and pooling, as they appear in exported training graphs.
//
// `grad` is always the gradient of the result. What a formula needs of the forward pass is an argument: the input, or
// the output where the derivative is cheaper in its terms.
#include <cmath>
#include <numbers>

#include "passes/decompose/formula.h"
#include "passes/decompose/index_tensors.h"
#include "passes/decompose/loss_reduction.h"
#include "passes/decompose/operands.h"
#include "passes/decompose/precision.h"

namespace toroid {
namespace {

template <class F, class... Names>
std::vector<Tensor> derivative(Decomposer& d, const Args& a, F f, Names... names) {
  return combine(d, a, as_floating(promoted_dtype(a, {names...})), f, names...);
}

// ---- activations ----------------------------------------------------------------------------------------------------

std::vector<Tensor> gelu_backward(Decomposer& d, const Args& a) {
  const bool by_tanh = a.text("approximate") == "tanh";
  auto f = [by_tanh](Tensor grad, Tensor x) {
    if (!by_tanh) {
      Tensor cumulative = 0.5 * (erf(x * std::numbers::sqrt2 / 2) + 1.0);
      Tensor density = exp(-0.5 * x * x) * (0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2);
      return grad * (cumulative + x * density);
    }
    const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, cubic = 0.044715;
    Tensor t = tanh(scale * (x + cubic * x * x * x));
    Tensor slope = scale * (3 * cubic * x * x + 1.0);
    return grad * (0.5 * (t + 1.0) + 0.5 * x * (1.0 - t * t) * slope);
  };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> threshold_backward(Decomposer& d, const Args& a) {
  const double threshold = a.number("threshold");
  auto f = [=](Tensor grad, Tensor x) { return where(x <= threshold, 0, grad); };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> tanh_backward(Decomposer& d, const Args& a) {
  return derivative(
      d, a, [](Tensor grad, Tensor y) { return grad * (1.0 - y * y); }, "grad_output", "output");
}

std::vector<Tensor> sigmoid_backward(Decomposer& d, const Args& a) {
  return derivative(
      d, a, [](Tensor grad, Tensor y) { return grad * (1.0 - y) * y; }, "grad_output", "output");
}

std::vector<Tensor> silu_backward(Decomposer& d, const Args& a) {
  auto f = [](Tensor grad, Tensor x) {
    Tensor s = sigmoid(x);
    return grad * s * (x * (1.0 - s) + 1.0);
  };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> hardswish_backward(Decomposer& d, const Args& a) {
  auto f = [](Tensor grad, Tensor x) { return where(x < -3.0, 0, where(x <= 3.0, grad * (x / 3.0 + 0.5), grad)); };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> hardsigmoid_backward(Decomposer& d, const Args& a) {
  auto f = [](Tensor grad, Tensor x) { return where((x > -3.0) & (x < 3.0), grad / 6.0, 0); };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> hardtanh_backward(Decomposer& d, const Args& a) {
  const double low = a.number("min_val"), high = a.number("max_val");
  auto f = [=](Tensor grad, Tensor x) { return where((x <= low) | (x >= high), 0, grad); };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> leaky_relu_backward(Decomposer& d, const Args& a) {
  const double slope = a.number("negative_slope");
  auto f = [=](Tensor grad, Tensor x) { return where(x > 0, grad, grad * slope); };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> elu_backward(Decomposer& d, const Args& a) {
  const double alpha = a.number("alpha"), scale = a.number("scale"), input_scale = a.number("input_scale");
  const bool is_result = a.flag("is_result");
  auto f = [=](Tensor grad, Tensor x) {
    Tensor negative = is_result ? grad * input_scale * (x + alpha * scale)
                                : grad * (input_scale * alpha * scale) * exp(x * input_scale);
    return where(x <= 0, negative, grad * scale);
  };
  return derivative(d, a, f, "grad_output", "self_or_result");
}

std::vector<Tensor> softplus_backward(Decomposer& d, const Args& a) {
  const double beta = a.number("beta"), threshold = a.number("threshold");
  auto f = [=](Tensor grad, Tensor x) { return where(x * beta > threshold, grad, grad * sigmoid(x * beta)); };
  return derivative(d, a, f, "grad_output", "self");
}

std::vector<Tensor> native_dropout_backward(Decomposer& d, const Args& a) {
  const double scale = a.number("scale");
  auto f = [=](Tensor grad, Tensor mask) { return grad * mask * scale; };
  return derivative(d, a, f, "grad_output", "mask");
}

// ---- softmax and losses ---------------------------------------------------------------------------------------------

Tensor sum_along(Tensor x, int64_t dim) {
  return x.rank() == 0 ? x : x.builder().keep(x.builder().sum(x, {dim}), {dim});
}

std::vector<Tensor> softmax_backward(Decomposer& d, const Args& a) {
  Tensor grad = wide(a.tensor("grad_output")), y = wide(a.tensor("output"));
  return {d.b.cast(y * (grad - sum_along(grad * y, a.constant("dim"))), *a.dtype("input_dtype"))};
}

std::vector<Tensor> log_softmax_backward(Decomposer& d, const Args& a) {
  Tensor grad = wide(a.tensor("grad_output")), y = wide(a.tensor("output"));
  return {d.b.cast(grad - exp(y) * sum_along(grad, a.constant("dim")), *a.dtype("input_dtype"))};
}

// -weight of the target's class at the target's class, zero at all others.
std::vector<Tensor> nll_loss_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self"), grad = wide(a.tensor("grad_output")), class_weight = wide(a.optional_tensor("weight"));
  const int64_t dim = x.rank() == 1 ? 0 : 1;
  Tensor target = b.unsqueeze(b.cast(a.tensor("target"), DType::I64), dim);
  if (loss_reduction(a) == LossReduction::Mean) grad = grad / wide(a.tensor("total_weight"));
  if (grad.rank() > 0) grad = b.unsqueeze(grad, dim);
  Tensor classes = positions(b, x.size(dim), dim, x.rank());
  if (class_weight.defined()) {
    Sizes sizes(x.sizes().size(), 1);
    sizes[static_cast<size_t>(dim)] = x.size(dim);
    grad = grad * b.reshape(class_weight, sizes);
  }
  Tensor is_target = eq(classes, target) & b.binary(ScalarOp::Ne, target, Scalar(a.integer("ignore_index")));
  return {b.cast(b.expand(where(is_target, -grad, 0), x.sizes()), x.dtype())};
}

std::vector<Tensor> mse_loss_backward(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  const bool is_mean = loss_reduction(a) == LossReduction::Mean;
  auto f = [&](Tensor grad, Tensor prediction, Tensor target) {
    Tensor slope = 2.0 * (prediction - target) * grad;
    return is_mean ? slope / number_like(slope, Scalar(x.numel())) : slope;
  };
  return derivative(d, a, f, "grad_output", "self", "target");
}

// ---- indexing -------------------------------------------------------------------------------------------------------

// Row i of the gradient is the sum of the gradients of all reads of row i.
std::vector<Tensor> embedding_dense_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor grad = a.tensor("grad_output"), indices = b.cast(a.tensor("indices"), DType::I64);
  const sym::Expr rows = a.integer("num_weights"), width = grad.size(-1);
  Tensor flat = b.reshape(indices, {indices.numel()});
  Tensor source = wide(b.reshape(grad, {indices.numel(), width}));
  Tensor counts = b.binary(ScalarOp::Ne, flat, Scalar(a.integer("padding_idx")));
  if (a.flag("scale_grad_by_freq")) {
    Tensor none = b.full({rows}, source.dtype(), 0.0);
    Tensor frequency = b.scatter(none, b.scalar(source.dtype(), 1.0), {flat}, ScatterMode::Add);
    source = source / b.unsqueeze(b.gather(frequency, {flat}), 1);
  }
  source = where(b.unsqueeze(counts, 1), source, 0);
  Tensor zeros = b.full({rows, width}, source.dtype(), 0.0);
  Tensor sum = b.scatter(zeros, source, {b.unsqueeze(flat, 1), positions(b, width, 1, 2)}, ScatterMode::Add);
  return {b.cast(sum, grad.dtype())};
}

// `grad` at positions start, start + step, … of dim `dim`, zero elsewhere.
Tensor spread_along(Tensor grad, const Sizes& sizes, int64_t dim, sym::Expr start, sym::Expr step) {
  Builder& b = grad.builder();
  const size_t at = static_cast<size_t>(dim);
  if (step.is_const(1)) {
    Sizes low(sizes.size(), 0), high = low;
    low[at] = start;
    high[at] = sizes[at] - start - grad.sizes()[at];
    return b.pad(grad, low, high, 0.0);
  }
  std::vector<Tensor> index;
  for (int64_t i = 0; i < grad.rank(); ++i) index.push_back(positions(b, grad.size(i), i, grad.rank()));
  index[at] = b.binary(ScalarOp::Add, b.binary(ScalarOp::Mul, index[at], Scalar(step)), Scalar(start));
  return b.scatter(b.full(sizes, grad.dtype(), 0.0), grad, index, ScatterMode::Set);
}

sym::Expr wrap_position(sym::Expr position, sym::Expr size) {
  return position.is_const() && position.value() < 0 ? position + size : position;
}

std::vector<Tensor> select_backward(Decomposer& d, const Args& a) {
  const Sizes sizes = a.integers("input_sizes");
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), static_cast<int64_t>(sizes.size()));
  const sym::Expr index = wrap_position(a.integer("index"), sizes[static_cast<size_t>(dim)]);
  return {spread_along(d.b.unsqueeze(a.tensor("grad_output"), dim), sizes, dim, index, 1)};
}

std::vector<Tensor> slice_backward(Decomposer& d, const Args& a) {
  const Sizes sizes = a.integers("input_sizes");
  const int64_t dim = d.b.wrap_dim(a.constant("dim"), static_cast<int64_t>(sizes.size()));
  const sym::Expr start =
      sym::min(wrap_position(a.integer("start"), sizes[static_cast<size_t>(dim)]), sizes[static_cast<size_t>(dim)]);
  return {spread_along(a.tensor("grad_output"), sizes, dim, start, a.integer("step"))};
}

// Each maximum passes its gradient to the element it came from.
std::vector<Tensor> max_pool_with_indices_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self"), grad = a.tensor("grad_output"), indices = a.tensor("indices");
  const size_t spatial = a.integers("kernel_size").size(), leading = x.sizes().size() - spatial;
  const sym::Expr planes = sym::product(std::span(x.sizes()).first(leading));
  const Sizes flat = {planes, sym::product(std::span(grad.sizes()).subspan(leading))};
  Tensor zeros = b.full({planes, sym::product(std::span(x.sizes()).subspan(leading))}, compute_dtype(x.dtype()), 0.0);
  Tensor sum = b.scatter(zeros, wide(b.reshape(grad, flat)), {positions(b, planes, 0, 2), b.reshape(indices, flat)},
                         ScatterMode::Add);
  return {b.cast(b.reshape(sum, x.sizes()), x.dtype())};
}

constexpr DecompositionRow kRows[] = {
    {"aten::gelu_backward", gelu_backward},
    {"aten::threshold_backward", threshold_backward},
    {"aten::tanh_backward", tanh_backward},
    {"aten::sigmoid_backward", sigmoid_backward},
    {"aten::silu_backward", silu_backward},
    {"aten::hardswish_backward", hardswish_backward},
    {"aten::hardsigmoid_backward", hardsigmoid_backward},
    {"aten::hardtanh_backward", hardtanh_backward},
    {"aten::leaky_relu_backward", leaky_relu_backward},
    {"aten::elu_backward", elu_backward},
    {"aten::softplus_backward", softplus_backward},
    {"aten::native_dropout_backward", native_dropout_backward},
    {"aten::_softmax_backward_data", softmax_backward},
    {"aten::_log_softmax_backward_data", log_softmax_backward},
    {"aten::nll_loss_backward", nll_loss_backward},
    {"aten::nll_loss2d_backward", nll_loss_backward},
    {"aten::mse_loss_backward", mse_loss_backward},
    {"aten::embedding_dense_backward", embedding_dense_backward},
    {"aten::select_backward", select_backward},
    {"aten::slice_backward", slice_backward},
    {"aten::max_pool2d_with_indices_backward", max_pool_with_indices_backward},
    {"aten::max_pool3d_with_indices_backward", max_pool_with_indices_backward},
};

}  // namespace

std::span<const DecompositionRow> backward_rows() { return kRows; }

}  // namespace toroid
