// Single steps of LSTM and GRU after the matrix products, as fused kernels compute them, and their gradients.
//
// The forward cells keep a workspace for the gradient: an LSTM the activated gates [i, f, g, o], a GRU
// [r, z, n, h, hidden part of n]. Gates lie side by side along the last dim.
//
//   LSTM   c' = f*c + i*g      h' = o*tanh(c')
//   GRU    n = tanh(in_n + r*hidden_n)      h' = n + z*(h - n)
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

Tensor gate(Tensor gates, int64_t i, int64_t count) {
  const sym::Expr width = sym::floor_div(gates.size(-1), count);
  return gates.builder().slice(gates, -1, width * i, width);
}

// Gradients through sigmoid and tanh, from their results.
Tensor through_sigmoid(Tensor grad, Tensor y) { return grad * y * (1.0 - y); }
Tensor through_tanh(Tensor grad, Tensor y) { return grad * (1.0 - y * y); }

Tensor with_bias(Tensor gates, const Args& a, std::string_view bias) {
  gates = wide(gates);
  return a.has(bias) ? gates + wide(a.tensor(bias)) : gates;
}

// ---- LSTM -----------------------------------------------------------------------------------------------------------

struct LstmGates {
  Tensor in, forget, candidate, out;  // activated, wide
};

LstmGates lstm_gates(const Args& a) {
  Tensor gates = with_bias(a.tensor("input_gates"), a, "input_bias") + with_bias(a.tensor("hidden_gates"), a, "hidden_bias");
  return {sigmoid(gate(gates, 0, 4)), sigmoid(gate(gates, 1, 4)), tanh(gate(gates, 2, 4)), sigmoid(gate(gates, 3, 4))};
}

// (h', c', workspace)
std::vector<Tensor> fused_lstm_cell(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor cx = a.tensor("cx");
  const LstmGates g = lstm_gates(a);
  Tensor cell = g.forget * wide(cx) + g.in * g.candidate;
  auto rounded = [&](Tensor x) { return b.cast(x, cx.dtype()); };
  return {rounded(g.out * tanh(cell)), rounded(cell), rounded(b.cat({g.in, g.forget, g.candidate, g.out}, -1))};
}

struct LstmGradients {
  Tensor gates, cell;
};

LstmGradients lstm_gradients(const Args& a, const LstmGates& g) {
  Tensor cx = wide(a.tensor("cx")), activated = tanh(wide(a.tensor("cy")));
  Tensor of_hidden = wide(a.optional_tensor("grad_hy")), of_cell = wide(a.optional_tensor("grad_cy"));
  Tensor of_out = cx.builder().full(cx.sizes(), cx.dtype(), 0.0);
  if (of_hidden.defined()) {
    of_out = through_sigmoid(of_hidden * activated, g.out);
    Tensor through = through_tanh(of_hidden * g.out, activated);
    of_cell = of_cell.defined() ? of_cell + through : through;
  }
  if (!of_cell.defined()) of_cell = of_out;  // no gradient comes in
  Tensor gates = cx.builder().cat({through_sigmoid(of_cell * g.candidate, g.in), through_sigmoid(of_cell * cx, g.forget),
                                   through_tanh(of_cell * g.in, g.candidate), of_out},
                                  -1);
  return {gates, of_cell * g.forget};
}

Tensor bias_gradient(Tensor gates, DType dtype) { return gates.builder().cast(gates.builder().sum(gates, {0}), dtype); }

// Of the input's and the hidden gates, of the cell state, of both biases.
std::vector<Tensor> differentiable_lstm_cell_backward(Decomposer& d, const Args& a) {
  const DType dtype = a.tensor("cx").dtype();
  const LstmGradients gradients = lstm_gradients(a, lstm_gates(a));
  Tensor gates = d.b.cast(gradients.gates, dtype);
  Tensor bias = a.has("input_bias") ? bias_gradient(gradients.gates, dtype) : Tensor();
  return {gates, gates, d.b.cast(gradients.cell, dtype), bias, bias};
}

LstmGates kept_lstm_gates(const Args& a) {
  Tensor workspace = wide(a.tensor("workspace"));
  return {gate(workspace, 0, 4), gate(workspace, 1, 4), gate(workspace, 2, 4), gate(workspace, 3, 4)};
}

