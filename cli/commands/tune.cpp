// toroid tune: measures implementations for problems that are given as text. toroid tuning-worker: the process in which they run.
#include <algorithm>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "base/file/file.h"
#include "command.h"
#include "driver/cached_products.h"
#include "flags/flags.h"
#include "tune/measure/kernel_trial.h"
#include "tune/measure/program_trial.h"
#include "tune/measure/serve.h"
#include "tune/tuner.h"

namespace toroid::cli {

namespace {

// The problems of a file, one a line; what begins with '#' is a comment.
void read_problems(const std::string& path, std::vector<std::string>& problems) {
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.front() != '#') problems.push_back(line);
  }
}

constexpr double kMuch = 1.15;

// What mode default takes beside the quickest of those measured.
struct WithDefault {
  std::string problem, taken, quickest;
  double ratio;  // of their times

  bool is_much() const { return ratio > kMuch; }
};

std::optional<WithDefault> compare_default(const tune::Decision& decision, int threads) {
  const std::optional<std::string> taken =
      runtime_choices().cheapest_choice(parse_problem(decision.problem), model_of_this_machine(threads));
  const tune::Outcome *of_taken = nullptr, *quickest = nullptr;
  for (const tune::Outcome& outcome : decision.outcomes) {
    if (outcome.standing != tune::Standing::Timed) continue;
    if (quickest == nullptr || outcome.median_s < quickest->median_s) quickest = &outcome;
    if (outcome.choice == taken) of_taken = &outcome;
  }
  if (decision.source == tune::Source::OnlyOne || quickest == nullptr || of_taken == nullptr) return std::nullopt;
  return WithDefault{decision.problem, *taken, quickest->choice, of_taken->median_s / quickest->median_s};
}

// Where mode default seems to lose much, what disturbed the machine, or where the tensors happened to lie, may be why: measured anew, by
// other processes and in more rounds, until three of the comparisons agree. A loss that is one stays.
WithDefault confirmed(const WithDefault& first, tune::TunerOptions options) {
  constexpr int kAgreeing = 3, kLonger = 4;
  options.measure.rounds.limit_s *= kLonger;
  options.measure.rounds.rounds *= kLonger;
  std::vector<WithDefault> all = {first};
  std::vector<double> ratios = {first.ratio};
  Cache no_cache(StoreOptions{.enabled = false});
  const auto again = [&]() -> std::optional<double> {
    tune::Tuner tuner(runtime_choices(), no_cache, options);
    const std::optional<WithDefault> each = compare_default(tuner.choose(parse_problem(first.problem)), options.measure.threads);
    if (!each) return std::nullopt;
    all.push_back(*each);
    return each->ratio;
  };
  return all[tune::index_of_agreed(ratios, kMuch, kAgreeing, again)];
}

void print_comparisons(std::vector<WithDefault> all, size_t problems) {
  constexpr size_t kShown = 10;
  std::sort(all.begin(), all.end(), [](const WithDefault& a, const WithDefault& b) { return a.ratio > b.ratio; });
  const auto count = std::count_if(all.begin(), all.end(), [](const WithDefault& c) { return c.is_much(); });
  fmt::print("{} problems, {} with several choices; what mode default takes is more than {} times as slow as the quickest in {}\n",
             problems, all.size(), kMuch, count);
  for (size_t i = 0; i < std::min(kShown, all.size()); ++i) {
    fmt::print("{:6.2f}  {} for {}  {}\n", all[i].ratio, all[i].taken, all[i].quickest, all[i].problem);
  }
}

}  // namespace

int cmd_tune(int argc, const char* const* argv) {
  std::vector<std::string> problems;
  std::string mode = "max", lock_path, write_lock_path, log_path, file;
  int threads = 0;
  double limit_s = 2;
  bool cold = false, no_cache = false, compares_default = false;
  Flags flags("toroid tune", "Measures the implementations of problems, as 'matmul.f32(f32[1, 2048], f32[2048, 1000]) -> f32[1, 1000]'.");
  flags.add_option("PROBLEM", problems, "a library kernel's operands, as in docs/tuning.md");
  flags.add_option("--file", file, "more problems, one a line, as in bench/problems.txt");
  flags.add_flag("--compare-default", compares_default, "print how far what mode default takes is from the quickest, the worst ten");
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

  if (!file.empty()) read_problems(file, problems);
  if (problems.empty()) throw Error(ErrorKind::InvalidOption, "no problem is given").help("name one, or a file of them with --file");
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
  tune::Tuner tuner(runtime_choices(), cache, options);
  std::vector<WithDefault> comparisons;
  for (const std::string& problem : problems) {
    const tune::Decision& decision = tuner.choose(parse_problem(problem));
    if (!compares_default) fmt::print("{}", table_text(decision));
    if (std::optional<WithDefault> each = compare_default(decision, options.measure.threads); compares_default && each)
      comparisons.push_back(*each);
  }
  for (WithDefault& each : comparisons) {
    if (each.is_much()) each = confirmed(each, options);
  }
  if (compares_default) print_comparisons(std::move(comparisons), problems.size());
  fmt::print(stderr, "{}\n", tuner.counters().summary());
  if (!write_lock_path.empty()) write_file_atomically(write_lock_path, tuner.as_lock().text());
  if (!log_path.empty()) write_file_atomically(log_path, tuner.log());
  return 0;
}

int cmd_tuning_worker(int argc, const char* const* argv) {
  int gpu = 0;
  bool keeps_products = false;
  Flags flags("toroid tuning-worker",
              "Runs kernels and programs for the toroid process that started it, which talks to it over standard input.");
  flags.add_option("--gpu", gpu, "the number of the GPU that programs run on").between(0, 1023).shows_default();
  flags.add_flag("--keep-products", keeps_products, "keep in the cache which of a library's kernels were the quickest for its calls");
  if (const auto status = flags.read(argc, argv)) return *status;
  const std::shared_ptr<cuda::ProductMemory> products = keeps_products ? cached_products(true) : nullptr;
  const tune::TrialMaker kernels = tune::trials_of_kernels(runtime_choices());
  return tune::serve_tuning([&](const tune::Request& request) {
    const std::optional<tune::ProgramsToTry> programs = tune::parse_programs(request.problem);
    return programs ? tune::make_program_trial(*programs, request, gpu, products) : kernels(request);
  });
}

}  // namespace toroid::cli
