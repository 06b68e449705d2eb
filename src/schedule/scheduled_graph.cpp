#include "schedule/scheduled_graph.h"

#include <fmt/format.h>

#include "schedule/planner.h"

namespace toroid::schedule {

std::vector<ScheduledGraph> schedule_graphs(std::vector<LoweredGraph> graphs, bool fuse, std::vector<FusionDecision>* decisions,
                                            Forms forms, const Planner& planner) {
  std::vector<ScheduledGraph> result;
  for (LoweredGraph& graph : graphs) {
    const bool is_main = result.empty();
    result.push_back(
        {make_schedule(std::move(graph.loops), fuse, is_main ? decisions : nullptr, forms, is_main ? planner : planner.of_subgraphs()),
         std::move(graph.outputs)});
  }
  return result;
}

}  // namespace toroid::schedule
