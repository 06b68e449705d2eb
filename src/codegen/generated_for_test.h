// For tests: programs in text form, up to the code generated for them.
#pragma once

#include "codegen/wrapper/generate.h"
#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::codegen {

inline GeneratedProgram generated(std::string_view text, const program::ModuleOptions& options = {}, int max_units = 1) {
  const bool on_gpu = options.device == program::Device::Cuda;
  schedule::Scheduled result =
      schedule::scheduled(text, on_gpu ? schedule::cuda_planner(schedule::TensorCores::Hopper) : schedule::cpu_planner(),
                          {.convolutions_as_loops = on_gpu, .convolutions_in_tiles = on_gpu});
  std::vector<schedule::ScheduledGraph> graphs;
  graphs.push_back({std::move(result.schedule), std::move(result.outputs)});
  return generate(program::make_module(graphs, result.program, options), graphs, result.program,
                  {.target = on_gpu ? Target::Cuda : Target::Cpu, .max_units = max_units});
}

}  // namespace toroid::codegen
