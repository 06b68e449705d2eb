// toroid conform DIR: runs every model of a folder on recorded inputs and compares with PyTorch's recorded results.
//
// Failures come first, one a line; then how many share a cause; then the line "N passed, M failed".
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend.h"
#include "base/error.h"
#include "base/file/file.h"
#include "base/machine/processors.h"
#include "build_flags.h"
#include "command.h"
#include "conform_case.h"
#include "driver/gpu_binaries.h"
#include "flags/flags.h"
#include "isolate.h"
#include "json_text.h"
#include "support/process/thread_pool.h"
#include "support/progress.h"

namespace toroid::cli {
namespace {

struct Options {
  std::string folder;
  std::string json_path;
  LoadOptions load;
  std::string device = "cpu";
  std::string filter;
  std::string architectures;
  size_t every = 1;
  size_t jobs = static_cast<size_t>(usable_processors());
  bool isolate = false;
  double timeout_s = 60;
};

nlohmann::ordered_json to_json(const CaseResult& result) {
  nlohmann::ordered_json json = {{"passed", result.passed}, {"seconds", result.seconds}};
  if (!result.passed) json.update({{"reason", result.reason}, {"cause", result.cause}});
  return json;
}
CaseResult from_json_text(const std::string& text) {
  const auto json = nlohmann::ordered_json::parse(text);
  return {json["passed"], json.value("reason", ""), json.value("cause", ""), json["seconds"]};
}

// Cases come sorted by name, so the samples of one operator are neighbours and most operators keep one.
std::vector<ConformCase> sample(std::vector<ConformCase> cases, size_t every) {
  std::vector<ConformCase> kept;
  for (size_t i = 0; i < cases.size(); i += every) kept.push_back(std::move(cases[i]));
  return kept;
}

std::vector<CaseResult> run_cases(const std::vector<ConformCase>& cases, const Options& options) {
  std::vector<CaseResult> results(cases.size());
  Progress progress("conformance", cases.size());
  if (options.isolate) {
    auto work = [&](size_t i) { return json_text(to_json(run_case(cases[i], options.load)), -1); };
    auto done = [&](size_t i, std::string text, bool died) {
      results[i] = died ? CaseResult{.reason = text, .cause = text} : from_json_text(text);
      progress.advance();
    };
    run_isolated(cases.size(), {options.jobs, options.timeout_s}, work, done);
    return results;
  }
  auto run = [&](size_t i) {
    results[i] = run_case(cases[i], options.load);
    progress.advance();
  };
  if (options.jobs == 1) {
    for (size_t i = 0; i < cases.size(); ++i) run(i);
  } else {
    ThreadPool(options.jobs - 1).parallel_for(cases.size(), run);  // the calling thread works too
  }
  return results;
}

// "   12  wrong elements", the most frequent first; nothing when every cause is its own.
void print_causes(const std::vector<CaseResult>& results) {
  std::map<std::string, size_t> count;
  size_t failed = 0;
  for (const CaseResult& result : results) {
    if (result.passed) continue;
    ++count[result.cause];
    ++failed;
  }
  if (failed < 2 || count.size() == failed) return;
  std::vector<std::pair<std::string, size_t>> causes(count.begin(), count.end());
  std::stable_sort(causes.begin(), causes.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  fmt::print("\nfailures by cause:\n");
  for (const auto& [cause, times] : causes) fmt::print("{:6}  {}\n", times, cause);
  fmt::print("\n");
}

void write_json(const std::string& path, const std::vector<ConformCase>& cases, const std::vector<CaseResult>& results, size_t passed) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < cases.size(); ++i) {
    nlohmann::ordered_json row = {{"name", cases[i].name}};
    row.update(to_json(results[i]));
    list.push_back(std::move(row));
  }
  const nlohmann::ordered_json json = {{"passed", passed}, {"failed", cases.size() - passed}, {"cases", std::move(list)}};
  write_file_atomically(path, json_text(json) + "\n");
}

}  // namespace

int cmd_conform(int argc, const char* const* argv) {
  Options options;
  Flags flags("toroid conform",
              "Compares models with recorded results: for every NAME.pt2 of a folder, NAME.in.safetensors "
              "and NAME.out.safetensors, and further calls NAME.in2.safetensors, ….");
  flags.add_option("DIR", options.folder, "the folder").required();
  flags.add_option("--json", options.json_path, "write the results as JSON");
  flags.add_option("--backend", options.load.backend, "what computes: " + backend_list()).shows_default();
  add_device_flag(flags, options.device, "where to run");
  flags.add_option("--filter", options.filter, "only names that match this pattern (*, ?, [...])");
  flags.add_option("--every", options.every, "a fixed sample: the first of every so many cases, by name").between(1, 1000000);
  flags.add_option("--jobs", options.jobs, "cases at a time").between(1, 1024);
  flags.add_flag("--compile-only", options.load.compiles_only,
                 "with --device cuda or rocm: the kernels are compiled, for the GPUs of --arch, and nothing is run");
  flags.add_option("--arch", options.architectures, "with --compile-only: the GPUs, as in gfx90a,gfx942,gfx1100");
  add_build_flags(flags, options.load.compile);
  flags.add_flag("--isolate", options.isolate, "run each case in a process of its own");
  flags.add_option("--timeout", options.timeout_s, "seconds for a case, with --isolate").positive();
  if (const auto status = flags.read(argc, argv)) return *status;

  set_device(options.load.compile, options.device);
  if (options.load.compiles_only && !is_device(options.load.compile.target))
    throw Error(ErrorKind::InvalidOption, "--compile-only is for programs on GPUs").help("add --device cuda, or --device rocm");
  if (!options.architectures.empty() && !options.load.compiles_only)
    throw Error(ErrorKind::InvalidOption, "--arch is for --compile-only: else the GPU that is here runs the programs").help("leave it out");
  if (!options.architectures.empty())
    options.load.compile.architectures = parse_architectures(options.architectures, options.load.compile.target);
  if (!options.json_path.empty()) check_writable(options.json_path);
  const std::vector<ConformCase> cases = sample(find_cases(options.folder, options.filter), options.every);
  const std::vector<CaseResult> results = run_cases(cases, options);
  size_t passed = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (results[i].passed) {
      ++passed;
    } else {
      fmt::print("FAIL {}: {}\n", cases[i].name, results[i].reason);
    }
  }
  print_causes(results);
  if (!options.json_path.empty()) write_json(options.json_path, cases, results, passed);
  fmt::print("{} passed, {} failed\n", passed, cases.size() - passed);
  return passed == cases.size() ? 0 : 1;
}

}  // namespace toroid::cli
