#include "passes/pipeline.h"

#include "passes/dead_code.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/fold_constants.h"

namespace toroid {
namespace {

constexpr Pass kPasses[] = {
    {"decompose", "operators of PyTorch to core operations", false, [](Program& p) { decompose(p); }},
    {"fold-constants", "compute what does not depend on inputs", true, [](Program& p) { fold_constants(p); }},
    {"dead-code", "remove what nobody uses", false, [](Program& p) { remove_dead_code(p); }},
};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

void run_passes(Program& program, bool optimise) {
  for (const Pass& pass : kPasses) {
    if (optimise || !pass.optimises) pass.run(program);
  }
}

}  // namespace toroid
