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
// as far as it is there, rounded in this order; a result of 16 bits is rounded once more when it is stored.
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

// All that the step's epilogue does, if it is that, and if the runtime does it where it has the sums: results of 16 bits of depthwise
// convolutions alone.
std::optional<PostOps> post_ops_of(const loop::LoopProgram& program, const CallStep& step);

}  // namespace toroid::schedule
