// toroid bench MODEL: the median latency of a call, and how long compiling took.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include <nlohmann/json.hpp>

#include "arrays.h"
#include "command.h"
#include "driver/compile.h"
#include "flags.h"
#include "interp/bind_symbols.h"
#include "json_text.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/file.h"

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

// Calls for about so many seconds, at least ten times.
template <class F>
Timing time_calls(F call, double seconds) {
  for (int i = 0; i < 3; ++i) call();
  std::vector<double> times;
  Stopwatch all;
  while (times.size() < 10 || (all.seconds() < seconds && times.size() < 100000)) {
    Stopwatch one;
    call();
    times.push_back(one.milliseconds());
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front(), times.back(), static_cast<int>(times.size())};
}

// Reads a byte of each page: a file's pages come when they are first read, and a masked load that takes nothing from a page that
// is not there is slow every time.
void touch(const std::vector<HostTensor>& inputs) {
  constexpr size_t kPage = 4096;
  [[maybe_unused]] volatile std::byte read{};
  for (const HostTensor& input : inputs) {
    for (size_t i = 0; i < input.bytes().size(); i += kPage) read = input.bytes()[i];
  }
}

struct StepTiming {
  size_t position;
  std::string name;
  double median_us;
};

// Of the steps that ran, in the program's order.
std::vector<StepTiming> step_medians(const Executable& program) {
  std::vector<StepTiming> steps;
  const std::vector<std::string>& names = program.manifest().general().steps;
  for (size_t i = 0; i < program.step_times().size(); ++i) {
    std::vector<double> times = program.step_times()[i];
    if (times.empty()) continue;
    std::sort(times.begin(), times.end());
    steps.push_back({i, names.at(i), times[times.size() / 2] * 1e6});
  }
  return steps;
}

// The longest first.
void print_steps(std::vector<StepTiming> steps) {
  double total = 0;
  for (const StepTiming& step : steps) total += step.median_us;
  std::stable_sort(steps.begin(), steps.end(),
                   [](const StepTiming& a, const StepTiming& b) { return a.median_us > b.median_us; });
  for (const StepTiming& step : steps) {
    fmt::print("  {:10.1f} us {:5.1f} %  {} {}\n", step.median_us, 100 * step.median_us / total, step.position,
               step.name);
  }
}

}  // namespace

int cmd_bench(int argc, const char* const* argv) {
  std::string model_path, inputs_path, json_path, device = "cpu";
  int threads = 0;
  double seconds = 1;
  uint64_t seed = 0;
  bool no_cache = false, by_step = false;
  Flags flags("bench", "Times a model: median latency of a call, and compile time.");
  flags.add_option("MODEL", model_path, "a .pt2 file, or a program that 'toroid compile' made").required();
  flags.add_option("--inputs", inputs_path, "safetensors with the inputs (default: random)");
  flags.add_option("--device", device, "where to run").one_of({"cpu"}).shows_default();
  flags.add_option("--threads", threads, "threads to use (default: all)").between(1, 1024);
  flags.add_option("--seconds", seconds, "how long to call, at least ten times").positive().shows_default();
  flags.add_option("--seed", seed, "of random operators").shows_default();
  flags.add_flag("--kernels", by_step, "time each step of the program");
  flags.add_flag("--no-cache", no_cache, "compile everything anew");
  flags.add_option("--json", json_path, "write the figures as JSON");
  if (const auto status = flags.read(argc, argv)) return *status;

  if (!json_path.empty()) check_writable(json_path);
  Stopwatch watch;
  std::optional<CompiledModel> model;
  std::optional<Executable> executable;
  if (std::filesystem::path(model_path).extension() == ".so") {
    executable.emplace(Executable::load(model_path, threads));
  } else {
    CompileSession session(!no_cache);
    model.emplace(session.compile_file(model_path, {.profile = by_step}));
    executable.emplace(model->load(threads));
  }
  executable->set_seed(seed);
  const double compile_s = watch.seconds();
  const Program& signature = executable->manifest().general().signature;
  const std::vector<HostTensor> inputs =
      inputs_path.empty() ? random_inputs(signature) : read_inputs(inputs_path, signature);
  touch(inputs);
  const Timing timing = time_calls([&] { executable->run(inputs); }, seconds);
  const ManifestVariant& manifest = executable->manifest().general();
  fmt::print("{}: {:.4f} ms a call (median of {}; {:.4f} to {:.4f}), compiled in {:.3f} s{}\n", model_path,
             timing.median_ms, timing.runs, timing.min_ms, timing.max_ms, compile_s,
             model ? fmt::format("; cache: {}", model->cache_use) : "");
  fmt::print("  {} kernels, {} kernel calls, {} library calls; temporaries {} bytes (lower bound {})\n",
             manifest.kernels, manifest.kernel_calls, manifest.library_calls, executable->arena_bytes(),
             executable->arena_lower_bound());
  const std::vector<StepTiming> steps = step_medians(*executable);  // none unless --kernels
  print_steps(steps);
  if (!json_path.empty()) {
    nlohmann::ordered_json json = {{"model", model_path},
                                   {"median_ms", timing.median_ms},
                                   {"min_ms", timing.min_ms},
                                   {"max_ms", timing.max_ms},
                                   {"runs", timing.runs},
                                   {"compile_s", compile_s},
                                   {"from_cache", model && model->from_cache},
                                   {"kernels", manifest.kernels},
                                   {"kernel_calls", manifest.kernel_calls},
                                   {"library_calls", manifest.library_calls},
                                   {"arena_bytes", executable->arena_bytes()},
                                   {"arena_lower_bound_bytes", executable->arena_lower_bound()}};
    if (model) {
      for (const PhaseTime& phase : model->phases) json["phases_s"][phase.name] = phase.seconds;
    }
    for (const StepTiming& step : steps) {
      json["steps"].push_back({{"position", step.position}, {"name", step.name}, {"median_us", step.median_us}});
    }
    write_file_atomically(json_path, json_text(json) + "\n");
  }
  return 0;
}

}  // namespace toroid::cli
