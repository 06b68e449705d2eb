// toroid bench MODEL: the median latency of a call, and how long compiling took.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "arrays.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file/file.h"
#include "base/file/mapped_file.h"
#include "build_flags.h"
#include "command.h"
#include "describe.h"
#include "driver/compile.h"
#include "driver/gpu_binaries.h"
#include "driver/signature.h"
#include "flags.h"
#include "json_text.h"
#include "runtime/contract/contract.h"
#include "runtime/cuda/early_start.h"
#include "runtime/kernels/registry/machine_limits.h"

namespace toroid::cli {
namespace {

// Normal numbers for floats, zeros for integers (which may be indices), at the sizes' hints.
std::vector<HostTensor> random_inputs(const Program& program) {
  std::mt19937 random(0);
  std::normal_distribution<float> normal;
  std::vector<HostTensor> inputs;
  for (ValueId id : program.graph.inputs) {
    const TensorType& type = program.graph.type(id);
    std::vector<int64_t> sizes;
    for (sym::Expr size : type.sizes) sizes.push_back(sym::evaluate_hint(size));
    std::vector<double> values(static_cast<size_t>(numel(sizes)));
    if (is_floating(type.dtype)) {
      for (double& value : values) value = normal(random);
      inputs.push_back(HostTensor::from_doubles(type.dtype, sizes, values));
    } else {
      inputs.push_back(HostTensor::from_ints(type.dtype, sizes, std::vector<int64_t>(values.size())));
    }
  }
  return inputs;
}

struct Timing {
  double median_ms, min_ms, max_ms;
  int runs;
};

Timing summary(std::vector<double> milliseconds) {
  std::sort(milliseconds.begin(), milliseconds.end());
  return {milliseconds[milliseconds.size() / 2], milliseconds.front(), milliseconds.back(), static_cast<int>(milliseconds.size())};
}

// The milliseconds of each call: for about so many seconds, at least ten times, after kWarmUps calls; or of `calls` of them, if that is not 0.
constexpr size_t kWarmUps = 3;
template <class F>
std::vector<double> time_calls(F call, double seconds, size_t calls) {
  for (size_t i = 0; i < kWarmUps; ++i) call();
  std::vector<double> times;
  Stopwatch all;
  const auto are_enough = [&] {
    return calls > 0 ? times.size() >= calls : times.size() >= 10 && (all.seconds() >= seconds || times.size() >= 100000);
  };
  while (!are_enough()) {
    Stopwatch one;
    call();
    times.push_back(one.milliseconds());
  }
  return times;
}

// On a GPU: between events on its stream, with inputs and outputs that stay there.
struct DeviceTiming {
  Timing calls, one_by_one;  // the latter: each kernel started by itself; the same where calls are no graphs
  double host_us, one_by_one_host_us;
  std::optional<size_t> graph_nodes;
};
DeviceTiming time_on_device(Executable& program, const std::vector<HostTensor>& inputs, double seconds, int number) {
  const auto timed = [&](bool graphs, double how_long, Timing& calls, double& host_us) {
    DeviceTimes times = program.time_on_device(inputs, {.seconds = how_long, .calls = number, .graphs = graphs});
    for (double& each : times.seconds) each *= 1e3;
    calls = summary(std::move(times.seconds));
    host_us = times.host_seconds * 1e6;
  };
  DeviceTiming result{};
  timed(true, seconds, result.calls, result.host_us);
  result.graph_nodes = program.graph_nodes();
  result.one_by_one = result.calls;
  result.one_by_one_host_us = result.host_us;
  if (result.graph_nodes) timed(false, seconds / 4, result.one_by_one, result.one_by_one_host_us);
  return result;
}

// "a CUDA graph of 14 nodes, 3.1 us of the host a call; kernel by kernel 0.1620 ms, 25.0 us of the host"
std::string device_text(const DeviceTiming& timing) {
  if (!timing.graph_nodes) return fmt::format("started kernel by kernel, {:.1f} us of the host a call", timing.host_us);
  return fmt::format("a CUDA graph of {} nodes, {:.1f} us of the host a call; kernel by kernel {:.4f} ms, {:.1f} us of the host",
                     *timing.graph_nodes, timing.host_us, timing.one_by_one.median_ms, timing.one_by_one_host_us);
}

// Copies in memory of this process, aligned as a program's own tensors are. Those of a mapped file may begin anywhere: then every vector
// that is loaded lies in two lines of the cache, and pages come when they are first read.
std::vector<HostTensor> in_own_memory(const std::vector<HostTensor>& inputs) {
  std::vector<HostTensor> copies;
  for (const HostTensor& input : inputs) {
    HostTensor& copy = copies.emplace_back(input.dtype(), input.sizes());
    std::copy(input.bytes().begin(), input.bytes().end(), copy.mutable_data<std::byte>());
  }
  return copies;
}

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

std::optional<double> value_of(const CallSizes& sizes, int32_t expression) {
  try {
    return static_cast<double>(sizes.evaluate(expression));
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Of the steps that ran, in the program's order.
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

// What calls take beside their steps: binding of sizes, outputs, sorting the times of the steps. The median over calls of each one's time
// less that of its steps; none where a step did not run once in each call.
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

// The longest first. limits: of the processor; none for a GPU.
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

}  // namespace

int cmd_bench(int argc, const char* const* argv) {
  std::string model_path, inputs_path, json_path, lock_path, device = "cpu", mode = "default";
  int threads = 0, calls = 0;
  double seconds = 1;
  uint64_t seed = 0;
  bool no_cache = false, by_step = false, tune = false;
  Flags flags("bench", "Times a model: median latency of a call, and compile time.");
  flags.add_option("MODEL", model_path, "a .pt2 file, a program in text form (.txt), or one that 'toroid compile' made").required();
  flags.add_option("--inputs", inputs_path, "safetensors with the inputs (default: random)");
  flags
      .add_option(
          "--device", device,
          "where to run: cpu, halide, cuda, cuda:1 (by its number), as-exported, triton, rocm, rocm:1, emulated-cuda, emulated-rocm")
      .shows_default();
  flags.add_option("--threads", threads, "threads to use (default: all)").between(1, 1024);
  flags.add_option("--seconds", seconds, "how long to call, at least ten times").positive().shows_default();
  flags.add_option("--calls", calls, "how often to call, instead: the same for each process of a program of several").between(1, 100000);
  flags.add_option("--seed", seed, "of random operators").shows_default();
  flags.add_option("--mode", mode, "max: as compile --mode max").one_of({"default", "max"}).shows_default();
  flags.add_flag("--tune", tune, "--mode max");
  CompileModelOptions options;
  add_tune_limit(flags, options.choose);
  flags.add_option("--lock", lock_path, "take the choices of implementations from this file");
  flags.add_flag("--kernels", by_step, "time each step of the program, beside what the machine allows");
  flags.add_flag("--no-cache", no_cache, "compile everything anew");
  add_build_flags(flags, options);
  flags.add_option("--json", json_path, "write the figures as JSON");
  if (const auto status = flags.read(argc, argv)) return *status;

  tune = tune || mode == "max";
  set_device(options, device);
  std::optional<cuda::EarlyStart> early;
  if (is_device(options.target)) early.emplace(options.gpu, vendor_of(options));
  if (!json_path.empty()) check_writable(json_path);
  Stopwatch watch;
  std::optional<CompiledModel> model;
  std::optional<Executable> executable;
  if (std::filesystem::path(model_path).extension() == ".so") {
    refuse_build_flags(options, "a compiled program");
    if (by_step || tune || !lock_path.empty()) {
      throw Error(ErrorKind::InvalidOption, fmt::format("{} means nothing for a compiled program", by_step         ? "--kernels"
                                                                                                   : mode == "max" ? "--mode max"
                                                                                                   : tune          ? "--tune"
                                                                                                                   : "--lock"))
          .help(by_step ? "give the .pt2: the steps of a program are timed only where it is compiled for that"
                        : "give the .pt2, or compile it with --mode max");
    }
    executable.emplace(Executable::load(model_path, threads, options.gpu));
  } else {
    CompileSession session(!no_cache);
    options.profile = by_step;
    options.choose = {.measure = tune, .threads = threads};
    if (!lock_path.empty()) options.choose.lock = tune::ChoiceLock::read(lock_path);
    model.emplace(session.compile_file(model_path, options));
    executable.emplace(model->load(threads));
  }
  executable->set_seed(seed);
  const double compile_s = watch.seconds();
  const Program signature = signature_of(general_variant(executable->tables()));
  const std::vector<HostTensor> inputs =
      inputs_path.empty() ? random_inputs(signature) : in_own_memory(read_inputs(inputs_path, signature));
  std::optional<DeviceTiming> on_device;
  if (executable->is_on_device()) on_device = time_on_device(*executable, inputs, seconds, calls);
  std::vector<double> calls_ms;
  if (!on_device) calls_ms = time_calls([&] { executable->run(inputs); }, seconds, static_cast<size_t>(calls));
  const Timing timing = on_device ? on_device->calls : summary(calls_ms);
  refuse_changed_files();
  for (const std::string& note : device_notes(*executable)) fmt::print(stderr, "note: {}\n", note);
  const ToroidVariant& ran = executable->last_variant();
  const std::string variant = variant_text(executable->tables(), ran);
  fmt::print("{}: {:.4f} ms a call (median of {}; {:.4f} to {:.4f}), {} in {:.3f} s{}\n", model_path, timing.median_ms, timing.runs,
             timing.min_ms, timing.max_ms, model ? "compiled" : "loaded", compile_s,
             model ? fmt::format("; cache: {}", model->cache_use) : "");
  fmt::print("  {}; temporaries {} bytes (lower bound {})\n", steps_text(ran), executable->arena_bytes(), executable->arena_lower_bound());
  if (on_device) fmt::print("  {}\n", device_text(*on_device));
  constexpr size_t kShownOutputs = 8;
  print_interface(stdout, executable->tables(), kShownOutputs);
  if (tune && !model->choices.empty()) fmt::print("{}", tune::changes_text(model->choices, model->choices_late));
  if (!variant.empty()) fmt::print("  ran the variant for {}\n", variant);
  std::vector<StepTiming> steps;
  std::optional<MachineLimits> limits;
  std::optional<double> beside_steps_us;
  if (by_step) {
    steps = step_medians(*executable, inputs);
    if (!on_device) {
      beside_steps_us = median_beside_steps_us(calls_ms, executable->step_times());
      if (beside_steps_us) fmt::print("  beside the steps: {:.1f} us a call\n", *beside_steps_us);
      RuntimePool pool(threads);
      limits = measure_machine_limits(pool);
    }
    print_steps(steps, limits);
  }
  if (!json_path.empty()) {
    nlohmann::ordered_json json = {{"model", model_path},
                                   {"median_ms", timing.median_ms},
                                   {"min_ms", timing.min_ms},
                                   {"max_ms", timing.max_ms},
                                   {"runs", timing.runs},
                                   {"compile_s", compile_s},
                                   {"from_cache", model && model->from_cache},
                                   {"variant", variant},
                                   {"steps_in_all", ran.num_steps},
                                   {"kernels", ran.num_kernels},
                                   {"kernel_calls", ran.num_kernel_calls},
                                   {"library_calls", ran.num_library_calls},
                                   {"arena_bytes", executable->arena_bytes()},
                                   {"arena_lower_bound_bytes", executable->arena_lower_bound()}};
    json.update(interface_json(executable->tables()));
    if (model) {
      for (const PhaseTime& phase : model->phases) json["phases_s"][phase.name] = phase.seconds;
    }
    if (on_device) {
      json["graph_nodes"] = on_device->graph_nodes.value_or(0);
      json["host_us"] = on_device->host_us;
      json["one_by_one_ms"] = on_device->one_by_one.median_ms;
      json["one_by_one_host_us"] = on_device->one_by_one_host_us;
    }
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
    if (beside_steps_us) json["beside_steps_us"] = *beside_steps_us;
    for (const StepTiming& step : steps) {
      json["steps"].push_back({{"position", step.position}, {"name", step.name}, {"median_us", step.median_us}});
      if (!step.form.empty()) json["steps"].back()["form"] = step.form;
      if (step.bytes) json["steps"].back()["bytes"] = *step.bytes;
      if (step.flops) json["steps"].back()["flops"] = *step.flops;
      if (limits) json["steps"].back()["of_limit"] = step.share_of_limit(*limits);
    }
    write_file_atomically(json_path, json_text(json) + "\n");
  }
  return 0;
}

}  // namespace toroid::cli
