// Epilogues that are post-operations, which the runtime does where it has the sums (ToroidPostOps), recognised by what they compute. The
// program's own code does all others.
//
//   relu(residual[row, column] + (product * scale[column] + bias[column]))      a batch norm's, with a residual and an activation
//
// The match is on the order of rounding too: an addition may have its operands turned around, but (product + residual) + bias is something
// else.
#pragma once

#include <limits>
#include <optional>

#include "schedule/schedule.h"

namespace toroid::schedule {

// out[row, column] = min(max(product * scale[column] + bias[column] + residual[row, column], low), high) in float32, each factor and term
// as far as it is there, rounded in this order.
struct PostOps {
  struct Place {
    BufferId buffer;
    sym::Expr offset;   // of row 0 and column 0
    sym::Expr row = 0;  // from row to row; the columns are next to each other
    bool operator==(const Place&) const = default;
  };
  std::optional<Place> scale = {}, bias = {}, residual = {};
  Place out;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  bool operator==(const PostOps&) const = default;
};

// All that the epilogue (Kernel::product) does, if it is that.
std::optional<PostOps> post_ops_of(const loop::LoopProgram& program, const Kernel& epilogue);

}  // namespace toroid::schedule
