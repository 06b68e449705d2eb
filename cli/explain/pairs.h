// Why operators are one step or two: the decisions of fusion, as text and as JSON.
#pragma once

#include <map>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "explain/operators.h"
#include "schedule/schedule.h"

namespace toroid::cli {

// The operators, by their provenance, that are computed anew in several steps, which stand beside them.
std::map<size_t, std::vector<size_t>> recomputed(const Graph& graph, const std::vector<schedule::Step>& steps);
void print_recomputed(const Graph& graph, const std::vector<schedule::Step>& steps, const Filter& filter);

// How many pairs are one step, and for which reasons others are two.
void print_counts(const Graph& graph, const schedule::Schedule& schedule, const std::vector<schedule::FusionDecision>& decisions,
                  const Filter& filter);
// Those that the filter takes; without one all that are two steps, or, with `all`, all.
void print_pairs(const Graph& graph, const schedule::Schedule& schedule, const std::vector<schedule::FusionDecision>& decisions,
                 const Filter& filter, bool all);
// Of all pairs.
nlohmann::ordered_json pairs_json(const Graph& graph, const schedule::Schedule& schedule,
                                  const std::vector<schedule::FusionDecision>& decisions);

}  // namespace toroid::cli
