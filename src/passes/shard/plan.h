// Which values of a program several processes share out among them, and where they communicate.
//
// Products by weights begin it: each may be sharded by columns (Shoeybi et al., "Megatron-LM", 2019). What follows from a sharded product
// is sharded as far as the operations' rules go (sharding.h); a product whose left side arrives sharded along its depth is one by rows,
// whose partial sums are added. So a perceptron and an attention come out with one reduction each. Where no rule goes on, a value is
// gathered.
//
// What begins together and meets again is one region. It stays sharded where the time that its products take less is more than that of
// its communication, by the estimates of Costs.
//
// Regions of attention may be sharded along the batch in the place of their weights (as SGLang's data-parallel attention is, Zheng et al.,
// 2024): each process has its part of the batch, and all of their weights. Then all that rules let through is so, norms and residuals, too,
// and what the other regions read is gathered; what they add is scattered, each process having the sum of its part. A batch is the first
// dim of some inputs, whose size is a number. That is so where it takes less time by estimate, and a process's weights do not grow by more
// than kMostGrowth; or by rules.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "passes/shard/costs.h"
#include "passes/shard/rules.h"
#include "passes/shard/sharding.h"

namespace toroid::shard {

// A product by weights.
struct WeightUse {
  NodeId product;
  std::vector<ConstantId> weights;                             // that its right side follows from
  bool by_columns = false, by_rows = false, by_batch = false;  // by_batch: all of it, for a part of the batch
};

// How many times as many bytes of products' weights a process may have for a batch that is sharded, and what part of a call's estimated
// time that must take at most.
inline constexpr double kMostGrowth = 1.4, kMostTime = 0.98;

struct Plan {
  std::vector<NodeSharding> nodes;         // of the main graph
  std::vector<Sharding> values;            // as their nodes give them
  std::map<ConstantId, Sharding> buffers;  // the program's state that is sharded
  std::vector<Sharding> inputs, outputs;   // as rules say; outputs that update the state as it is
  std::vector<bool> has_batch;             // inputs of which a process takes its part of the first dim, though the caller gives the whole
  std::vector<WeightUse> products;
  int reductions = 0, gathers = 0;
  int64_t communicated_bytes = 0;  // of what is reduced and gathered, with free sizes at their hints
  double seconds = 0;              // of a call, by estimate
};

// Needs core level. Throws Error{InvalidOption} for a rule that nothing fits or that cannot be followed, and Error{Unsupported} for a
// program that has collective operations already.
Plan plan_shards(const Program& program, int64_t processes, const std::vector<Rule>& rules, const Costs& costs);

}  // namespace toroid::shard
