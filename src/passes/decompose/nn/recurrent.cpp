// Recurrent networks, unrolled over a sequence of known length.
//
// What depends on the input alone is one matrix product for the whole sequence; each step adds a product with the
// previous state and the activations of its gates:
//
//   gates = x W_ih^T + b_ih  [T, N, gates*H]      step t: gates[t] + h W_hh^T + b_hh
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/nn/onednn_recurrent.h"

namespace toroid {
namespace {

struct Weights {
  Tensor input, hidden;            // [gates*H, I], [gates*H, H]
  Tensor input_bias, hidden_bias;  // may be undefined
  Tensor projection;               // of the LSTM's output; may be undefined
};

// The hidden state, and the LSTM's cell state after it.
using State = Tensors;
// One step, from the gates' input part [N, gates*H] and the state before it.
using Step = State (*)(Tensor from_input, const State& state, const Weights& weights);

Tensor gates_of(Tensor x, Tensor weight, Tensor bias) {
  Builder& b = x.builder();
  Sizes sizes = x.sizes();
  sizes.back() = weight.size(0);
  Tensor product = b.matmul(b.reshape(x, {sym::floor_div(x.numel(), x.size(-1)), x.size(-1)}), b.transpose(weight, 0, 1));
  product = wide(b.reshape(product, sizes));
  return bias.defined() ? product + wide(bias) : product;
}

Tensor gate(Tensor gates, int64_t i, int64_t count) {
  const sym::Expr width = sym::floor_div(gates.size(-1), count);
  return gates.builder().slice(gates, -1, width * i, width);
}

State lstm_step(Tensor from_input, const State& state, const Weights& weights) {
  Builder& b = from_input.builder();
  Tensor gates = from_input + gates_of(state[0], weights.hidden, weights.hidden_bias);
  Tensor in = sigmoid(gate(gates, 0, 4)), forget = sigmoid(gate(gates, 1, 4));
  Tensor candidate = tanh(gate(gates, 2, 4)), out = sigmoid(gate(gates, 3, 4));
  Tensor cell = forget * wide(state[1]) + in * candidate;
  Tensor hidden = b.cast(out * tanh(cell), state[0].dtype());
  if (weights.projection.defined()) hidden = b.cast(gates_of(hidden, weights.projection, {}), state[0].dtype());
  return {hidden, b.cast(cell, state[1].dtype())};
}

State gru_step(Tensor from_input, const State& state, const Weights& weights) {
  Tensor from_hidden = gates_of(state[0], weights.hidden, weights.hidden_bias), h = wide(state[0]);
  Tensor reset = sigmoid(gate(from_input, 0, 3) + gate(from_hidden, 0, 3));
  Tensor update = sigmoid(gate(from_input, 1, 3) + gate(from_hidden, 1, 3));
  Tensor candidate = tanh(gate(from_input, 2, 3) + reset * gate(from_hidden, 2, 3));
  return {h.builder().cast((h - candidate) * update + candidate, state[0].dtype())};
}

template <ScalarOp Activation>
Tensor activated(Tensor x) {
  return Activation == ScalarOp::Max ? maximum(x, 0) : apply(Activation, x);
}

// An Elman network; Max stands for ReLU.
template <ScalarOp Activation>
State elman_step(Tensor from_input, const State& state, const Weights& weights) {
  Tensor sum = from_input + gates_of(state[0], weights.hidden, weights.hidden_bias);
  return {sum.builder().cast(activated<Activation>(sum), state[0].dtype())};
}

// ---- sequences ------------------------------------------------------------------------------------------------------

struct Run {
  Tensor outputs;  // [T, N, H]
  State last;
};

Run run_direction(Tensor x, State state, const Weights& weights, Step step, bool backward) {
  Builder& b = x.builder();
  const int64_t steps = x.size(0).value();
  b.spend(x.size(0), "steps of a sequence");
  Tensor from_input = gates_of(x, weights.input, weights.input_bias);
  std::vector<Tensor> outputs(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = backward ? steps - 1 - i : i;
    state = step(b.select(from_input, 0, t), state, weights);
    outputs[static_cast<size_t>(t)] = state[0];
  }
  return {b.stack(outputs, 0), state};
}

// `states` are [layers*directions, N, H] each; `params` lists the weights of each layer and direction in turn.
std::vector<Tensor> run_layers(Decomposer& d, const Args& a, const std::vector<Tensor>& states, Step step) {
  Tensor x = a.tensor("input");
  Builder& b = x.builder();
  const Tensors params = a.tensors("params");
  const bool biases = a.flag("has_biases"), batch_first = a.flag("batch_first");
  const int64_t layers = a.constant("num_layers"), directions = a.flag("bidirectional") ? 2 : 1;
  const double dropout = a.flag("train") ? a.number("dropout") : 0;  // of what one layer hands to the next
  const bool projected = states.size() == 2 && !sym::known_eq(states[0].size(2), states[1].size(2));
  const size_t per_run = 2 + (biases ? 2 : 0) + (projected ? 1 : 0);
  if (x.rank() != 3 || layers < 1 || layers > kMaxSteps || params.size() != per_run * static_cast<size_t>(layers * directions)) {
    throw Error(ErrorKind::InvalidModel,
                fmt::format("{} with {} parameters and an input of rank {}", a.schema().name, params.size(), x.rank()));
  }
  if (batch_first) x = b.transpose(x, 0, 1);
  if (!x.size(0).is_const()) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} over a sequence of symbolic length", a.schema().name))
        .help("export the model with a fixed sequence length");
  }
  if (x.size(0).value() == 0) throw Error(ErrorKind::InvalidModel, "a recurrent network over an empty sequence");
  std::vector<std::vector<Tensor>> last(states.size());
  size_t next = 0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      Weights weights{params[next], params[next + 1], {}, {}, {}};
      if (biases) {
        weights.input_bias = params[next + 2];
        weights.hidden_bias = params[next + 3];
      }
      if (projected) weights.projection = params[next + per_run - 1];
      next += per_run;
      State state;
      for (const Tensor& initial : states) state.push_back(b.select(initial, 0, layer * directions + direction));
      const Run run = run_direction(x, state, weights, step, direction == 1);
      outputs.push_back(run.outputs);
      for (size_t i = 0; i < states.size(); ++i) last[i].push_back(run.last[i]);
    }
    x = b.cat(outputs, 2);
    if (layer + 1 < layers) x = d.call1("aten::dropout", {x, dropout, true});
  }
  std::vector<Tensor> results = {batch_first ? b.transpose(x, 0, 1) : x};
  for (const std::vector<Tensor>& state : last) results.push_back(b.stack(state, 0));
  return results;
}

