// toroid tune: measures implementations for problems that are given as text. toroid tuning-worker: the process in which they run.
#include "command.h"
#include "flags.h"
#include "support/file.h"
#include "tune/serve.h"
#include "tune/tuner.h"

namespace toroid::cli {

int cmd_tune(int argc, const char* const* argv) {
  std::vector<std::string> problems;
  std::string mode = "max", lock_path, write_lock_path, log_path;
  int threads = 0;
  double limit_s = 2;
  bool cold = false, no_cache = false;
  Flags flags("tune", "Measures the implementations of problems, as 'matmul.f32(f32[1, 2048], f32[2048, 1000]) -> f32[1, 1000]'.");
  flags.add_option("PROBLEM", problems, "a library kernel's operands, as in docs/tuning.md").required();
  flags.add_option("--mode", mode, "max: measure all; default: what estimates leave open, within a budget")
      .one_of({"default", "max"})
      .shows_default();
  flags.add_option("--threads", threads, "threads of a kernel (default: all)").between(1, 1024);
  flags.add_option("--limit", limit_s, "seconds of timing for a problem").positive().shows_default();
  flags.add_flag("--cold", cold, "empty the caches before each run");
  flags.add_option("--lock", lock_path, "take the choices from this file");
  flags.add_option("--write-lock", write_lock_path, "write the choices to this file");
  flags.add_option("--choices-log", log_path, "write all that was found as JSON");
  flags.add_flag("--no-cache", no_cache, "measure everything anew");
  if (const auto status = flags.read(argc, argv)) return *status;

  for (const std::string& path : {write_lock_path, log_path}) {
    if (!path.empty()) check_writable(path);
  }
  tune::TunerOptions options;
  options.mode = mode == "max" ? tune::Mode::Max : tune::Mode::Default;
  options.worker.argv = tune::own_tuning_worker();
  options.measure.threads = RuntimePool::threads_for(threads);
  options.measure.cold = cold;
  options.measure.rounds.limit_s = limit_s;
  if (!lock_path.empty()) options.lock = tune::ChoiceLock::read(lock_path);
  Cache cache(StoreOptions{.enabled = !no_cache});
  tune::Tuner tuner(runtime_choices(), cache, std::move(options));
  for (const std::string& problem : problems) fmt::print("{}", table_text(tuner.choose(parse_problem(problem))));
  fmt::print(stderr, "{}\n", tuner.counters().summary());
  if (!write_lock_path.empty()) write_file_atomically(write_lock_path, tuner.as_lock().text());
  if (!log_path.empty()) write_file_atomically(log_path, tuner.log());
  return 0;
}

int cmd_tuning_worker(int argc, const char* const* argv) {
  Flags flags("tuning-worker", "Runs kernels for the toroid process that started it, which talks to it over standard input.");
  if (const auto status = flags.read(argc, argv)) return *status;
  return tune::serve_tuning(runtime_choices());
}

}  // namespace toroid::cli
