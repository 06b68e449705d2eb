// Large tensors that are read from end to end, by kernels that compute much for each element, are fetched some lines ahead of their use.
//
// The processor fetches ahead by itself as long as loads follow each other closely. Between loads that much computing keeps apart it falls
// behind: GELU and sigmoid of 2 x 128 MB took 17.2 ms on two threads of a Xeon, 13.1 with this (8 to 64 lines ahead: 13.4 to 14.4); a sum
// alone takes 12.5.
//
// So are tiles that are turned: each row of one is a short run in another page. A sum with a transposed matrix, 3 x 128 MB: 24.3 ms, 20.1
// with this.
#include <algorithm>

#include "schedule/cpu/loops.h"
#include "schedule/fusion/group.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kAheadBytes = 2048;
constexpr int64_t kLeastBytes = 1 << 20;  // of a tensor: smaller ones are found in the second-level cache
constexpr int64_t kLeastRun = 4096;       // elements that follow each other

bool has_least_bytes(const loop::Buffer& buffer) { return bytes_hint(buffer, kLeastBytes) >= kLeastBytes; }

// Of those of a buffer that a kernel reads or writes along its vector axis; the tiles read elsewhere.
bool is_large(const loop::LoopProgram& program, BufferId buffer, sym::Expr position, sym::Expr along) {
  return has_least_bytes(program.buffer(buffer)) && only_axes_and_sizes(position) && is_contiguous(position, along);
}

// Of all that is read and written what the next tile has in these places.
void fetch_tiles(const loop::LoopProgram& program, Kernel& kernel) {
  kernel.fetches_tiles = std::all_of(kernel.tiled_loads.begin(), kernel.tiled_loads.end(), [&](ExprId id) {
    return has_least_bytes(program.buffer(std::get<loop::Load>(program.exprs.node(id).op).buffer));
  });
  if (!kernel.fetches_tiles) return;
  const sym::Expr along = kernel.outer.back(), row = *kernel.tile;
  Stage& stage = kernel.stages[0];
  auto add = [&](BufferId buffer, sym::Expr position, Fetch::To to) {
    const auto step = sym::linear_in(position, row);
    if (step && !step->coefficient.is_const(0) && is_large(program, buffer, position, along))
      stage.fetches.push_back({buffer, position, to});
  };
  for (ExprId id : unconditional_loads(program.exprs, kernel)) {
    const auto& load = std::get<loop::Load>(program.exprs.node(id).op);
    add(load.buffer, load.index[0], Fetch::To::SecondLevel);
  }
  for (const Statement& statement : stage.statements) {
    const auto* store = std::get_if<Store>(&statement);
    if (store != nullptr && !is_written_around(kernel, store->buffer)) add(store->buffer, store->position, Fetch::To::FirstLevelToWrite);
  }
}

}  // namespace

void fetch_streams(const loop::LoopProgram& program, Kernel& kernel) {
  if (kernel.vector != VectorAlong::Outer || !kernel.inner.empty() || kernel.product || kernel.stages.size() != 1) return;
  if (kernel.tile) return fetch_tiles(program, kernel);
  Stage& stage = kernel.stages[0];
  const sym::Expr along = kernel.outer.back();
  if (!computes_much(program.exprs, stage) || sym::evaluate_hint(*along.node()->extent) < kLeastRun) return;
  for (ExprId id : unconditional_loads(program.exprs, kernel)) {
    const auto& load = std::get<loop::Load>(program.exprs.node(id).op);
    if (!is_large(program, load.buffer, load.index[0], along)) continue;
    stage.fetches.push_back(
        {load.buffer, load.index[0] + kAheadBytes / size_bytes(program.buffer(load.buffer).dtype), Fetch::To::FirstLevel});
  }
}

}  // namespace toroid::schedule
