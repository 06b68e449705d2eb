#include "schedule/scheduled_graph.h"

#include <fmt/format.h>

namespace toroid::schedule {

std::vector<ScheduledGraph> schedule_graphs(std::vector<LoweredGraph> graphs, bool fuse, std::vector<FusionDecision>* decisions,
                                            Forms forms, const Planner& planner) {
  std::vector<ScheduledGraph> result;
  for (LoweredGraph& graph : graphs) {
    result.push_back(
        {make_schedule(std::move(graph.loops), fuse, result.empty() ? decisions : nullptr, forms, planner), std::move(graph.outputs)});
  }
  return result;
}

}  // namespace toroid::schedule
