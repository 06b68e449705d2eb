// toroid compile MODEL -o FILE.so
#include <charconv>
#include <functional>
#include <initializer_list>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/file.h"
#include "build_flags.h"
#include "command.h"
#include "cross_compile.h"
#include "describe.h"
#include "driver/compile.h"
#include "driver/gpu_binaries.h"
#include "driver/package/write_compiled.h"
#include "emit_benchmark.h"
#include "emit_source.h"
#include "explain/explain_cache.h"
#include "flags/flags.h"
#include "runtime/contract/contract.h"
#include "runtime/cuda/images.h"
#include "runtime/program/loaded_program.h"
#include "runtime/program/package.h"
#include "runtime/program/safetensors_weights.h"
#include "support/process/launcher.h"
#include "support/signing.h"

namespace toroid::cli {
namespace {

// "image.0=1,s62=128"
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
      throw Error(ErrorKind::InvalidOption, fmt::format("'{}' is not a list of sizes", text))
          .help("write --variant INPUT.DIM=SIZE, as in --variant image.0=1,image.2=128");
    }
    sizes.emplace_back(part.substr(0, equals), value);
  }
  return sizes;
}

std::string isas_text(std::span<const Isa> levels) {
  std::string text;
  for (const Isa& isa : levels) text += (text.empty() ? "" : ", ") + isa.name();
  return text;
}

void print_compiled(const std::string& file, const ProgramLibrary& library, std::span<const Isa> levels) {
  const ToroidProgram& program = library.tables();
  const ToroidGpuProgram* const gpu = library.gpu_tables();
  fmt::print(stderr, "{}: {}, for {}\n", file, steps_text(general_variant(program)),
             gpu != nullptr ? cuda::architectures_text(*gpu) : isas_text(levels));
  print_interface(stderr, program);
  if (*program.training != '\0') {
    fmt::print(stderr, "note: the model was exported in training mode: {}; for inference call model.eval() before torch.export.export\n",
               program.training);
  }
}

// The part of the work that --part or --spread gives this process; none without either.
std::optional<Part> part_of(const std::string& text, bool spread, bool no_cache, const CompileModelOptions& options) {
  if (text.empty() && !spread) return std::nullopt;
  const char* const flag = spread ? "--spread" : "--part";
  if (spread && !text.empty()) throw Error(ErrorKind::InvalidOption, "--part and --spread say the same").help("leave one of them out");
  if (no_cache) {
    throw Error(ErrorKind::InvalidOption,
                fmt::format("{} cannot be combined with --no-cache: processes share their work by the cache", flag))
        .help("leave out --no-cache");
  }
  if (!spread) return parse_part(text);
  if (options.shard.processes > 1 && options.shard.rank < 0) {
    throw Error(ErrorKind::InvalidOption, "the launcher's rank cannot be both a part of the work and one of --tensor-parallel's processes")
        .help("add --rank to say whose program is compiled");
  }
  const std::optional<Launched> launched = launched_anywhere();
  if (!launched) {
    throw Error(ErrorKind::InvalidOption, "no launcher says which of several processes this is")
        .help("start it by mpirun or srun or as a Slurm array, or give --part 1/4");
  }
  return Part{launched->rank + 1, launched->processes};
}

// What this process did of the common work.
void print_part(Part part, const CompiledModel& model, const CompileModelOptions& options) {
  std::string text = fmt::format("part {}: ", to_string(part));
  if (model.choices.empty() && model.objects == 0) {
    text += model.from_cache ? "all was in the cache" : "there was nothing to share";
  } else {
    if (options.choose.measure) text += model.tuning.summary() + "; ";
    text += model.objects == 0 ? "the library was in the cache"
                               : fmt::format("{} of {} objects compiled here", model.objects_made, model.objects);
  }
  fmt::print(stderr, "{}\n", text);
}

struct CompileFlags {
  std::string model, output, device = "cpu", mode = "default", architectures, cpu = "native", target, weights, key, part;
  std::string save_source, benchmark, source, dump_ir, lock, write_lock, log;
  std::vector<std::string> variants = {};
  bool no_cache = false, spread = false;
  CompileModelOptions options = {};

