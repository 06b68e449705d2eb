// Sums of products: matrix multiplication, convolution, attention. Plain loops over double (integers: int64_t,
// wrapping), rounded once at the end.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tensor/host_tensor.h"

namespace toroid {

HostTensor matmul(const HostTensor& a, const HostTensor& b);

struct ConvolutionSizes {
  std::vector<int64_t> stride, padding, dilation;  // one a spatial dim
  bool transposed = false;
  int64_t groups = 1;
};
HostTensor convolution(const HostTensor& x, const HostTensor& weight, const HostTensor* bias, const ConvolutionSizes& how,
                       std::vector<int64_t> sizes);

// `mask` is added to the scores, or, when Bool, is where a query may look; its sizes of 1 repeat. A query that may look
// nowhere gives 0.
HostTensor attention(const HostTensor& q, const HostTensor& k, const HostTensor& v, const HostTensor* mask, bool causal, double scale);

// The same in two parts (passes/attention/write_scores.h), [B, H, L, E] each; k and v may have fewer heads. q k^T, in F32.
HostTensor attention_product(const HostTensor& q, const HostTensor& k);
// softmax(scores) v, in v's dtype. `nan_of_nothing`: what a query is whose scores are all -inf, else 0.
HostTensor attention_of_scores(const HostTensor& scores, const HostTensor& v, bool nan_of_nothing);

}  // namespace toroid
