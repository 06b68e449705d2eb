// The forward layer is aten::lstm. The gradient computes the gates again: each hidden state is in the saved output, so they
// need no recurrence, and only two sums run through time. The argument batch_first changes nothing, as in PyTorch: its caller
// has put time first already.
//
//   gates = x W_ih^T + b_ih + h' W_hh^T + b_hh            h' = the states before each step
//   c_t   = f_t*c_(t-1) + i_t*g_t                          forwards
//   dh, dc                                                 backwards; dgates W_hh and dc*f go to the step before
#include "passes/decompose/nn/recurrent/onednn_recurrent.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"

namespace toroid {
namespace {

constexpr int64_t kLstmMode = 2;  // of oneDNN's modes of a cell

struct Layer {
  Tensor x;                            // [T, N, I], in the order of time
  Tensor input_weight, hidden_weight;  // [4H, I], [4H, H]
  Tensor input_bias, hidden_bias;      // [4H]
  Tensor hidden, cell;                 // [N, H]: before the first step
  int64_t steps = 0;
  bool reverse = false, has_biases = false;

  // [T, N, …] from the order of the operator's arguments to that of time, and back.
  Tensor in_time(Tensor t) const { return reverse ? t.builder().flip(t, {0}) : t; }
};

// States are [N, H], or [1, N, H].
Tensor as_state(Tensor state) { return state.rank() == 3 ? state.builder().squeeze(state, 0) : state; }

// `weights` are the schema's names of the two weights and two biases, `states` those of the states.
Layer layer_of(const Args& a, std::initializer_list<std::string_view> weights, std::string_view hidden, std::string_view cell) {
  if (a.constant("mode") != kLstmMode || a.constant("num_layers") != 1 || a.flag("bidirectional")) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} of something else than one LSTM layer in one direction", a.schema().name))
        .help("export the model without decomposing it: aten::lstm, aten::gru and aten::rnn_tanh are supported whole");
  }
  if (!a.integers("batch_sizes").empty()) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} of packed sequences", a.schema().name)).help("run the padded sequence");
  }
  const std::string_view* name = weights.begin();
  Layer layer;
  layer.reverse = a.flag("reverse");
  layer.has_biases = a.flag("has_biases");
  layer.x = layer.in_time(a.tensor("input"));
  layer.input_weight = a.tensor(name[0]);
  layer.hidden_weight = a.tensor(name[1]);
  if (layer.has_biases) {
    layer.input_bias = a.tensor(name[2]);
    layer.hidden_bias = a.tensor(name[3]);
  }
  layer.hidden = as_state(a.tensor(hidden));
  layer.cell = as_state(a.tensor(cell));
  if (!layer.x.size(0).is_const()) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} over a sequence of symbolic length", a.schema().name))
        .help("export the model with a fixed sequence length");
  }
  layer.steps = layer.x.size(0).value();
  layer.x.builder().spend(layer.x.size(0), "steps of a sequence");
  return layer;
}

}  // namespace

std::vector<Tensor> onednn_rnn_layer(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  const Layer layer = layer_of(a, {"weight0", "weight1", "weight2", "weight3"}, "hx_", "cx_");
  std::vector<Tensor> weights = {layer.input_weight, layer.hidden_weight};
  if (layer.has_biases) weights.insert(weights.end(), {layer.input_bias, layer.hidden_bias});
  const std::vector<Tensor> states = {b.unsqueeze(layer.hidden, 0), b.unsqueeze(layer.cell, 0)};
  const std::vector<Tensor> results = d.call("aten::lstm.input", {layer.x, states, weights, layer.has_biases, 1, 0.0, false, false, false});
  const Sizes workspace = d.recorded.size() == 4 ? d.recorded[3].sizes : Sizes{0};
  return {layer.in_time(results[0]), b.reshape(results[1], a.tensor("hx_").sizes()), b.reshape(results[2], a.tensor("cx_").sizes()),
          b.full(workspace, DType::U8, sym::Expr(0))};
}