  // Of several processes one writes the output.
  bool writes() const { return !output.empty() && (!spread || options.part->number == 1); }
  bool has_weights_by_name() const { return std::filesystem::path(weights).extension() == kSafetensorsExtension; }
};

std::optional<int> read_compile_flags(CompileFlags& given, int argc, const char* const* argv) {
  CompileModelOptions& options = given.options;
  Flags flags("toroid compile", "Compiles a model into one shared library that holds its kernels and weights.");
  flags.add_option("MODEL", given.model, "a .pt2 file, or a program in text form (.txt)").required();
  flags.add_option("-o,--output", given.output, "the library to write; FILE.a: a static archive, with FILE.h, for a program to link");
  add_device_flag(flags, given.device, "what to compile for");
  flags.add_option(
      "--arch", given.architectures,
      "for --device cuda: the GPUs to compile for, as in sm_80,sm_90a,compute_80 (PTX for later ones; default: the GPU that is here); "
      "for --device rocm as in gfx90a,gfx942,gfx1100");
  flags.add_option(
      "--cpu", given.cpu,
      "the processors that the library runs on: native (this one and better ones), portable (any, by baseline,avx2,avx512), or "
      "such a list of levels, of which it takes the best when it is loaded");
  flags.add_option("--target", given.target,
                   "aarch64: a library for such processors, by a cross compiler (aarch64-linux-gnu-g++, or TOROID_CROSS_CXX) and CMake");
  flags.add_option(
      "--weights", given.weights,
      "a file for the weights, in the place of the library's end: FILE.weights or FILE.safetensors (by name) beside FILE.so is "
      "found by itself");
  flags.add_option("--sign", given.key,
                   "a private key of Ed25519 (PEM), which signs the package: toroid verify --trusted and model_open ask for that");
  flags.add_option("--mode", given.mode, "max: measure the implementations of library kernels and use the quickest")
      .one_of({"default", "max"})
      .shows_default();
  flags.add_option("--tune-threads", options.choose.threads, "threads that a kernel has while implementations are measured (default: all)")
      .between(1, 1024);
  add_tune_limit(flags, options.choose);
  flags.add_option("--lock", given.lock, "take the choices of implementations from this file");
  flags.add_option("--write-lock", given.write_lock, "write the choices to this file; with --mode max");
  flags.add_option("--choices-log", given.log, "write all that was measured as JSON; with --mode max");
  flags.add_flag("--no-cache", given.no_cache, "build everything anew and keep nothing");
  flags.add_flag("--explain-cache", options.explain_cache, "say what the cache was asked, and after a miss how the nearest entry differs");
  flags.add_option("--threads", options.compile_threads, "compilers at a time (default: one a core)").between(1, 1024);
  flags.add_option("--part", given.part,
                   "which of several processes with a common cache this is, as 2/4: it begins with this part of the measuring and "
                   "compiling, and ends when all is done; without --output it writes nothing");
  flags.add_flag("--spread", given.spread, "the same by the launcher (mpirun, srun, a Slurm array); the first writes the output");
  flags.add_option("--variant", given.variants,
                   "a further form of the program for calls with these sizes, as in image.0=1,image.2=128 (INPUT.DIM=SIZE, or a symbol's "
                   "name); may be repeated");
  add_build_flags(flags, options);
  flags.add_option("--save-source", given.save_source, "a folder for the generated C++");
  flags.add_option("--emit-benchmark", given.benchmark,
                   "in the place of a library: a folder with the sources, a main that times them, and how to build it");
  flags.add_option("--emit-source", given.source,
                   "in the place of a library: a new folder with its sources and weights, which CMake builds");
  flags.add_option("--dump-ir", given.dump_ir, "a folder for the program as text, after each pass that changed it and each later phase");
  return flags.read(argc, argv);
}

[[noreturn]] void refuse(std::string message, std::string help) {
  throw Error(ErrorKind::InvalidOption, std::move(message)).help(std::move(help));
}

