// hostile_operators --seed 1 --calls 100: every supported operator with arguments that PyTorch refuses. Prints what was not answered by a
// program or an error that names the operator; exit code 1 if there was any.
#include <map>

#include <fmt/format.h>

#include "base/file/file.h"
#include "flags/flags.h"
#include "hostile/check.h"
#include "passes/decompose/engine/decompose.h"

int hostile_operators(int argc, char** argv) {
  using namespace toroid;
  hostile::Options options;
  std::string replayed;
  size_t most = 3;
  std::string folder;
  bool lists_refused = false;
  cli::Flags flags("hostile_operators", "Calls every supported operator with arguments that PyTorch refuses.");
  flags.add_option("--seed", options.seed, "other calls for each");
  flags.add_option("--calls", options.calls, "of each operator");
  flags.add_option("--jobs", options.jobs, "processes at once").positive();
  flags.add_option("--only", options.only, "operators whose name contains it");
  flags.add_option("--most", most, "failures to print for each operator and kind");
  flags.add_option("--save", folder, "a folder for the programs of the failures that are printed");
  flags.add_option("--replay", replayed, "OPERATOR/SEED, as a failure is called: in this process, for a debugger");
  flags.add_flag("--list-refused", lists_refused, "operators of which every call was refused");
  flags.add_flag("!--no-evaluate", options.evaluate, "only decompose");
  if (const auto status = flags.read(argc, argv)) return *status;
  if (!replayed.empty()) {
    const size_t slash = replayed.rfind('/');
    const std::string fault = hostile::check_call(replayed.substr(0, slash), std::stoull(replayed.substr(slash + 1)), options.evaluate);
    fmt::print("{}\n", fault.empty() ? "as it must be" : fault);
    return fault.empty() ? 0 : 1;
  }
  const hostile::Summary summary = hostile::check(options);
  std::map<std::string, size_t> printed;
  for (const hostile::Failure& failure : summary.failures) {
    if (++printed[failure.op + failure.what.substr(0, 20)] > most) continue;
    fmt::print("{}/{}: {}\n{}\n", failure.op, failure.seed, failure.what, failure.program);
    if (!folder.empty()) {
      std::filesystem::create_directories(folder);
      write_file_atomically(std::filesystem::path(folder) / fmt::format("{}_{}.txt", failure.op, failure.seed), failure.program);
    }
  }
  if (lists_refused) {
    for (std::string_view name : schema_names()) {
      if (is_supported(*find_schema(name)) && name.find(options.only) != std::string_view::npos &&
          !summary.answered.contains(std::string(name))) {
        fmt::print("refused each time: {}\n", name);
      }
    }
  }
  fmt::print("{} operators, {} of them computed at least once, {} calls, {} refused, {} evaluated, {} failures\n", summary.operators,
             summary.answered.size(), summary.calls, summary.refused, summary.evaluated, summary.failures.size());
  return summary.failures.empty() ? 0 : 1;
}
