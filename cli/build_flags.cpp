#include "build_flags.h"

#include <fmt/format.h>

#include "base/error.h"
#include "passes/pipeline.h"

namespace toroid::cli {

void add_device_flag(Flags& flags, std::string& device, std::string_view what) {
  flags
      .add_option(
          "--device", device,
          fmt::format("{}: cpu, halide, cuda, cuda:1 (by its number), as-exported, triton, rocm, rocm:1, emulated-cuda, emulated-rocm",
                      what))
      .shows_default();
}

void add_operators_flag(Flags& flags, CompileModelOptions& options) {
  flags.add_option(
      "--operators", options.operators,
      "a folder with the files of custom operators (docs/custom-operators.md), before those of TOROID_OPERATORS; may be repeated");
}

void add_build_flags(Flags& flags, CompileModelOptions& options) {
  add_operators_flag(flags, options);
  flags.add_option("--group", options.process_groups,
                   "the ranks of a group of processes that the model names, as --group row=0,1; may be repeated");
  flags
      .add_option("--tensor-parallel", options.shard.processes,
                  "cut the model for so many processes, and compile this one's part (docs/several-processes.md)")
      .between(1, 1 << 16);
  flags.add_option("--rank", options.shard.rank, "which of the processes this is (default: what the launcher says)")
      .between(0, (1 << 16) - 1);
  flags.add_option("--shard-rules", options.shard.rules_file, "a file that says how weights are cut");
  flags.add_flag("--debug", options.debug, "build for debuggers: -O1 -g, with the sources where TOROID_KEEP_FILES says");
  flags.add_flag("--assertions", options.assertions, "kernels check each access to memory; slower");
  flags.add_option("--without-pass", options.without_passes,
                   "leave out a graph pass, to find out which one is at fault; may be repeated: " + optional_pass_names());
  flags.add_option("--cxxflag", options.compiler_flags, "a further flag for the C++ compiler, as --cxxflag=-O2; may be repeated");
}

void add_tune_limit(Flags& flags, ChooseOptions& options) {
  flags
      .add_option("--tune-limit", options.limit_s,
                  "with --mode max for a GPU: seconds after which no step is measured any more; more than before goes on")
      .positive()
      .shows_default();
}

void refuse_build_flags(const CompileModelOptions& options, std::string_view what) {
  const char* given = options.debug                     ? "--debug"
                      : options.assertions              ? "--assertions"
                      : !options.without_passes.empty() ? "--without-pass"
                      : !options.compiler_flags.empty() ? "--cxxflag"
                                                        : nullptr;
  if (given == nullptr) return;
  throw Error(ErrorKind::InvalidOption, fmt::format("{} means nothing for {}", given, what))
      .help("it is for models that this command compiles, with the backend cpu");
}

}  // namespace toroid::cli
