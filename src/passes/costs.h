// What passes ask of the machine, by estimate. The driver, which stands behind passes, answers with the runtime's cost model
// (driver/pipeline/pass_costs.h).
#pragma once

#include <functional>
#include <limits>
#include <optional>

#include "formula/quantization/byte_convolutions.h"
#include "passes/shard/costs.h"
#include "tensor/dtype.h"

namespace toroid {

// [m, k] x [k, n], whose right side is a constant: with its columns after each other in memory, as those of `linear` are, or its rows.
struct ProductToEstimate {
  DType dtype = DType::F32;
  int64_t m = 0, n = 0, k = 0;
  bool by_columns = false;
};

struct PassCosts {
  // Seconds of the quickest implementation. Empty: nothing is known, and passes that weigh costs change nothing.
  std::function<double(const ProductToEstimate&)> product_s = {};
  // The convolutions that are quicker as products of bytes than in float32.
  ByteConvolutions byte_convolutions = ByteConvolutions::None;
  // Whether a convolution that multiplies the margin for the most part is slower than a sum over its filters' elements.
  bool sums_elements = false;
  // Whether a transposed convolution is slower than convolutions with flipped filters.
  bool flips_filters = false;
  // Whether there is a kernel for the gradient of a convolution's filters.
  bool has_backward_weights = false;
  // Whether resampling several dims is slower at once than one dim after the other.
  bool resamples_by_dims = false;
  // Of a program whose collective operations run beside its kernels, and of which all processes are compiled alike.
  std::optional<shard::Costs> beside = {};
  // From how many bytes on two processes swap what they add, where that is so and GPUs copy into each other's memory by engines of their
  // own (runtime/cuda/communication/peer_copies.h).
  double swapped_from_bytes = std::numeric_limits<double>::infinity();
};

}  // namespace toroid