// (gates, cell state, bias)
std::vector<Tensor> fused_lstm_cell_backward_impl(Decomposer& d, const Args& a) {
  const DType dtype = a.tensor("workspace").dtype();
  const LstmGradients gradients = lstm_gradients(a, kept_lstm_gates(a));
  return {d.b.cast(gradients.gates, dtype), d.b.cast(gradients.cell, dtype),
          a.flag("has_bias") ? bias_gradient(gradients.gates, dtype) : Tensor()};
}

std::vector<Tensor> fused_lstm_cell_backward(Decomposer& d, const Args& a) {
  const std::vector<Tensor> gradients = fused_lstm_cell_backward_impl(d, a);
  return {gradients[0], gradients[0], gradients[1], gradients[2], gradients[2]};
}

// ---- GRU ------------------------------------------------------------------------------------------------------------

struct GruGates {
  Tensor reset, update, candidate, hidden, hidden_candidate;  // wide
};

GruGates gru_gates(const Args& a) {
  Tensor input = with_bias(a.tensor("input_gates"), a, "input_bias");
  Tensor hidden = with_bias(a.tensor("hidden_gates"), a, "hidden_bias");
  GruGates g;
  g.reset = sigmoid(gate(input, 0, 3) + gate(hidden, 0, 3));
  g.update = sigmoid(gate(input, 1, 3) + gate(hidden, 1, 3));
  g.hidden_candidate = gate(hidden, 2, 3);
  g.candidate = tanh(gate(input, 2, 3) + g.reset * g.hidden_candidate);
  g.hidden = wide(a.tensor("hx"));
  return g;
}

// (h', workspace)
std::vector<Tensor> fused_gru_cell(Decomposer& d, const Args& a) {
  const DType dtype = a.tensor("hx").dtype();
  const GruGates g = gru_gates(a);
  Tensor workspace = d.b.cat({g.reset, g.update, g.candidate, g.hidden, g.hidden_candidate}, -1);
  return {d.b.cast(g.candidate + g.update * (g.hidden - g.candidate), dtype), d.b.cast(workspace, dtype)};
}

// Of the input's and the hidden gates, of the hidden state, of both biases.
std::vector<Tensor> gru_gradients(Tensor grad_hy, const GruGates& g, bool has_bias) {
  Builder& b = grad_hy.builder();
  const DType dtype = grad_hy.dtype();
  Tensor grad = wide(grad_hy);
  Tensor update = through_sigmoid(grad * (g.hidden - g.candidate), g.update);
  Tensor candidate = through_tanh(grad * (1.0 - g.update), g.candidate);
  Tensor reset = through_sigmoid(candidate * g.hidden_candidate, g.reset);
  Tensor input = b.cat({reset, update, candidate}, -1), hidden = b.cat({reset, update, candidate * g.reset}, -1);
  return {b.cast(input, dtype), b.cast(hidden, dtype), b.cast(grad * g.update, dtype), has_bias ? bias_gradient(input, dtype) : Tensor(),
          has_bias ? bias_gradient(hidden, dtype) : Tensor()};
}

std::vector<Tensor> differentiable_gru_cell_backward(Decomposer&, const Args& a) {
  return gru_gradients(a.tensor("grad_hy"), gru_gates(a), a.has("input_bias"));
}

std::vector<Tensor> fused_gru_cell_backward(Decomposer&, const Args& a) {
  Tensor workspace = wide(a.tensor("workspace"));
  const GruGates g{gate(workspace, 0, 5), gate(workspace, 1, 5), gate(workspace, 2, 5), gate(workspace, 3, 5), gate(workspace, 4, 5)};
  return gru_gradients(a.tensor("grad_hy"), g, a.flag("has_bias"));
}

constexpr DecompositionRow kRecurrentCellRows[] = {
    {"aten::_thnn_fused_lstm_cell", fused_lstm_cell},
    {"aten::_thnn_fused_lstm_cell_backward", fused_lstm_cell_backward},
    {"aten::_thnn_fused_lstm_cell_backward_impl", fused_lstm_cell_backward_impl},
    {"aten::_thnn_differentiable_lstm_cell_backward", differentiable_lstm_cell_backward},
    {"aten::_thnn_fused_gru_cell", fused_gru_cell},
    {"aten::_thnn_fused_gru_cell_backward", fused_gru_cell_backward},
    {"aten::_thnn_differentiable_gru_cell_backward", differentiable_gru_cell_backward},
};

}  // namespace

std::span<const DecompositionRow> recurrent_cell_rows() { return kRecurrentCellRows; }

}  // namespace toroid
