#include "support/process/launcher.h"

#include <cstdlib>
#include <limits>

#include <fmt/format.h>

#include "support/text/number.h"

namespace toroid {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* processes;
};
constexpr Launcher kLaunchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},  // its documentation, "Environment variables"
    {"MPICH", "PMI_RANK", "PMI_SIZE"},                             // PMI-1, of Intel MPI and Cray too
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS"},  // srun(1), "OUTPUT ENVIRONMENT VARIABLES"
    {"torchrun", "RANK", "WORLD_SIZE"},
};

std::optional<int> number_in(const char* name) {
  const char* const variable = std::getenv(name);
  const std::optional<int64_t> number = variable == nullptr ? std::nullopt : number_of(variable);
  return number && *number <= std::numeric_limits<int>::max() ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// sbatch(1), "OUTPUT ENVIRONMENT VARIABLES".
std::optional<Launched> array_task() {
  const std::optional<int> task = number_in("SLURM_ARRAY_TASK_ID"), count = number_in("SLURM_ARRAY_TASK_COUNT");
  if (!task || !count) return std::nullopt;
  const int step = number_in("SLURM_ARRAY_TASK_STEP").value_or(1);
  const int rank = (*task - number_in("SLURM_ARRAY_TASK_MIN").value_or(0)) / (step > 0 ? step : 1);
  if (rank < 0 || rank >= *count) return std::nullopt;  // of an array with a list of tasks
  return Launched{"a Slurm array", rank, *count};
}

}  // namespace

std::optional<Launched> launched_together() {
  for (const Launcher& each : kLaunchers) {
    const std::optional<int> rank = number_in(each.rank), processes = number_in(each.processes);
    if (rank && processes && *rank < *processes) return Launched{each.name, *rank, *processes};
  }
  return std::nullopt;
}

std::optional<int> launched_rank() {
  for (const Launcher& each : kLaunchers) {
    if (const std::optional<int> rank = number_in(each.rank)) return rank;
  }
  return std::nullopt;
}

std::optional<Launched> launched_anywhere() {
  const std::optional<Launched> array = array_task(), together = launched_together();
  if (!array || !together || together->processes == 1) return array ? array : together;
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  if (int64_t{array->processes} * together->processes > kMost) return std::nullopt;
  return Launched{fmt::format("{} of {}", array->by, together->by), array->rank * together->processes + together->rank,
                  array->processes * together->processes};
}

}  // namespace toroid
