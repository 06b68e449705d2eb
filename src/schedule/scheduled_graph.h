// The scheduled graphs of a program.
#pragma once

#include <string>
#include <vector>

#include "lower/lower.h"
#include "schedule/schedule.h"

namespace toroid::schedule {

struct ScheduledGraph {
  Schedule schedule;
  std::vector<OutputBinding> outputs;
};
// Of the main graph, then of each subgraph. `fuse`, `decisions`, `forms`: see make_schedule; decisions are those of the main graph.
std::vector<ScheduledGraph> schedule_graphs(std::vector<LoweredGraph> graphs, bool fuse = true,
                                            std::vector<FusionDecision>* decisions = nullptr, Forms forms = Forms::Measured,
                                            const Planner& planner = cpu_planner());

}  // namespace toroid::schedule
