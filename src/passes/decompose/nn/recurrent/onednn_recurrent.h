// oneDNN's LSTM layer and its gradient: what PyTorch runs on CPUs, so what a traced training step of an LSTM holds.
#pragma once

#include "passes/decompose/engine/decompose.h"

namespace toroid {

// One layer in one direction: input [T, N, I], states [N, H] or [1, N, H], gates in the order
// in, forget, candidate, out. Throw Error{Unsupported} for other cells, several layers, packed sequences and a symbolic T.

// aten::mkldnn_rnn_layer -> (output, hy, cy, workspace); the workspace, oneDNN's own, holds zeros.
std::vector<Tensor> onednn_rnn_layer(Decomposer& d, const Args& a);
// aten::mkldnn_rnn_layer_backward -> gradients of the input, two weights, two biases, hx and cx.
std::vector<Tensor> onednn_rnn_layer_backward(Decomposer& d, const Args& a);

}  // namespace toroid
