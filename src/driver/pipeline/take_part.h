// A program cut for several processes, as the options ask.
#pragma once

#include <optional>

#include "driver/compile_options.h"
#include "passes/shard/shard.h"

namespace toroid {

// The rules' text, this process's rank, and the costs of the target. Throws Error{InvalidOption} where no launcher says a rank, and
// Error{Io} for a file of rules that cannot be read.
ShardOptions shard_options(const CompileModelOptions& options);

// What communication takes beside kernels; none where nothing can run beside it, and for programs whose processes others compile: all of
// them must decide alike.
std::optional<shard::Costs> costs_beside(const CompileModelOptions& options);

// An imported program becomes this process's part, at core level, where the options name more than one process; else nothing happens.
// Gives the plan of the whole. Throws Error{Unsupported} for programs that train, and what shard_program throws.
shard::Plan take_part(Program& program, const CompileModelOptions& options);

}  // namespace toroid
