// toroid bench MODEL: the median latency of a call, or what several callers at once get done, and how long compiling took.
#include <filesystem>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "arrays.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file/file.h"
#include "base/file/mapped_file.h"
#include "bench/call_times.h"
#include "bench/inputs.h"
#include "bench/step_times.h"
#include "bench/streams.h"
#include "build_flags.h"
#include "command.h"
#include "describe.h"
#include "driver/compile.h"
#include "driver/gpu_binaries.h"
#include "driver/signature.h"
#include "flags/flags.h"
#include "json_text.h"
#include "runtime/cuda/early_start.h"
#include "runtime/kernels/registry/machine_limits.h"
#include "runtime/pool/pool.h"
#include "runtime/program/loaded_program.h"

namespace toroid::cli {
namespace {

struct BenchFlags {
  std::string model, inputs, json, lock, device = "cpu", mode = "default", streams;
  int threads = 0, calls = 0;
  double seconds = 1;
  uint64_t seed = 0;
  bool no_cache = false, by_step = false, tune = false, pin = false;
  CompileModelOptions options = {};

  bool is_compiled() const { return std::filesystem::path(model).extension() == ".so"; }
};

std::optional<int> read_bench_flags(BenchFlags& given, int argc, const char* const* argv) {
  Flags flags("toroid bench", "Times a model: median latency of a call, and compile time.");
  flags.add_option("MODEL", given.model, "a .pt2 file, a program in text form (.txt), or one that 'toroid compile' made").required();
  flags.add_option("--inputs", given.inputs, "safetensors with the inputs (default: random)");
  add_device_flag(flags, given.device, "where to run");
  flags.add_option("--threads", given.threads, "threads to use (default: all)").between(1, 1024);
  flags.add_option("--streams", given.streams,
                   "several callers at once that share the threads: how many, or auto: tries 1, 2, 4 ... and says which to take");
  flags.add_flag("--pin", given.pin, "each thread of these callers stays on a processor of its own");
  flags.add_option("--seconds", given.seconds, "how long to call, at least ten times").positive().shows_default();
  flags.add_option("--calls", given.calls, "how often to call, instead: the same for each process of a program of several")
      .between(1, 100000);
  flags.add_option("--seed", given.seed, "of random operators").shows_default();
  flags.add_option("--mode", given.mode, "max: as compile --mode max").one_of({"default", "max"}).shows_default();
  flags.add_flag("--tune", given.tune, "--mode max");
  add_tune_limit(flags, given.options.choose);
  flags.add_option("--lock", given.lock, "take the choices of implementations from this file");
  flags.add_flag("--kernels", given.by_step, "time each step of the program, beside what the machine allows");
  flags.add_flag("--no-cache", given.no_cache, "compile everything anew");
  add_build_flags(flags, given.options);
  flags.add_option("--json", given.json, "write the figures as JSON");
  const std::optional<int> status = flags.read(argc, argv);
  given.tune = given.tune || given.mode == "max";
  return status;
}

// Options that mean nothing beside each other.
void check(const BenchFlags& given) {
  const auto refuse = [](std::string_view option, std::string_view what, std::string_view help) {
    throw Error(ErrorKind::InvalidOption, fmt::format("{} means nothing for {}", option, what)).help(std::string(help));
  };
  if (given.is_compiled()) {
    refuse_build_flags(given.options, "a compiled program");
    if (given.by_step)
      refuse("--kernels", "a compiled program", "give the .pt2: the steps of a program are timed only where it is compiled for that");
    if (given.tune || !given.lock.empty()) {
      refuse(given.mode == "max" ? "--mode max"
             : given.tune        ? "--tune"
                                 : "--lock",
             "a compiled program", "give the .pt2, or compile it with --mode max");
    }
  }
  if (given.streams.empty()) {
    if (given.pin) refuse("--pin", "one caller", "give --streams, 1 for one caller");
    return;
  }
  if (is_device(given.options.target)) refuse("--streams", "a program for a GPU", "it divides the threads of the processor");
  if (given.by_step) refuse("--kernels", "several callers", "time the steps of one: leave --streams out");
  if (given.calls > 0) refuse("--calls", "several callers", "say how long with --seconds");
}

// A program to call, compiled here or loaded.
struct Timed {
  std::optional<CompiledModel> model;
  std::shared_ptr<LoadedProgram> program;  // of a processor's
  std::optional<Executable> executable;
};
Timed made_ready(BenchFlags& given) {
  Timed timed;
  if (given.is_compiled()) {
    if (given.streams.empty()) {
      timed.executable.emplace(Executable::load(given.model, given.threads, given.options.gpu));
    } else {
      timed.program = LoadedProgram::load(given.model, given.model, RuntimePool::shared(given.threads));
    }
  } else {
    CompileSession session(!given.no_cache);
    given.options.profile = given.by_step;
    given.options.choose = {.measure = given.tune, .threads = given.threads};
    if (!given.lock.empty()) given.options.choose.lock = tune::ChoiceLock::read(given.lock);
    timed.model.emplace(session.compile_file(given.model, given.options));
    if (given.streams.empty()) {
      timed.executable.emplace(timed.model->load(given.threads));
    } else {
      timed.program = timed.model->load_program(given.threads);
    }
  }
  if (timed.program) timed.executable.emplace(timed.program);
  timed.executable->set_seed(given.seed);
  return timed;
}

std::vector<HostTensor> inputs_for(const BenchFlags& given, const Executable& executable) {
  const Program signature = signature_of(general_variant(executable.tables()));
  return given.inputs.empty() ? random_inputs(signature) : in_own_memory(read_inputs(given.inputs, signature));
}

nlohmann::ordered_json json_of(const BenchFlags& given, const Timed& timed, double compile_s) {
  const Executable& executable = *timed.executable;
  const ToroidVariant& ran = executable.last_variant();
  nlohmann::ordered_json json = {{"model", given.model},
                                 {"compile_s", compile_s},
                                 {"from_cache", timed.model && timed.model->from_cache},
                                 {"variant", variant_text(executable.tables(), ran)},
                                 {"steps_in_all", ran.num_steps},
                                 {"kernels", ran.num_kernels},
                                 {"kernel_calls", ran.num_kernel_calls},
                                 {"library_calls", ran.num_library_calls},
                                 {"arena_bytes", executable.arena_bytes()},
                                 {"arena_lower_bound_bytes", executable.arena_lower_bound()}};
  json.update(interface_json(executable.tables()));
  if (timed.model) {
    for (const PhaseTime& phase : timed.model->phases) json["phases_s"][phase.name] = phase.seconds;
  }
  return json;
}

std::string ready_text(const Timed& timed, double seconds) {
  if (!timed.model) return fmt::format("loaded in {:.3f} s", seconds);
  return fmt::format("compiled in {:.3f} s; cache: {}", seconds, timed.model->cache_use);
}

int time_callers(const BenchFlags& given, Timed& timed, double compile_s) {
  const std::vector<HostTensor> inputs = inputs_for(given, *timed.executable);
  const int threads = timed.program->pool()->threads();
  std::vector<StreamsTiming> rows;
  for (const int streams : streams_asked(given.streams, threads))
    rows.push_back(time_streams(timed.program, inputs, streams, threads / streams, given.seconds, given.pin));
  timed.executable->run(inputs);  // so that it knows its variant
  refuse_changed_files();
  fmt::print("{}: {}\n", given.model, ready_text(timed, compile_s));
  print_streams(rows);
  if (!given.json.empty()) {
    nlohmann::ordered_json json = json_of(given, timed, compile_s);
    add_streams(json, rows);
    write_file_atomically(given.json, json_text(json) + "\n");
  }
  return 0;
}

int time_one_caller(const BenchFlags& given, Timed& timed, double compile_s) {
  Executable& executable = *timed.executable;
  const std::vector<HostTensor> inputs = inputs_for(given, executable);
  std::optional<DeviceTiming> on_device;
  if (executable.is_on_device()) on_device = time_on_device(executable, inputs, given.seconds, given.calls);
  std::vector<double> calls_ms;
  if (!on_device) calls_ms = time_calls([&] { executable.run(inputs); }, given.seconds, static_cast<size_t>(given.calls));
  const Timing timing = on_device ? on_device->calls : summary(calls_ms);
  refuse_changed_files();
  for (const std::string& note : device_notes(executable)) fmt::print(stderr, "note: {}\n", note);
  const ToroidVariant& ran = executable.last_variant();
  fmt::print("{}: {:.4f} ms a call (median of {}; {:.4f} to {:.4f}), {}\n", given.model, timing.median_ms, timing.runs, timing.min_ms,
             timing.max_ms, ready_text(timed, compile_s));
  fmt::print("  {}; temporaries {} bytes (lower bound {})\n", steps_text(ran), executable.arena_bytes(), executable.arena_lower_bound());
  if (on_device) fmt::print("  {}\n", device_text(*on_device));
  constexpr size_t kShownOutputs = 8;
  print_interface(stdout, executable.tables(), kShownOutputs);
  if (given.tune && !timed.model->choices.empty()) fmt::print("{}", tune::changes_text(timed.model->choices, timed.model->choices_late));
  if (const std::string variant = variant_text(executable.tables(), ran); !variant.empty())
    fmt::print("  ran the variant for {}\n", variant);
  std::vector<StepTiming> steps;
  std::optional<MachineLimits> limits;
  std::optional<double> beside_steps_us;
  if (given.by_step) {
    steps = step_medians(executable, inputs);
    if (!on_device) {
      beside_steps_us = median_beside_steps_us(calls_ms, executable.step_times());
      if (beside_steps_us) fmt::print("  beside the steps: {:.1f} us a call\n", *beside_steps_us);
      RuntimePool pool(given.threads);
      limits = measure_machine_limits(pool);
    }
    print_steps(steps, limits);
  }
  if (given.json.empty()) return 0;
  nlohmann::ordered_json json = json_of(given, timed, compile_s);
  json["median_ms"] = timing.median_ms;
  json["min_ms"] = timing.min_ms;
  json["max_ms"] = timing.max_ms;
  json["runs"] = timing.runs;
  if (on_device) {
    json["graph_nodes"] = on_device->graph_nodes.value_or(0);
    json["host_us"] = on_device->host_us;
    json["one_by_one_ms"] = on_device->one_by_one.median_ms;
    json["one_by_one_host_us"] = on_device->one_by_one_host_us;
  }
  if (beside_steps_us) json["beside_steps_us"] = *beside_steps_us;
  add_steps(json, steps, limits);
  write_file_atomically(given.json, json_text(json) + "\n");
  return 0;
}

}  // namespace

int cmd_bench(int argc, const char* const* argv) {
  BenchFlags given;
  if (const auto status = read_bench_flags(given, argc, argv)) return *status;
  set_device(given.options, given.device);
  check(given);
  std::optional<cuda::EarlyStart> early;
  if (is_device(given.options.target)) early.emplace(given.options.gpu, vendor_of(given.options));
  if (!given.json.empty()) check_writable(given.json);
  const Stopwatch watch;
  Timed timed = made_ready(given);
  const double compile_s = watch.seconds();
  return given.streams.empty() ? time_one_caller(given, timed, compile_s) : time_callers(given, timed, compile_s);
}

}  // namespace toroid::cli
