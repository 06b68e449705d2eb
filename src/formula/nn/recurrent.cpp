// gates = x W_ih^T + b_ih  [T, N, gates*H]      step t: gates[t] + h W_hh^T + b_hh
#include "formula/nn/recurrent.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
namespace {

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

RecurrentState lstm_step(Tensor from_input, const RecurrentState& state, const RecurrentWeights& weights) {
  Builder& b = from_input.builder();
  Tensor gates = from_input + gates_of(state[0], weights.hidden, weights.hidden_bias);
  Tensor in = sigmoid(gate(gates, 0, 4)), forget = sigmoid(gate(gates, 1, 4));
  Tensor candidate = tanh(gate(gates, 2, 4)), out = sigmoid(gate(gates, 3, 4));
  Tensor cell = forget * wide(state[1]) + in * candidate;
  Tensor hidden = b.cast(out * tanh(cell), state[0].dtype());
  if (weights.projection.defined()) hidden = b.cast(gates_of(hidden, weights.projection, {}), state[0].dtype());
  return {hidden, b.cast(cell, state[1].dtype())};
}

RecurrentState gru_step(Tensor from_input, const RecurrentState& state, const RecurrentWeights& weights) {
  Tensor from_hidden = gates_of(state[0], weights.hidden, weights.hidden_bias), h = wide(state[0]);
  Tensor reset = sigmoid(gate(from_input, 0, 3) + gate(from_hidden, 0, 3));
  Tensor update = sigmoid(gate(from_input, 1, 3) + gate(from_hidden, 1, 3));
  Tensor candidate = tanh(gate(from_input, 2, 3) + reset * gate(from_hidden, 2, 3));
  return {h.builder().cast((h - candidate) * update + candidate, state[0].dtype())};
}

Tensor tanh_of(Tensor x) { return tanh(x); }
Tensor relu_of(Tensor x) { return maximum(x, 0); }

template <Tensor (*activation)(Tensor)>
RecurrentState elman_step(Tensor from_input, const RecurrentState& state, const RecurrentWeights& weights) {
  Tensor sum = from_input + gates_of(state[0], weights.hidden, weights.hidden_bias);
  return {sum.builder().cast(activation(sum), state[0].dtype())};
}

// From the gates' input part [N, gates*H] and the state before it.
using Step = RecurrentState (*)(Tensor from_input, const RecurrentState& state, const RecurrentWeights& weights);

Step step_of(RecurrentCell cell) {
  switch (cell) {
    case RecurrentCell::Lstm: return lstm_step;
    case RecurrentCell::Gru: return gru_step;
    case RecurrentCell::ElmanTanh: return elman_step<tanh_of>;
    case RecurrentCell::ElmanRelu: return elman_step<relu_of>;
  }
  return nullptr;
}

// ---- sequences ------------------------------------------------------------------------------------------------------

struct Run {
  Tensor outputs;  // [T, N, H]
  RecurrentState last;
};

Run run_direction(Tensor x, RecurrentState state, const RecurrentWeights& weights, Step step, bool backward) {
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

}  // namespace

RecurrentState recurrent_step(RecurrentCell cell, Tensor x, const RecurrentState& state, const RecurrentWeights& weights) {
  return step_of(cell)(gates_of(x, weights.input, weights.input_bias), state, weights);
}

RecurrentResult recurrent_network(Tensor x, const std::vector<Tensor>& states, const std::vector<RecurrentWeights>& weights,
                                  const RecurrentOptions& options) {
  Builder& b = x.builder();
  if (options.batch_first) x = b.transpose(x, 0, 1);
  if (!x.size(0).is_const()) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} over a sequence of symbolic length", options.name))
        .help("export the model with a fixed sequence length");
  }
  if (x.size(0).value() == 0) throw Error(ErrorKind::InvalidModel, "a recurrent network over an empty sequence");
  const int64_t directions = options.bidirectional ? 2 : 1;
  TOROID_CHECK(weights.size() == static_cast<size_t>(options.layers * directions), "weights for each layer and direction");
  std::vector<std::vector<Tensor>> last(states.size());
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t place = layer * directions + direction;
      RecurrentState state;
      for (const Tensor& initial : states) state.push_back(b.select(initial, 0, place));
      const Run run = run_direction(x, state, weights[static_cast<size_t>(place)], step_of(options.cell), direction == 1);
      outputs.push_back(run.outputs);
      for (size_t i = 0; i < states.size(); ++i) last[i].push_back(run.last[i]);
    }
    x = b.cat(outputs, 2);
    if (layer + 1 < options.layers && options.between_layers) x = options.between_layers(x);
  }
  RecurrentResult result{options.batch_first ? b.transpose(x, 0, 1) : x, {}};
  for (const std::vector<Tensor>& state : last) result.states.push_back(b.stack(state, 0));
  return result;
}

}  // namespace toroid::formula
