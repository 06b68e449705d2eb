// ATen's recurrent networks and their single steps.
#include "formula/nn/recurrent.h"

#include <fmt/format.h>

#include "base/error.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/nn/recurrent/onednn_recurrent.h"

namespace toroid {
namespace {

using formula::RecurrentCell;

// The list `params` holds for each layer and direction W_ih, W_hh, with biases b_ih and b_hh, and perhaps a projection.
std::vector<formula::RecurrentWeights> listed_weights(const Tensors& params, size_t runs, bool biases, bool projected) {
  std::vector<formula::RecurrentWeights> list;
  const size_t each = 2 + (biases ? 2 : 0) + (projected ? 1 : 0);
  for (size_t next = 0; next < runs * each; next += each) {
    formula::RecurrentWeights weights{params[next], params[next + 1], {}, {}, {}};
    if (biases) {
      weights.input_bias = params[next + 2];
      weights.hidden_bias = params[next + 3];
    }
    if (projected) weights.projection = params[next + each - 1];
    list.push_back(weights);
  }
  return list;
}

// `states` are [layers*directions, N, H] each.
std::vector<Tensor> run_layers(Decomposer& d, const Args& a, const std::vector<Tensor>& states, RecurrentCell cell) {
  Tensor x = a.tensor("input");
  const Tensors params = a.tensors("params");
  const bool biases = a.flag("has_biases");
  formula::RecurrentOptions options{.cell = cell,
                                    .layers = a.constant("num_layers"),
                                    .bidirectional = a.flag("bidirectional"),
                                    .batch_first = a.flag("batch_first"),
                                    .between_layers = {},
                                    .name = a.schema().name};
  const double dropout = a.flag("train") ? a.number("dropout") : 0;  // of what one layer hands to the next
  options.between_layers = [&](Tensor y) { return d.call1("aten::dropout", {y, dropout, true}); };
  const bool projected = states.size() == 2 && !sym::known_eq(states[0].size(2), states[1].size(2));
  const size_t each = 2 + (biases ? 2 : 0) + (projected ? 1 : 0);
  const bool is_possible = options.layers >= 1 && options.layers <= kMaxSteps;
  const size_t runs = !is_possible ? 0 : static_cast<size_t>(options.layers) * (options.bidirectional ? 2 : 1);
  if (x.rank() != 3 || runs == 0 || params.size() != each * runs) {
    throw Error(ErrorKind::InvalidModel,
                fmt::format("{} with {} parameters and an input of rank {}", a.schema().name, params.size(), x.rank()));
  }
  const std::vector<formula::RecurrentWeights> weights = listed_weights(params, runs, biases, projected);
  const formula::RecurrentResult result = formula::recurrent_network(x, states, weights, options);
  std::vector<Tensor> results = {result.outputs};
  results.insert(results.end(), result.states.begin(), result.states.end());
  return results;
}

std::vector<Tensor> lstm(Decomposer& d, const Args& a) { return run_layers(d, a, a.tensors("hx"), RecurrentCell::Lstm); }

template <RecurrentCell kind>
std::vector<Tensor> network(Decomposer& d, const Args& a) {
  return run_layers(d, a, {a.tensor("hx")}, kind);
}

// ---- single steps ---------------------------------------------------------------------------------------------------

std::vector<Tensor> run_cell(const Args& a, const formula::RecurrentState& state, RecurrentCell kind) {
  const formula::RecurrentWeights weights{a.tensor("w_ih"), a.tensor("w_hh"), a.optional_tensor("b_ih"), a.optional_tensor("b_hh"), {}};
  return formula::recurrent_step(kind, a.tensor("input"), state, weights);
}

std::vector<Tensor> lstm_cell(Decomposer&, const Args& a) { return run_cell(a, a.tensors("hx"), RecurrentCell::Lstm); }

template <RecurrentCell kind>
std::vector<Tensor> cell(Decomposer&, const Args& a) {
  return run_cell(a, {a.tensor("hx")}, kind);
}

constexpr DecompositionRow kRecurrentRows[] = {
    {"aten::lstm.input", lstm},
    {"aten::gru.input", network<RecurrentCell::Gru>},
    {"aten::rnn_tanh.input", network<RecurrentCell::ElmanTanh>},
    {"aten::rnn_relu.input", network<RecurrentCell::ElmanRelu>},
    {"aten::lstm_cell", lstm_cell},
    {"aten::gru_cell", cell<RecurrentCell::Gru>},
    {"aten::rnn_tanh_cell", cell<RecurrentCell::ElmanTanh>},
    {"aten::rnn_relu_cell", cell<RecurrentCell::ElmanRelu>},
    {"aten::mkldnn_rnn_layer", onednn_rnn_layer},
    {"aten::mkldnn_rnn_layer_backward", onednn_rnn_layer_backward},
};

}  // namespace

std::span<const DecompositionRow> recurrent_rows() { return kRecurrentRows; }

}  // namespace toroid
