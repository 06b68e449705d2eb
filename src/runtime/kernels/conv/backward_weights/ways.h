// The ways in which backward weights multiplies: in vectors, and in tiles of AMX.
//
// A way's units are so many filters by so many channels. Sums of a unit are [tap][filter][channel].
#pragma once

#include <memory>

#include "runtime/kernels/conv/backward_weights/positions.h"

namespace toroid {

// What a thread has packed of a block of positions.
class PackedPositions {
 public:
  virtual ~PackedPositions() = default;
  // Filters from the unit `first` on, up to `last`; then the channels of a unit. False: they cannot be taken in this way.
  virtual bool pack_filters(int64_t first, int64_t last) = 0;
  virtual bool pack_channels(int64_t unit) = 0;
  // sums (+)= the products of one tap. `filters`: a unit among those that are packed.
  virtual void multiply(int64_t filters, const TapShifts::Tap& tap, bool add, float* sums) const = 0;
};

// The two sides, of one group.
struct BackwardWeightsSides {
  const float *x, *dy;
  ImageStrides x_strides, dy_strides;
};

class BackwardWeightsWay {
 public:
  virtual ~BackwardWeightsWay() = default;
  virtual std::unique_ptr<PackedPositions> take(const PositionBlock& block, const BackwardWeightsSides& sides) const = 0;

  int64_t unit_filters = 1, unit_channels = 1;
  int64_t step = 1;              // positions are taken in whole steps
  int64_t bytes_of_filters = 0;  // of a position, as they are packed, of a unit
  int64_t bytes_of_channels = 0;
  // Cycles, by estimate: of a unit's products at a position, and of a unit's packing.
  double product = 0, pack_filters = 0, pack_channels = 0;
};

// `shape` and `shifts` are to stay.
std::unique_ptr<const BackwardWeightsWay> backward_weights_in_vectors(const BackwardWeightsShape& shape, const TapShifts& shifts);
// Where has_amx_bf16x3().
std::unique_ptr<const BackwardWeightsWay> backward_weights_in_tiles(const BackwardWeightsShape& shape, const TapShifts& shifts);

}  // namespace toroid