std::vector<Tensor> lstm(Decomposer& d, const Args& a) { return run_layers(d, a, a.tensors("hx"), lstm_step); }
std::vector<Tensor> gru(Decomposer& d, const Args& a) { return run_layers(d, a, {a.tensor("hx")}, gru_step); }
std::vector<Tensor> rnn_tanh(Decomposer& d, const Args& a) { return run_layers(d, a, {a.tensor("hx")}, elman_step<ScalarOp::Tanh>); }
std::vector<Tensor> rnn_relu(Decomposer& d, const Args& a) { return run_layers(d, a, {a.tensor("hx")}, elman_step<ScalarOp::Max>); }

// ---- single steps ---------------------------------------------------------------------------------------------------

State run_cell(const Args& a, const State& state, Step step) {
  const Weights weights{a.tensor("w_ih"), a.tensor("w_hh"), a.optional_tensor("b_ih"), a.optional_tensor("b_hh"), {}};
  return step(gates_of(a.tensor("input"), weights.input, weights.input_bias), state, weights);
}

std::vector<Tensor> lstm_cell(Decomposer&, const Args& a) { return run_cell(a, a.tensors("hx"), lstm_step); }
std::vector<Tensor> gru_cell(Decomposer&, const Args& a) { return run_cell(a, {a.tensor("hx")}, gru_step); }
std::vector<Tensor> rnn_tanh_cell(Decomposer&, const Args& a) { return run_cell(a, {a.tensor("hx")}, elman_step<ScalarOp::Tanh>); }
std::vector<Tensor> rnn_relu_cell(Decomposer&, const Args& a) { return run_cell(a, {a.tensor("hx")}, elman_step<ScalarOp::Max>); }

constexpr DecompositionRow kRows[] = {
    {"aten::lstm.input", lstm},
    {"aten::gru.input", gru},
    {"aten::rnn_tanh.input", rnn_tanh},
    {"aten::rnn_relu.input", rnn_relu},
    {"aten::lstm_cell", lstm_cell},
    {"aten::gru_cell", gru_cell},
    {"aten::rnn_tanh_cell", rnn_tanh_cell},
    {"aten::rnn_relu_cell", rnn_relu_cell},
    {"aten::mkldnn_rnn_layer", onednn_rnn_layer},
    {"aten::mkldnn_rnn_layer_backward", onednn_rnn_layer_backward},
};

}  // namespace

std::span<const DecompositionRow> recurrent_rows() { return kRows; }

}  // namespace toroid
