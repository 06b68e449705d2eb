#include "runtime/cuda/repeated_calls.h"

#include <algorithm>

namespace toroid::cuda {

void read_places(const ToroidVariant& variant, const ToroidCall& call, CallPlaces& places) {
  places.clear();
  places.insert(places.end(), call.inputs, call.inputs + variant.contract.num_inputs);
  places.insert(places.end(), call.constants, call.constants + variant.num_constants);
  places.insert(places.end(), call.outputs, call.outputs + variant.num_outputs);
  places.push_back(call.arena);
  places.push_back(call.prepared);
}

GraphOfCall* CallsOfSizes::find(const CallPlaces& places) {
  const auto found = std::find_if(graphs.begin(), graphs.end(), [&](const GraphOfCall& each) { return each.places == places; });
  if (found == graphs.end()) return nullptr;
  graphs.splice(graphs.begin(), graphs, found);
  return &graphs.front();
}

GraphOfCall& CallsOfSizes::next() {
  if (graphs.size() < kMostGraphs) return graphs.emplace_front();
  graphs.splice(graphs.begin(), graphs, std::prev(graphs.end()));
  return graphs.front();
}

CallsOfSizes& RepeatedCalls::same_sizes(OfVariant& variant, const ToroidVariant& tables, const ToroidCall& call) {
  const auto is_same = [&](const CallsOfSizes& each) { return std::equal(each.symbols.begin(), each.symbols.end(), call.symbols); };
  const auto found = std::find_if(variant.sizes.begin(), variant.sizes.end(), is_same);
  if (found != variant.sizes.end()) {
    variant.sizes.splice(variant.sizes.begin(), variant.sizes, found);
    return variant.sizes.front();
  }
  if (variant.sizes.size() >= kMostSizes) variant.sizes.pop_back();
  variant.sizes.emplace_front().symbols.assign(call.symbols, call.symbols + tables.contract.num_symbols);
  return variant.sizes.front();
}

}  // namespace toroid::cuda