// An option that another one makes meaningless: its name, and whether it is given.
struct Beside {
  bool is_given;
  std::string name;
};
void refuse_beside(std::string_view option, std::initializer_list<Beside> others, std::string_view help = "leave it out") {
  for (const Beside& other : others) {
    if (other.is_given) refuse(fmt::format("{} cannot be combined with {}", option, other.name), std::string(help));
  }
}

void check_target(const CompileFlags& given) {
  if (given.device != "cpu" || given.cpu != "native" || given.options.part || std::filesystem::path(given.output).extension() != ".so") {
    refuse("--target is for a library, -o FILE.so, for the device cpu and its baseline", "leave out --device, --cpu, --part and --spread");
  }
  refuse_beside("--target", {{given.mode != "default", "--mode max, which measures here"},
                             {given.options.debug, "--debug"},
                             {!given.save_source.empty(), "--save-source"}});
}

// Is it one thing that is to be made, with options that mean something for it?
void check_what_is_made(const CompileFlags& given) {
  const CompileModelOptions& options = given.options;
  if (options.part && !(given.benchmark.empty() && given.source.empty()))
    refuse("several processes make a library, and no folder of sources", "leave out --part or --spread");
  if (!(options.part && given.output.empty()) && given.output.empty() + given.benchmark.empty() + given.source.empty() != 2) {
    refuse("one of --output, --emit-source and --emit-benchmark is needed, and one alone",
           "add -o FILE.so for a library, --emit-source DIR for its sources, --emit-benchmark DIR for sources that time themselves");
  }
  if (!given.target.empty()) check_target(given);
  if (!given.source.empty()) {
    refuse_beside("--emit-source", {{!given.save_source.empty(), "--save-source"},
                                    {options.debug, "--debug"},
                                    {!given.weights.empty(), "--weights"},
                                    {given.device.starts_with("emulated-"), "--device " + given.device}});
  }
  if (!given.benchmark.empty()) {
    refuse_beside("--emit-benchmark", {{options.debug, "--debug"}, {!given.save_source.empty(), "--save-source"}},
                  "the folder of --emit-benchmark holds the sources; its build.sh can be edited");
  }
}

void fill_options(CompileFlags& given) {
  CompileModelOptions& options = given.options;
  set_device(options, given.device);
  if (!given.architectures.empty() && !is_device(options.target))
    refuse(fmt::format("--arch means nothing for the device {}", given.device), "add --device cuda, or --device rocm");
  if (!given.architectures.empty()) options.architectures = parse_architectures(given.architectures, options.target);
  options.save_source = given.benchmark.empty() ? std::filesystem::path(given.save_source) : program_folder(given.benchmark);
  options.profile = !given.benchmark.empty();
  options.dump_ir = given.dump_ir;
  options.choose.measure = given.mode == "max";
  options.choose.keep = !given.write_lock.empty() || !given.log.empty();
  if (options.choose.keep && !options.choose.measure) refuse("without measuring there are no choices to write", "add --mode max");
  if (given.cpu != "native" && (options.target != codegen::Target::Cpu || !given.benchmark.empty()))
    refuse("--cpu is for libraries for the device cpu", "leave it out");
  if (!given.lock.empty()) options.choose.lock = tune::ChoiceLock::read(given.lock);
  for (const std::string& variant : given.variants) options.variants.push_back(parse_sizes(variant));
  if (options.part && !given.writes()) given.write_lock = given.log = "";  // by whoever writes the output
  for (const std::string& path : {given.write_lock, given.log}) {
    if (!path.empty()) check_writable(path);
  }
  if (given.benchmark.empty()) set_levels(options, given.target.empty() ? given.cpu : "baseline");
  options.archive_prefix = prefix_of_output(given.output, options);
  if (given.writes()) check_outputs(given.output, given.weights);
  options.keep_sources = !given.source.empty() || !given.target.empty();
  if (!given.key.empty() && (!options.archive_prefix.empty() || given.has_weights_by_name() || given.output.empty()))
    refuse("only libraries and their own files of weights are signed", "leave --sign out");
}

