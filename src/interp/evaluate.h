// Runs a core-level program on the host, one node after the other: slow, plain, and the definition of what each core
// operation means. Every backend is tested against it, and it against PyTorch's recorded results.
//
//   std::vector<HostTensor> outputs = evaluate(program, inputs);
//
// Every value is rounded to its dtype when its node is done, and freed after its last use.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "tensor/host_tensor.h"

namespace toroid {

// What random operators draw from, beside their own place in the program: equal states give equal numbers.
struct RandomSeed {
  uint64_t seed = 0;
  uint64_t call = 0;  // how many calls went before
};

// What the body of a loop (while_loop, map, scan, associative_scan) draws from in its run number `run`, the state around the loop
// being `outer`: the two halves of the Philox block of `outer` whose counter is the complement of `run`.
RandomSeed loop_random(RandomSeed outer, uint64_t run);

struct EvaluateOptions {
  // Called after each node of the main graph and of subgraphs with its results: for printing intermediate values.
  std::function<void(const Graph& graph, const Node& node, std::span<const HostTensor> results)> after_node = {};
  RandomSeed random = {};
};

// All of the graph's outputs (see Program::outputs for which are the user's). Throws Error{InvalidInput} when the
// inputs do not fit the program, Error{Unsupported} for import-level operators that were not decomposed.
std::vector<HostTensor> evaluate(const Program& program, std::span<const HostTensor> inputs, const EvaluateOptions& options = {});

// A weight, buffer or literal as a contiguous array.
HostTensor constant_tensor(const ConstantData& constant);

}  // namespace toroid