namespace {

// x [T, N, I] with w [O, I]: the product [T, N, O], computed wide.
Tensor product(Tensor x, Tensor weight) {
  Builder& b = x.builder();
  Sizes sizes = x.sizes();
  sizes.back() = weight.size(0);
  return b.reshape(b.matmul(b.reshape(x, {-1, x.size(-1)}), b.transpose(weight, 0, 1)), sizes);
}

// The sum over steps and batch of grad^T x: [T, N, O], [T, N, I] -> [O, I].
Tensor weight_gradient(Tensor grad, Tensor x) {
  Builder& b = x.builder();
  return b.matmul(b.transpose(b.reshape(grad, {-1, grad.size(-1)}), 0, 1), b.reshape(x, {-1, x.size(-1)}));
}

}  // namespace

std::vector<Tensor> onednn_rnn_layer_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  const Layer layer = layer_of(a, {"weight1", "weight2", "weight3", "weight4"}, "hx_", "cx_tmp");
  const DType dtype = layer.x.dtype();
  Tensor x = wide(layer.x), output = wide(layer.in_time(a.tensor("output")));
  Tensor input_weight = wide(layer.input_weight), hidden_weight = wide(layer.hidden_weight);
  Tensor before = b.unsqueeze(wide(layer.hidden), 0);
  if (layer.steps > 1) before = b.cat({before, b.slice(output, 0, 0, layer.steps - 1)}, 0);
  Tensor gates = product(x, input_weight) + product(before, hidden_weight);
  if (layer.has_biases) gates = gates + wide(layer.input_bias) + wide(layer.hidden_bias);
  const sym::Expr width = layer.hidden.size(-1);
  auto gate = [&](int64_t i) { return b.slice(gates, -1, width * i, width); };
  Tensor in = sigmoid(gate(0)), forget = sigmoid(gate(1)), candidate = tanh(gate(2)), out = sigmoid(gate(3));

  auto at = [&](Tensor t, int64_t step) { return b.select(t, 0, step); };
  std::vector<Tensor> cells = {wide(layer.cell)};
  for (int64_t t = 0; t < layer.steps; ++t) cells.push_back(at(forget, t) * cells.back() + at(in, t) * at(candidate, t));

  auto state_gradient = [&](std::string_view name) {
    return a.has(name) ? as_state(wide(a.tensor(name))) : b.full(cells[0].sizes(), cells[0].dtype(), 0.0);
  };
  Tensor of_hidden = state_gradient("grad_hy"), of_cell = state_gradient("grad_cy");
  Tensor of_output = a.has("grad_output") ? layer.in_time(wide(a.tensor("grad_output"))) : Tensor();
  std::vector<Tensor> of_gates(static_cast<size_t>(layer.steps));
  for (int64_t t = layer.steps; t-- > 0;) {
    if (of_output.defined()) of_hidden = of_hidden + at(of_output, t);
    Tensor i = at(in, t), f = at(forget, t), g = at(candidate, t), o = at(out, t);
    Tensor activated = tanh(cells[static_cast<size_t>(t) + 1]);
    of_cell = of_cell + of_hidden * o * (1.0 - activated * activated);
    Tensor step = b.cat({of_cell * g * i * (1.0 - i), of_cell * cells[static_cast<size_t>(t)] * f * (1.0 - f), of_cell * i * (1.0 - g * g),
                         of_hidden * activated * o * (1.0 - o)},
                        -1);
    of_gates[static_cast<size_t>(t)] = step;
    of_hidden = b.matmul(step, hidden_weight);
    of_cell = of_cell * f;
  }
  Tensor grad = b.stack(of_gates, 0);
  Tensor of_bias = b.cast(b.sum(grad, {0, 1}), dtype);
  Tensor of_x = product(grad, b.transpose(input_weight, 0, 1));
  auto rounded = [&](Tensor t) { return b.cast(t, dtype); };
  return {layer.in_time(rounded(of_x)),
          rounded(weight_gradient(grad, x)),
          rounded(weight_gradient(grad, before)),
          of_bias,
          of_bias,
          b.reshape(rounded(of_hidden), a.tensor("hx_").sizes()),
          b.reshape(rounded(of_cell), a.tensor("cx_tmp").sizes())};
}

}  // namespace toroid