// The program for this machine, whose tables of weights are those of one for another.
std::string host_library(const CompileFlags& given, CompileSession& session) {
  CompileModelOptions options = given.options;
  options.keep_sources = false;
  return session.compile_file(given.model, options).library;
}

void write_signed(const CompileFlags& given, const CompiledModel& model, const std::optional<SigningKey>& key, CompileSession& session) {
  write_compiled(model, given.output, given.weights, session);
  if (!key) return;
  RuntimePool pool(0);
  const auto by_key = [&](std::string_view text) { return sign(*key, text); };
  sign_package(given.output, given.output, key->public_key, by_key, pool);
  if (!given.weights.empty()) sign_package(given.weights, given.output, key->public_key, by_key, pool);
}

// What was made, how it was chosen, and how long all took.
void print_report(const CompileFlags& given, const CompiledModel& model, const Stopwatch& watch) {
  const CompileModelOptions& options = given.options;
  if (!given.writes() && given.benchmark.empty()) {
    // Whoever writes it says what it is.
  } else if (!options.archive_prefix.empty()) {
    fmt::print(stderr, "{}: for {}; {} has what a program calls\n", given.output, isas_text(model.levels),
               std::filesystem::path(given.output).replace_extension("h").string());
  } else if (!given.target.empty()) {
    fmt::print(stderr, "{}: for {}, {} kernels\n", given.output, given.target, model.kernels);
  } else {
    const std::string& file = given.output.empty() ? given.benchmark : given.output;
    const ProgramLibrary library(model.library, file, false);
    print_compiled(file, library, model.levels);
  }
  if (options.choose.keep) {
    for (const tune::Decision& choice : model.choices) fmt::print(stderr, "{}", table_text(choice));
  }
  if (options.choose.measure && !options.choose.lock) {
    fmt::print(stderr, "{}",
               model.choices.empty() && model.from_cache ? "tuned before: the program comes from the cache\n"
                                                         : tune::changes_text(model.choices, model.choices_late));
  }
  for (const CacheLookup& lookup : model.lookups) print_explanation(stderr, lookup);
  for (const PhaseTime& phase : model.phases) fmt::print(stderr, "  {:<14} {:8.1f} ms\n", phase.name, phase.seconds * 1e3);
  fmt::print(stderr, "  {:<14} {:8.1f} ms; cache: {}\n", "in all", watch.milliseconds(), model.cache_use);
}

}  // namespace

int cmd_compile(int argc, const char* const* argv) {
  CompileFlags given;
  if (const auto status = read_compile_flags(given, argc, argv)) return *status;
  CompileModelOptions& options = given.options;
  options.part = part_of(given.part, given.spread, given.no_cache, options);
  check_what_is_made(given);
  fill_options(given);
  std::optional<SigningKey> key;
  if (!given.key.empty()) key = read_signing_key(given.key);
  const auto cross_compiler = given.target.empty() ? std::nullopt : std::optional<CrossCompiler>(given.target);
  const Stopwatch watch;
  CompileSession session(!given.no_cache);
  CompiledModel model = session.compile_file(given.model, options);
  if (cross_compiler) {
    model.library = cross_compiler->library(model, options.compile_threads);
    if (given.has_weights_by_name()) model.host_library = host_library(given, session);
  }
  if (const std::string& folder = given.source; !folder.empty()) {
    emit_source(folder, model, options.compile_threads);
    fmt::print(stderr, "{}: {} kernels, {:.1f} s\n  help: cmake -G Ninja -S {} -B {}/build && cmake --build {}/build\n", folder,
               model.kernels, watch.milliseconds() / 1e3, folder, folder, folder);
    return 0;
  }
  if (options.part) print_part(*options.part, model, options);
  if (!given.benchmark.empty()) {
    emit_benchmark(given.benchmark, model, options, session.toolchain());
  } else if (given.writes()) {
    write_signed(given, model, key, session);
  }
  if (!given.write_lock.empty()) write_file_atomically(given.write_lock, model.choices_lock);
  if (!given.log.empty()) write_file_atomically(given.log, model.choices_log);
  print_report(given, model, watch);
  return 0;
}

}  // namespace toroid::cli
