// Sums and extrema of what is only there where a condition holds, as at the edges of an image: a thread leaves out the rest.
#pragma once

#include <optional>

#include "schedule/schedule.h"

namespace toroid::schedule {

struct MaskedStage {
  ExprId condition;
  Stage stage;  // the same, without asking
};
// Of a stage that only reduces values that change nothing where the condition does not hold, which is that of all.
std::optional<MaskedStage> masked_stage(const loop::ExprTable& exprs, const Kernel& kernel, const Stage& stage);

}  // namespace toroid::schedule
