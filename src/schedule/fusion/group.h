// Grouping of computations into kernels (internal to schedule/).
#pragma once

#include <optional>
#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

// A computation in a group, with its axes expressed in the group's.
struct Member {
  size_t computation;
  sym::Substitution axes;  // from the computation's axes
};

// Computations that become one kernel. With no inner axes it is a pure map over `outer`.
struct Group {
  std::vector<Member> members;
  std::vector<sym::Expr> outer;
  std::vector<sym::Expr> inner;
  bool fusible = true;  // false: a scan, scatter or call on its own
};

// A computation did not join the group that had made what it reads.
struct Refusal {
  size_t producer, consumer;  // computations
  std::string_view reason;
};

// Fuses greedily, in program order: each computation joins the group from which it saves most memory traffic, if it can iterate over
// the same axes, reads what the group produces exactly where it is produced, and closes no cycle. The groups come
// in an order in which each reads only from earlier ones. `fuse` false: each computation stays alone.
// `refusals`: unless null, gets the reason for each pair that came to lie in different groups.
std::vector<Group> group_computations(const loop::LoopProgram& program, bool fuse = true, std::vector<Refusal>* refusals = nullptr);

// Which reductions are large, and into how many blocks they go: rows of so many elements with fewer results than this.
struct SplitRule {
  int64_t few_results = 8, large_row = 1 << 16;
  int64_t blocks = 64;
  bool blocks_of_all = false;        // results share these blocks; else each has so many
  int64_t columns = 0;               // of columns: more than 0: so many results of blocks fill the device
  std::optional<bool> on_host = {};  // of a program with some of its tensors on the host: those there, or all others
};
// Turns large reductions with few results into a parallel first step over blocks and a small second one.
void split_large_reductions(loop::LoopProgram& program, const SplitRule& rule = {});

// Is the call, or the computation, a matrix product or convolution whose result an epilogue may take?
bool makes_product(const loop::LoopProgram& program, const loop::Call& call, const std::vector<loop::BufferId>& outputs);
bool makes_product(const loop::LoopProgram& program, const loop::Computation& computation);
// A convolution in which each channel has one filter, its own?
bool is_depthwise(const loop::Call& call);

// Is it a collective operation?
inline bool communicates(const loop::Computation& computation) {
  const auto* call = std::get_if<loop::Call>(&computation.work);
  return call != nullptr && is_collective(call->op);
}

// Does the computation write prepared buffers?
inline bool is_prepared(const loop::LoopProgram& program, size_t computation) {
  const std::vector<loop::BufferId>& outputs = program.computations[computation].outputs;
  return !outputs.empty() && program.buffer(outputs[0]).kind == loop::BufferKind::Prepared;
}

// Adds to a list that comes to be sorted, each once.
void add_provenance(std::vector<ProvenanceId>& list, const std::vector<ProvenanceId>& more);

// The kernel of a fusible group. `needed` tells which buffers later kernels or the caller read. What several stages need is kept; whether
// that is worth it is for choose_forms to say.
Kernel build_kernel(loop::LoopProgram& program, const Group& group, const std::vector<bool>& needed);

// Picks the vector axis from the strides of all accesses, orders the axes and merges those that run together.
void choose_loops(loop::LoopProgram& program, Kernel& kernel);

// Has what is larger than the caches written around them. After choose_loops, and before what follows: such places are not fetched to be
// written.
void use_streaming_stores(const loop::LoopProgram& program, Kernel& kernel);

// Has the next row fetched while one is worked on, where a kernel goes over its rows several times. After choose_loops.
void fetch_rows(const loop::LoopProgram& program, Kernel& kernel);

// Has large tensors fetched ahead of their use, where much is computed for each element. After choose_loops.
void fetch_streams(const loop::LoopProgram& program, Kernel& kernel);

// A kernel whose loops are not chosen yet as the epilogue of the product that it reads in `product`, which `call` makes; none if it cannot
// be one. The loops are then chosen.
struct EpilogueAttempt {
  std::optional<Kernel> kernel;
  std::string_view reason = {};  // without a kernel: why
};
EpilogueAttempt as_epilogue(loop::LoopProgram& program, Kernel kernel, const loop::Call& call, loop::BufferId product);
// The same of a convolution [n, k, pixels...] whose rows are filters and whose columns are the pixels of an image.
EpilogueAttempt as_epilogue_of_pixels(loop::LoopProgram& program, Kernel kernel, loop::BufferId product);

// The position of a multi-dimensional index in its buffer.
sym::Expr position_of(const loop::Buffer& buffer, const std::vector<sym::Expr>& index);

// Adds to `kernel.unfused` what it uses more than once; its finish and other forms likewise.
void round_shared_products(const loop::LoopProgram& program, Kernel& kernel);

}  // namespace toroid::schedule
