// A model cut for several processes, each of which compiles and runs its own part: tensor parallelism.
//
//   w: f32[128, 64] = constant(0)                  w: f32[64, 64] = constant(0)        rows of the weights: columns of the product
//   y = matmul(x, permute(w))              =>      y: f32[8, 64] = matmul(x, permute(w))
//   v: f32[64, 128] = constant(1)                  v: f32[64, 64] = constant(1)
//   z = matmul(gelu(y), permute(v))                z = collectives.all_reduce(matmul(gelu(y), permute(v)))
//
// What is cut, and where processes communicate: plan.h. A process's program holds its part of the weights that are cut, copied, under their
// names; other weights stay where they are. All processes have the same inputs and results, except those that rules cut.
#pragma once

#include <string>

#include "graph/graph.h"
#include "passes/shard/plan.h"

namespace toroid {

struct ShardOptions {
  int processes = 1;       // 1: nothing is cut
  int rank = 0;            // of the process whose part is wanted
  std::string rules = {};  // text of shard/rules.h
  shard::Costs costs = {};
};

// Needs core level; gives the part of process `rank`, which refuses to run as another one. The plan is that of the whole program.
// Throws Error{InvalidOption} for ranks that are none, and what plan_shards throws.
shard::Plan shard_program(Program& program, const ShardOptions& options);

}  // namespace toroid
