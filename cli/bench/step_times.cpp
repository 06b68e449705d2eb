#include "bench/step_times.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/call_times.h"
#include "runtime/contract/contract.h"

namespace toroid::cli {
namespace {

std::optional<double> value_of(const CallSizes& sizes, int32_t expression) {
  try {
    return static_cast<double>(sizes.evaluate(expression));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<StepTiming> step_medians(const Executable& program, const std::vector<HostTensor>& inputs) {
  std::vector<StepTiming> steps;
  const ToroidVariant& variant = program.last_variant();
  std::map<size_t, std::string> forms;  // by step, those that the first call settled
  const std::vector<std::optional<size_t>> chosen = program.forms();
  for (size_t i = 0; i < chosen.size(); ++i) {
    const ToroidChoice& choice = variant.choices[i];
    if (chosen[i]) forms[static_cast<size_t>(choice.step)] = choice.forms[*chosen[i]];
  }
  if (program.step_times().empty()) return steps;
  std::vector<InputShape> shapes;
  for (const HostTensor& input : inputs) shapes.push_back({input.dtype(), input.sizes()});
  const CallSizes sizes = bind_sizes(variant.contract, shapes);
  for (size_t i = 0; i < program.step_times().size(); ++i) {
    std::vector<double> times = program.step_times()[i];
    if (times.empty()) continue;
    std::sort(times.begin(), times.end());
    StepTiming step = {i, variant.steps[i].name, times[times.size() / 2] * 1e6, forms[i], {}, {}};
    if (i < static_cast<size_t>(variant.num_work)) {
      step.bytes = value_of(sizes, variant.work[i].bytes);
      step.flops = value_of(sizes, variant.work[i].flops);
      step.numbers = static_cast<DType>(variant.work[i].dtype);
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

std::optional<double> median_beside_steps_us(const std::vector<double>& calls_ms, const std::vector<std::vector<double>>& step_times) {
  std::vector<double> beside;
  for (double ms : calls_ms) beside.push_back(ms * 1e3);
  for (const std::vector<double>& times : step_times) {
    if (times.empty()) continue;
    if (times.size() != kWarmUps + calls_ms.size()) return std::nullopt;
    for (size_t i = 0; i < beside.size(); ++i) beside[i] -= times[kWarmUps + i] * 1e6;
  }
  std::sort(beside.begin(), beside.end());
  return beside[beside.size() / 2];
}

void print_steps(std::vector<StepTiming> steps, const std::optional<MachineLimits>& limits) {
  double total = 0;
  for (const StepTiming& step : steps) total += step.median_us;
  std::stable_sort(steps.begin(), steps.end(), [](const StepTiming& a, const StepTiming& b) { return a.median_us > b.median_us; });
  if (limits) {
    fmt::print(
        "  limits measured here: {:.1f} GB/s of memory, {:.1f} of the third-level cache, {:.1f} of the second, {:.1f} of the first; "
        "{:.1f} GFLOP/s of float32 products, {:.1f} of bfloat16, {:.1f} of int8\n",
        limits->memory_bytes_per_s * 1e-9, limits->third_level.bytes_per_s * 1e-9, limits->second_level.bytes_per_s * 1e-9,
        limits->first_level.bytes_per_s * 1e-9, limits->multiply_flops_per_s * 1e-9, limits->bf16_flops_per_s * 1e-9,
        limits->int8_flops_per_s * 1e-9);
    fmt::print(
        "  of limit: the least time that these allow, as a share of the median; of a cache where all that the step touches fits into it\n");
  } else {
    fmt::print("  all steps {:.4f} ms on the GPU\n", total * 1e-3);
  }
  fmt::print("  {:>13} {:>7} {:>8} {:>9} {:>9}  step\n", "median", "share", "GB/s", "GFLOP/s", "of limit");
  auto rate = [](std::optional<double> work, double us) {
    return work.value_or(0) > 0 ? fmt::format("{:.1f}", *work / us * 1e-3) : std::string("-");
  };
  for (const StepTiming& step : steps) {
    const double share = limits ? 100 * step.share_of_limit(*limits) : 0;
    fmt::print("  {:10.1f} us {:5.1f} % {:>8} {:>9} {:>9}  {} {}\n", step.median_us, 100 * step.median_us / total,
               rate(step.bytes, step.median_us), rate(step.flops, step.median_us), share > 0 ? fmt::format("{:.0f} %", share) : "-",
               step.position, step.form.empty() ? step.name : fmt::format("{} ({})", step.name, step.form));
  }
  const auto is_above = [&](const StepTiming& step) { return step.share_of_limit(*limits) > 1.05; };
  if (limits && std::any_of(steps.begin(), steps.end(), is_above)) {
    fmt::print(
        "  above 100 %: a convolution that multiplies less than its definition (Winograd), or memory whose limit was measured while others "
        "used it\n");
  }
}

void add_steps(nlohmann::ordered_json& json, const std::vector<StepTiming>& steps, const std::optional<MachineLimits>& limits) {
  if (limits) {
    json["copy_bytes_per_s"] = limits->copy_bytes_per_s;
    json["multiply_flops_per_s"] = limits->multiply_flops_per_s;
    json["memory_bytes_per_s"] = limits->memory_bytes_per_s;
    json["third_level_bytes_per_s"] = limits->third_level.bytes_per_s;
    json["second_level_bytes_per_s"] = limits->second_level.bytes_per_s;
    json["first_level_bytes_per_s"] = limits->first_level.bytes_per_s;
    json["bf16_flops_per_s"] = limits->bf16_flops_per_s;
    json["int8_flops_per_s"] = limits->int8_flops_per_s;
  }
  for (const StepTiming& step : steps) {
    json["steps"].push_back({{"position", step.position}, {"name", step.name}, {"median_us", step.median_us}});
    nlohmann::ordered_json& made = json["steps"].back();
    if (!step.form.empty()) made["form"] = step.form;
    if (step.bytes) made["bytes"] = *step.bytes;
    if (step.flops) made["flops"] = *step.flops;
    if (limits) made["of_limit"] = step.share_of_limit(*limits);
  }
}

}  // namespace toroid::cli
