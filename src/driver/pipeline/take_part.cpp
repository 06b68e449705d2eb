#include "driver/pipeline/take_part.h"

#include "base/error.h"
#include "base/file/file.h"
#include "passes/constant_values.h"
#include "passes/dead_code.h"
#include "passes/decompose/engine/decompose.h"
#include "support/process/launcher.h"

namespace toroid {
namespace {

int rank_of_launcher() {
  if (const std::optional<int> rank = launched_rank()) return *rank;
  throw Error(ErrorKind::InvalidOption, "no launcher says which of the processes this is")
      .help("start it by mpirun, srun or torchrun, or add --rank 0");
}

// A GPU, and NVLink, of the H100's generation; a processor's socket, and shared memory or a network of 50 Gb/s.
constexpr shard::Costs kGpuCosts = {.operations_per_s = 4e14, .memory_bytes_per_s = 2.8e12, .link_bytes_per_s = 2e11, .latency_s = 1.2e-5};
constexpr shard::Costs kCpuCosts = {.operations_per_s = 2e11, .memory_bytes_per_s = 2e10, .link_bytes_per_s = 5e9, .latency_s = 2e-5};

}  // namespace

ShardOptions shard_options(const CompileModelOptions& options) {
  const ShardRequest& request = options.shard;
  ShardOptions result = {.processes = request.processes, .rank = request.rank};
  if (result.rank < 0) result.rank = request.processes == 1 ? 0 : rank_of_launcher();
  if (!request.rules_file.empty()) result.rules = read_file(request.rules_file);
  result.costs = options.target == codegen::Target::Cpu ? kCpuCosts : kGpuCosts;
  return result;
}

std::optional<shard::Costs> costs_beside(const CompileModelOptions& options) {
  constexpr double kStart = 3e-6;
  if (options.shard.processes == 1 || options.target == codegen::Target::Cpu) return std::nullopt;
  shard::Costs costs = kGpuCosts;
  costs.start_s = kStart;
  return costs;
}

shard::Plan take_part(Program& program, const CompileModelOptions& options) {
  if (options.shard.processes == 1) return {};
  if (returns_gradients(program)) {
    throw Error(ErrorKind::Unsupported, "a program that trains, cut for several processes")
        .help("export it with torch.distributed's operations, which toroid runs, or leave out --tensor-parallel");
  }
  decompose(program);
  remove_dead_code(program);
  return shard_program(program, shard_options(options));
}

}  // namespace toroid
