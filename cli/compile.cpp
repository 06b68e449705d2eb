// toroid compile MODEL -o FILE.so
#include <charconv>

#include "driver/compile.h"
#include "command.h"
#include "explain_cache.h"
#include "flags.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/file.h"

namespace toroid::cli {
namespace {

// "s0=1,s1=128"
SizeValues parse_sizes(std::string_view text) {
  SizeValues sizes;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const size_t equals = part.find('=');
    int64_t value = 0;
    const char* const first = part.data() + (equals == part.npos ? part.size() : equals + 1);
    const char* const last = part.data() + part.size();
    const auto [end, error] = std::from_chars(first, last, value);
    if (equals == 0 || first == last || error != std::errc() || end != last) {
      throw Error(ErrorKind::InvalidOption, fmt::format("'{}' is not a list of sizes", text)).help("write --variant s0=1,s1=128");
    }
    sizes.emplace_back(part.substr(0, equals), value);
  }
  return sizes;
}

}  // namespace

int cmd_compile(int argc, const char* const* argv) {
  std::string model_path, output, device = "cpu", mode = "default";
  bool no_cache = false;
  CompileModelOptions options;
  std::string save_source, dump_ir;
  std::vector<std::string> variants;
  Flags flags("compile", "Compiles a model into one shared library that holds its kernels and weights.");
  flags.add_option("MODEL", model_path, "a .pt2 file").required();
  flags.add_option("-o,--output", output, "the library to write").required();
  flags.add_option("--device", device, "what to compile for").one_of({"cpu"}).shows_default();
  flags.add_option("--mode", mode, "how much to tune").one_of({"default", "max"}).shows_default();
  flags.add_flag("--no-cache", no_cache, "build everything anew and keep nothing");
  flags.add_flag("--explain-cache", options.explain_cache,
                 "say what the cache was asked, and after a miss how the nearest entry differs");
  flags.add_option("--threads", options.compile_threads, "compilers at a time (default: one a core)").between(1, 1024);
  flags.add_option("--variant", variants,
                   "a further form of the program for calls with these sizes, as in s0=1,s1=128; may be repeated");
  flags.add_option("--save-source", save_source, "a folder for the generated C++");
  flags.add_option("--dump-ir", dump_ir, "a folder for the program after each phase, as text");
  if (const auto status = flags.read(argc, argv)) return *status;
  options.save_source = save_source;
  options.dump_ir = dump_ir;
  for (const std::string& variant : variants) options.variants.push_back(parse_sizes(variant));

  check_writable(output);
  Stopwatch watch;
  CompileSession session(!no_cache);
  const CompiledModel model = session.compile_file(model_path, options);
  write_package(output, model.library, model.constants);
  fmt::print(stderr, "{}: {} kernels ({} calls), {} library calls\n", output, model.kernels, model.kernel_calls,
             model.library_calls);
  for (const CacheLookup& lookup : model.lookups) print_explanation(stderr, lookup);
  for (const PhaseTime& phase : model.phases)
    fmt::print(stderr, "  {:<10} {:8.1f} ms\n", phase.name, phase.seconds * 1e3);
  fmt::print(stderr, "  {:<10} {:8.1f} ms; cache: {}\n", "in all", watch.milliseconds(), model.cache_use);
  return 0;
}

}  // namespace toroid::cli
