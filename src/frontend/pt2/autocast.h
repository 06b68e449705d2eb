// Regions under torch.autocast (higher_order::wrap_with_autocast): the file keeps operators as the model calls them, and what autocast
// converts is implied. Here the conversions become explicit, by PyTorch's own lists (ATen/autocast_mode.h, autocast_mode.cpp of 2.15):
//
//   with autocast("cpu", bfloat16):  y = linear(x, w)     =>     y = linear(_to_copy(x, bf16), _to_copy(w, bf16))
//
// Floating tensors that lie on the region's kind of device are converted, but no F64. Operators in no list compute in what they get. That
// PyTorch caches converted weights (cache_enabled) changes no number.
#pragma once

#include <optional>
#include <span>

#include "graph/graph.h"

namespace toroid::pt2 {

// What autocast does where a node stands: for each kind of device on its own.
struct Autocast {
  struct Region {
    bool enabled = false;
    DType dtype = DType::BF16;  // the lower precision
  };
  Region cpu, cuda = {.enabled = false, .dtype = DType::F16};

  Region& of(Device::Type device) { return device == Device::Type::Cpu ? cpu : cuda; }
  const Region& of(Device::Type device) const { return device == Device::Type::Cpu ? cpu : cuda; }
};

// For each tensor among `inputs` (the types of a node's inputs, in order) the dtype that autocast converts it to, its own where it
// converts nothing. `results`: what the model records of the results. Throws Error{Unsupported} for an operator whose inner
// operators PyTorch converts, unless converting its inputs does the same.
std::vector<DType> autocast_inputs(const Autocast& autocast, const Schema& schema, std::span<const Argument> arguments,
                                   std::span<const TensorType> inputs, std::span<const TensorType> results);

}  // namespace toroid::pt2
