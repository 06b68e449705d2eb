// What it costs to keep the values of a kernel's stashes, and to compute them again where they are needed (internal to schedule/).
#pragma once

#include <unordered_set>
#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

// Two forms whose estimates are closer than this factor are both possible.
inline constexpr double kCloseness = 1.5;

// In cycles for each vector of a row, by the sizes' hints: from the caches that hold all that is in use, and from what is computed. Rough:
// for cores of this decade with vectors of their widest kind.
struct StashCost {
  double keep, again;
};
// By stash, of a kernel that keeps all that it can.
std::vector<StashCost> stash_costs(const loop::LoopProgram& program, const Kernel& kernel);

// What each stash keeps, by its number.
std::vector<ExprId> kept_values(const Kernel& kernel);
// Those of the expressions below `roots` that change along some of the axes.
std::unordered_set<ExprId> varying(const loop::ExprTable& exprs, const std::vector<ExprId>& roots, const std::vector<sym::Expr>& axes);

}  // namespace toroid::schedule
