// What computation and communication take, by estimate.
#pragma once

#include "graph/graph.h"

namespace toroid::shard {

// Of one process, and of the way between two.
struct Costs {
  double operations_per_s = 2e11;
  double memory_bytes_per_s = 2e10;
  double link_bytes_per_s = 5e9;
  double latency_s = 2e-5;  // of one collective operation
  double start_s = 0;       // of a kernel: what it takes besides its work
};

bool is_product(const Op& op);

// With free sizes at their hints.
double bytes(const TensorType& type);

// Seconds of what takes time: products, and attention; 0 of others. The node is done in `parts` equal parts along a dim of its result, of
// each of which it gives the seconds: all of the right side is read for a part of a product.
double seconds(const Graph& graph, const Node& node, const Costs& costs, int64_t parts = 1);

// Seconds in which each of so many processes sends its part of so many bytes to all others.
double gather_seconds(double bytes, int64_t processes, const Costs& costs);

}  // namespace toroid::shard
