// Why computations came to share a step or not (internal to schedule/).
#pragma once

#include <map>
#include <vector>

#include "schedule/fusion/chains.h"
#include "schedule/fusion/group.h"

namespace toroid::schedule {

using EpilogueGroups = std::map<BufferId, const Group*>;                                 // by the product that they are done with
using EpilogueRefusals = std::map<std::pair<BufferId, const Group*>, std::string_view>;  // why a group is not done with a product

std::vector<FusionDecision> explain(const loop::LoopProgram& program, const std::vector<Group>& groups,
                                    const std::vector<Refusal>& refusals, const EpilogueGroups& epilogues,
                                    const EpilogueRefusals& not_done_with, const ChainDecisions& chains, bool fuse);

}  // namespace toroid::schedule
