// Recurrent networks: LSTM, GRU and Elman networks, unrolled over a sequence of known length.
//
// Tensors are floating; gates are computed in F32 where they are F16 or BF16, and states rounded after each step. H is the hidden size, I
// the input's; the gates lie side by side, those of x by W_ih and those of h by W_hh:
//
//   LSTM  i, f, g, o   c' = sigmoid(f) c + sigmoid(i) tanh(g)   h' = sigmoid(o) tanh(c')          (Hochreiter and Schmidhuber, 1997)
//   GRU   r, z, n      n = tanh(n_x + sigmoid(r) n_h)           h' = n + sigmoid(z) (h - n)       (Cho et al., 2014)
//   Elman              h' = tanh(x W_ih^T + b_ih + h W_hh^T + b_hh), or relu                      (Elman, 1990)
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "graph/builder.h"

namespace toroid::formula {

enum class RecurrentCell { Lstm, Gru, ElmanTanh, ElmanRelu };

// Of one layer and direction.
struct RecurrentWeights {
  Tensor input, hidden;            // [gates*H, I], [gates*H, H]
  Tensor input_bias, hidden_bias;  // [gates*H]; may be undefined
  Tensor projection;               // of the LSTM's output, [P, H]; may be undefined
};

// The hidden state [N, H], and the LSTM's cell state after it.
using RecurrentState = Tensors;

// One step, from x [N, I] and the state before it.
RecurrentState recurrent_step(RecurrentCell cell, Tensor x, const RecurrentState& state, const RecurrentWeights& weights);

struct RecurrentOptions {
  RecurrentCell cell = RecurrentCell::Lstm;
  int64_t layers = 1;
  bool bidirectional = false;
  bool batch_first = false;                           // x and the outputs are [N, T, …], else [T, N, …]
  std::function<Tensor(Tensor)> between_layers = {};  // what one layer hands to the next: dropout
  std::string_view name;                              // what errors call the network
};

struct RecurrentResult {
  Tensor outputs;              // [T, N, directions*H], those of the direction back after those of the one forth
  std::vector<Tensor> states;  // the last ones, as `states`
};

// x is [T, N, I]; `states`, of which an LSTM has two, are [layers*directions, N, H]; `weights` lists those of each layer and direction in
// turn. What depends on the input alone is one matrix product for the whole sequence. Throws Error{Unsupported} when T is symbolic,
// Error{InvalidModel} when it is 0.
RecurrentResult recurrent_network(Tensor x, const std::vector<Tensor>& states, const std::vector<RecurrentWeights>& weights,
                                  const RecurrentOptions& options);

}  // namespace toroid::formula
