// ATen's activation functions.
#include "formula/nn/activation.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/rows.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// Bounds of integers are integers, and clamp says what becomes of those beyond the dtype.
std::vector<Tensor> hardtanh(Decomposer& d, const Args& a) {
  if (is_integral(a.tensor("self").dtype())) {
    const auto bound = [&](std::string_view name) {
      const double value = a.number(name);
      if (!(value >= -0x1p63 && value < 0x1p63)) throw Error(ErrorKind::InvalidModel, fmt::format("a bound of {} for integers", value));
      return static_cast<int64_t>(value);
    };
    return {d.call1("aten::clamp", {a.tensor("self"), bound("min_val"), bound("max_val")})};
  }
  return {formula::hardtanh(a.tensor("self"), a.scalar("min_val"), a.scalar("max_val"))};
}

std::vector<Tensor> threshold(Decomposer&, const Args& a) {
  return {formula::threshold(a.tensor("self"), a.scalar("threshold"), a.scalar("value"))};
}

std::vector<Tensor> gelu(Decomposer&, const Args& a) {
  const std::string approximate = a.text("approximate");
  if (approximate == "none") return {formula::gelu(a.tensor("self"), formula::GeluApproximation::None)};
  if (approximate == "tanh") return {formula::gelu(a.tensor("self"), formula::GeluApproximation::Tanh)};
  throw Error(ErrorKind::InvalidModel, fmt::format("gelu approximation '{}'", approximate));
}

std::vector<Tensor> softplus(Decomposer&, const Args& a) {
  return {formula::softplus(a.tensor("self"), a.number("beta"), a.number("threshold"))};
}

// The second result only helps PyTorch's backward on the CPU: exp(-|x|).
std::vector<Tensor> log_sigmoid_forward(Decomposer& d, const Args& a) {
  Tensor x = require_real(a.tensor("self"));
  Tensor buffer = compute_wide(x, [](Tensor x) { return exp(-abs(x)); });
  if (d.recorded.size() == 2 && d.recorded[1].numel().is_const(0)) buffer = d.b.full(d.recorded[1].sizes, buffer.dtype(), 0.0);
  return {formula::log_sigmoid(x), buffer};
}

std::vector<Tensor> elu(Decomposer&, const Args& a) {
  return {formula::elu(a.tensor("self"), a.number("alpha"), a.number("scale"), a.number("input_scale"))};
}
std::vector<Tensor> celu(Decomposer&, const Args& a) { return {formula::celu(a.tensor("self"), a.number("alpha"))}; }

std::vector<Tensor> leaky_relu(Decomposer&, const Args& a) { return {formula::leaky_relu(a.tensor("self"), a.scalar("negative_slope"))}; }

// One slope for all or one a channel (dim 1).
std::vector<Tensor> prelu(Decomposer&, const Args& a) { return {formula::prelu_of_channels(a.tensor("self"), a.tensor("weight"))}; }
std::vector<Tensor> prelu_kernel(Decomposer&, const Args& a) { return {formula::prelu(a.tensor("self"), a.tensor("weight"))}; }

std::vector<Tensor> hardshrink(Decomposer&, const Args& a) { return {formula::hardshrink(a.tensor("self"), a.number("lambd"))}; }
std::vector<Tensor> softshrink(Decomposer&, const Args& a) { return {formula::softshrink(a.tensor("self"), a.number("lambd"))}; }

std::vector<Tensor> glu(Decomposer&, const Args& a) { return {formula::glu(a.tensor("self"), a.constant("dim"))}; }

constexpr DecompositionRow kActivationRows[] = {
    {"aten::relu", of_self<formula::relu>},
    {"aten::relu6", of_self<formula::relu6>},
    {"aten::hardtanh", hardtanh},
    {"aten::threshold", threshold},
    {"aten::gelu", gelu},
    {"aten::silu", of_self<formula::silu>},
    {"aten::mish", of_self<formula::mish>},
    {"aten::softplus", softplus},
    {"aten::log_sigmoid", of_self<formula::log_sigmoid>},
    {"aten::log_sigmoid_forward", log_sigmoid_forward},
    {"aten::elu", elu},
    {"aten::celu", celu},
    {"aten::selu", of_self<formula::selu>},
    {"aten::leaky_relu", leaky_relu},
    {"aten::prelu", prelu},
    {"aten::_prelu_kernel", prelu_kernel},
    {"aten::hardsigmoid", of_self<formula::hardsigmoid>},
    {"aten::hardswish", of_self<formula::hardswish>},
    {"aten::hardshrink", hardshrink},
    {"aten::softshrink", softshrink},
    {"aten::glu", glu},
};

}  // namespace

std::span<const DecompositionRow> activation_rows() { return kActivationRows; }

}  // namespace toroid
