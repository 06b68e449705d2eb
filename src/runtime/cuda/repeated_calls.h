// Which calls of a program are started as CUDA graphs: those whose sizes came before, of a variant that does nothing a graph cannot hold.
//
// A graph serves calls with the same pointers. Callers take few turns of memory, and state that a program updates has two places, so each
// size has a few graphs; a call with other pointers takes the place of the one that was not used for longest.
#pragma once

#include <list>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/cuda/graph.h"
#include "toroid/program_abi.h"

namespace toroid::cuda {

// What decides the work of a call, but for the sizes: where its tensors are.
using CallPlaces = std::vector<const void*>;
void read_places(const ToroidVariant& variant, const ToroidCall& call, CallPlaces& places);

struct GraphOfCall {
  CallPlaces places;
  Graph graph;
};

struct CallsOfSizes {
  std::vector<int64_t> symbols;
  int calls = 0;
  std::list<GraphOfCall> graphs;  // the one used last first

  // The graph with these places, now the first. Else null.
  GraphOfCall* find(const CallPlaces& places);
  // One that is to be captured, now the first: a new one, or after kMostGraphs the one that was not used for longest.
  GraphOfCall& next();

  static constexpr size_t kMostGraphs = 4;
};

class RepeatedCalls {
 public:
  struct OfVariant {
    std::set<std::string> obstacles;  // why its calls are no graphs: "sort runs on the host"
    std::list<CallsOfSizes> sizes;    // the ones that came last first
  };
  OfVariant& of(const ToroidVariant& variant) { return variants_[&variant]; }
  // The calls with the sizes of this one.
  static CallsOfSizes& same_sizes(OfVariant& variant, const ToroidVariant& tables, const ToroidCall& call);

 private:
  static constexpr size_t kMostSizes = 16;
  std::unordered_map<const ToroidVariant*, OfVariant> variants_;
};

}  // namespace toroid::cuda
