// How long the steps of a program take beside what the machine allows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/kernels/registry/machine_limits.h"
#include "runtime/program/executable.h"

namespace toroid::cli {

struct StepTiming {
  size_t position;
  std::string name;
  double median_us;
  std::string form;  // of a step with several, the one that won
  // Of a run; none where sizes are known only while the program runs.
  std::optional<double> bytes, flops;
  DType numbers = DType::F32;

  // The time that the machine's limits allow, as a share of the time taken; 0 where there is nothing to compare.
  double share_of_limit(const MachineLimits& limits) const {
    return limits.least_seconds(bytes.value_or(0), flops.value_or(0), numbers) / (median_us * 1e-6);
  }
};

// Of the steps that ran, in the program's order.
std::vector<StepTiming> step_medians(const Executable& program, const std::vector<HostTensor>& inputs);

// What calls take beside their steps: binding of sizes, outputs, sorting the times of the steps. The median over calls of each one's time
// less that of its steps; none where a step did not run once in each call.
std::optional<double> median_beside_steps_us(const std::vector<double>& calls_ms, const std::vector<std::vector<double>>& step_times);

// The longest first. limits: of the processor; none for a GPU.
void print_steps(std::vector<StepTiming> steps, const std::optional<MachineLimits>& limits);
// The same for scripts: "steps", and the limits, in bytes and operations a second.
void add_steps(nlohmann::ordered_json& json, const std::vector<StepTiming>& steps, const std::optional<MachineLimits>& limits);

}  // namespace toroid::cli
