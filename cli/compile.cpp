// toroid compile MODEL -o FILE.so
#include "driver/compile.h"
#include "command.h"
#include "flags.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/file.h"

namespace toroid::cli {

int cmd_compile(int argc, const char* const* argv) {
  std::string model_path, output, device = "cpu", mode = "default";
  bool no_cache = false;
  CompileModelOptions options;
  std::string save_source, dump_ir;
  Flags flags("compile", "Compiles a model into one shared library that holds its kernels and weights.");
  flags.add_option("MODEL", model_path, "a .pt2 file")->required();
  flags.add_option("-o,--output", output, "the library to write")->required();
  flags.add_option("--device", device, "what to compile for")->check(CLI::IsMember({"cpu"}))->capture_default_str();
  flags.add_option("--mode", mode, "how much to tune")->check(CLI::IsMember({"default", "max"}))->capture_default_str();
  flags.add_flag("--no-cache", no_cache, "build everything anew and keep nothing");
  flags.add_option("--threads", options.compile_threads, "compilers at a time (default: one a core)")
      ->check(CLI::Range(1, 1024));
  flags.add_option("--save-source", save_source, "a folder for the generated C++");
  flags.add_option("--dump-ir", dump_ir, "a folder for the program after each phase, as text");
  if (const auto status = flags.read(argc, argv)) return *status;
  options.save_source = save_source;
  options.dump_ir = dump_ir;

  check_writable(output);
  Stopwatch watch;
  CompileSession session(!no_cache);
  const CompiledModel model = session.compile_file(model_path, options);
  write_package(output, model.library, model.constants);
  fmt::print(stderr, "{}: {} kernels ({} calls), {} library calls\n", output, model.kernels, model.kernel_calls,
             model.library_calls);
  for (const PhaseTime& phase : model.phases)
    fmt::print(stderr, "  {:<10} {:8.1f} ms\n", phase.name, phase.seconds * 1e3);
  fmt::print(stderr, "  {:<10} {:8.1f} ms{}\n", "in all", watch.milliseconds(),
             model.from_cache ? ", kernels from the cache" : "");
  return 0;
}

}  // namespace toroid::cli
