#include "driver/compile.h"

#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/file.h"
#include "base/file/kept_files.h"
#include "base/file/mapped_file.h"
#include "base/machine/machine.h"
#include "base/machine/out_of_memory.h"
#include "codegen/wrapper/generate.h"
#include "codegen/wrapper/package_entry.h"
#include "codegen/wrapper/program_tables.h"
#include "driver/build_library.h"
#include "driver/cached_products.h"
#include "driver/choices/choose_kernels.h"
#include "driver/choices/choose_ways.h"
#include "driver/generated_variant.h"
#include "driver/gpu_binaries.h"
#include "driver/graph_cache.h"
#include "driver/model_text.h"
#include "driver/package/absent_code.h"
#include "driver/pass_costs.h"
#include "frontend/pt2/import.h"
#include "graph/custom/custom_operators.h"
#include "graph/text/text.h"
#include "lower/text.h"
#include "passes/attention/expand_attention.h"
#include "passes/attention/fold_masks.h"
#include "passes/attention/merge_attention.h"
#include "passes/attention/merge_gradient.h"
#include "passes/attention/write_scores.h"
#include "passes/dead_code.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/engine/overrides.h"
#include "passes/pipeline.h"
#include "program/text.h"
#include "runtime/cuda/device.h"
#include "runtime/kernels/onednn/onednn.h"
#include "runtime/kernels/registry/registry.h"
#include "runtime/pool/pool.h"
#include "schedule/cuda/attention/attention_gradient_kernel.h"
#include "schedule/cuda/attention/attention_kernel.h"
#include "schedule/planner.h"
#include "schedule/text/text.h"
#include "support/hash.h"
#include "support/log.h"
#include "toolchain/extra_flags.h"
#include "toolchain/nvrtc.h"
#include "toolchain/random_delays.h"

namespace toroid {
namespace {

// How long another process may take for the same program before this one compiles it as well.
constexpr auto kPatience = std::chrono::minutes(10);

// What of these options decides the program: with the libraries that may compete, for a program is not to be found where they are not.
std::string choices_text(const ChooseOptions& options) {
  if (!options.is_asked()) return "";
  const std::string onednn = onednn_absence().value_or("with oneDNN");
  if (options.lock) return fmt::format("lock {}, {}", sha256(options.lock->text()).hex(), onednn);
  return fmt::format("measured for {} threads, {}", RuntimePool::threads_for(options.threads), onednn);
}

// The same of a program for a GPU, where it is measured on one.
std::string choices_text(const CompileModelOptions& options) {
  if (options.target != codegen::Target::Cuda || !options.choose.is_asked()) return choices_text(options.choose);
  if (options.choose.lock) return fmt::format("lock {}", sha256(options.choose.lock->text()).hex());
  return fmt::format("measured on {}", identity_of_gpu(options).machine);
}

CompileOptions compiler_options(const CompileModelOptions& options) {
  check_extra_flags(options.compiler_flags);
  // Emulated kernels are tested, not timed: g++ takes half as long.
  const int optimization = std::min(options.optimization, options.target == codegen::Target::EmulatedCuda ? 1 : 3);
  return {.optimization = optimization, .debug = options.debug, .extra_flags = options.compiler_flags};
}

// Where a library with its own run side is asked for: that.
std::optional<RunSide> run_side_of(const CompileModelOptions& options, Whole whole = Whole::Unchecked) {
  return options.package && options.target == codegen::Target::Cpu ? find_run_side(whole) : std::nullopt;
}
std::string package_text(const CompileModelOptions& options) {
  const std::optional<RunSide> run_side = run_side_of(options);
  if (!run_side) return "";
  std::string levels;
  for (const Isa& isa : *options.package) levels += " " + isa.name();
  return fmt::format("package for{}{}, with {}", levels.empty() ? " " + machine().name() : levels,
                     fmt::format("{}{}", options.is_portable ? " and others" : "",
                                 options.archive_prefix.empty() ? "" : ", as an object of " + options.archive_prefix),
                     run_side->fingerprint);
}

// What kernels are compiled for and by; "" for this machine's processor.
std::string target_text(const CompileModelOptions& options) {
  if (options.target == codegen::Target::Cpu) return package_text(options);
  if (options.target == codegen::Target::EmulatedCuda) return fmt::format("emulated CUDA {}", fmt::join(options.architectures, " "));
  return fmt::format("CUDA, {}, {}{}", fmt::join(architectures_of(options), " "), nvrtc_version(),
                     has_random_delays() ? ", with random delays" : "");
}

// Which attentions the target computes by one kernel.
std::function<bool(const Graph&, const Node&)> attention_kernels(const CompileModelOptions& options) {
  return [has_any = tensor_cores(options) != schedule::TensorCores::None](const Graph& graph, const Node& node) {
    return has_any && schedule::has_attention_kernel(graph, node);
  };
}

// What is for processors alone.
void refuse_for_gpus(const CompileModelOptions& options) {
  if (options.target == codegen::Target::Cpu || !options.assertions) return;
  throw Error(ErrorKind::InvalidOption, "there are no checks of each access for programs on a GPU yet").help("compile for the device cpu");
}

// Ways are measured on the GPU that they are for.
void refuse_to_measure_for_others(const CompileModelOptions& options) {
  if (options.target != codegen::Target::Cuda || !options.choose.measure || options.choose.lock) return;
  const int own = cuda::Device::get(options.gpu).compute_capability();
  for (const std::string& each : architectures_of(options)) {
    if (capability_of(each) == own) continue;
    throw Error(ErrorKind::InvalidOption, fmt::format("nothing can be measured for {}: the GPU that is here is sm_{}", each, own))
        .help("measure on such a GPU with --write-lock, and give the file with --lock here");
  }
}

}  // namespace

GraphKeyParts key_parts(const CompileModelOptions& options) {
  check_left_out(options.without_passes);
  refuse_for_gpus(options);
  refuse_to_measure_for_others(options);
  return {.optimise = options.optimise,
          .without_passes = options.without_passes,
          .profile = options.profile,
          .assertions = options.assertions,
          .compiler = compiler_options(options),
          .variants = options.variants,
          .forms = forms_of(options),
          .target = target_text(options),
          .choices = choices_text(options)};
}

namespace {

// Why the graph cache cannot serve this compilation; empty when it can.
std::string reason_to_bypass(const CompileModelOptions& options, bool use_cache) {
  if (!use_cache) return "the cache is off";
  if (!options.save_source.empty()) return "the generated sources are wanted";
  if (options.keep_sources) return "the generated sources are wanted";
  if (!options.dump_ir.empty()) return "the program's phases are wanted";
  if (options.debug) return "the sources of a debug build are wanted";
  if (options.keep_program) return "the program is wanted";
  if (options.choose.keep) return "the choices are wanted";
  if (has_overridden_decompositions()) return "decompositions are overridden";
  return "";
}

void take_levels(CompiledModel& model, const CompileModelOptions& options, const Toolchain& tools) {
  model.levels = options.package && !options.package->empty() ? *options.package : std::vector<Isa>{tools.isa()};
  model.isa = model.levels.back();
}

// A program from the cache, in the place of all the work.
void take(CompiledModel& model, GraphCache::Found found, std::span<const ConstantData> imported, std::shared_ptr<const MappedFile> file) {
  const std::span<const std::byte> bytes = file ? file->bytes() : std::span<const std::byte>();
  model.kernels = found.graph.kernels;
  model.kernel_calls = found.graph.kernel_calls;
  model.library_calls = found.graph.library_calls;
  model.guards = found.graph.guards;
  model.library = std::move(found.library);
  FoundConstants constants = find_constants(std::move(found.graph), imported, bytes, std::move(file));
  model.constants = std::move(constants.bytes);
  model.owner = std::move(constants.owner);
  model.from_cache = true;
}

// Throws when the file of a constant was changed since it was imported.
void refuse_changed(std::span<const ConstantData> constants) {
  std::vector<std::span<const std::byte>> memory;
  for (const ConstantData& constant : constants) memory.push_back(constant.bytes);
  refuse_changed_files(memory);
}

// To be noted before what was missed is published.
void note_lookup(CompiledModel& model, const CompileModelOptions& options, Cache& cache, std::string_view what, const CacheKey& key,
                 bool is_hit) {
  if (!options.explain_cache) return;
  if (!model.lookups.empty() && model.lookups.back().key == key) model.lookups.pop_back();  // looked for again, with the lease
  model.lookups.push_back({what, key, is_hit});
  if (!is_hit) model.lookups.back().nearest = cache.store().nearest_parts(key);
}

// Numbered dumps, one for each pass that changed the program and one for each later phase.
class Dumps {
 public:
  explicit Dumps(std::filesystem::path folder) : folder_(std::move(folder)) {
    if (!folder_.empty()) std::filesystem::create_directories(folder_);
  }
  template <class Text>
  void write(std::string_view phase, Text text) {
    if (folder_.empty()) return;
    write_file_atomically(folder_ / fmt::format("{:02}-{}.txt", ++count_, phase), std::string_view(text()));
  }

 private:
  std::filesystem::path folder_;
  int count_ = 0;
};

// Each kernel as a file that compiles alone, with the prelude beside it, and which kernels each step has.
void save_kernels(const std::filesystem::path& folder, const codegen::GeneratedProgram& code, std::string_view suffix) {
  std::filesystem::create_directories(folder);
  const std::string prelude = fmt::format("prelude{}.h", suffix);
  write_file_atomically(folder / prelude, std::string_view(code.prelude));
  std::map<std::string, std::string> steps_of;
  std::string steps;
  for (size_t i = 0; i < code.module.steps.size(); ++i) {
    std::string files;
    for (const std::string& kernel : code.step_kernels[i]) {
      std::string& list = steps_of[kernel];
      list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", i, code.module.steps[i].name);
      files += " " + kernel + ".cpp";
    }
    steps += fmt::format("{} {}:{}\n", i, code.module.steps[i].name, files.empty() ? " no generated kernel" : files);
  }
  write_file_atomically(folder / fmt::format("steps{}.txt", suffix), std::string_view(steps));
  for (const codegen::GeneratedKernel& kernel : code.kernels) {
    const size_t end = kernel.text.find('\n') + 1;
    write_file_atomically(folder / (kernel.name + ".cpp"),
                          fmt::format("// toroid: {}// of {} {}\n#include \"{}\"\n{}", kernel.text.substr(3, end - 3),
                                      steps_of[kernel.name].find(", ") == std::string::npos ? "step" : "steps", steps_of[kernel.name],
                                      prelude, kernel.text.substr(end)));
  }
}
// What the library is compiled from.
void save_units(const std::filesystem::path& folder, std::span<const std::string> units, std::string_view extension) {
  for (size_t i = 0; i < units.size(); ++i) {
    const std::string_view name = extension == "cu" ? "kernels_unit" : "wrapper_unit";
    write_file_atomically(folder / fmt::format("{}{}.{}", name, i, extension), std::string_view(units[i]));
  }
}

// Also where the library, which refers to them, comes from the cache.
void keep_sources(const std::vector<std::string>& units) {
  for (size_t i = 0; i < units.size(); ++i) keep_file(sources_folder(), name_of_unit(units, i), "cpp", units[i]);
}

// Phases by name, each with the time of all its variants.
class PhaseClock {
 public:
  explicit PhaseClock(std::vector<PhaseTime>& phases) : phases_(phases) {}
  // The phase at hand ends.
  void done(std::string_view phase) {
    add(phase, watch_.seconds());
    watch_.restart();
  }
  void add(std::string_view phase, double seconds) {
    for (PhaseTime& each : phases_) {
      if (each.name == phase) {
        each.seconds += seconds;
        return;
      }
    }
    phases_.push_back({std::string(phase), seconds});
  }
  void restart() { watch_.restart(); }

 private:
  std::vector<PhaseTime>& phases_;
  Stopwatch watch_;
};

NarrowWeights narrow_weights_of(const CompileModelOptions& options) {
  if (options.target == codegen::Target::Cpu) return NarrowWeights::Kept;
  return tensor_cores(options) == schedule::TensorCores::None ? NarrowWeights::Widened : NarrowWeights::KeptForFewRows;
}
const schedule::Planner& planner_of(const CompileModelOptions& options) {
  if (options.target == codegen::Target::Cpu) return schedule::cpu_planner();
  return schedule::cuda_planner(tensor_cores(options));
}

// Who chooses, and the compiler of what is tried.
struct Choosing {
  tune::Tuner* tuner = nullptr;  // null: nobody
  const Toolchain* tools = nullptr;
};

// A file that is compiled for other machines too has all it needs, which a library somewhere on this one is not.
void refuse_libraries(const Program& program, const codegen::CustomEntries& entries) {
  for (const auto& [name, uses] : entries) {
    const CustomOperator* op = program.operators->of_library(name);
    const CustomKernel* kernel = program.operators->kernel_of(*op);
    if (kernel->kind != CustomKernel::Kind::Library) continue;
    throw Error(ErrorKind::Unsupported,
                fmt::format("{} is a function of {}, which a compiled file would not contain", op->schema.name, kernel->library.string()))
        .help("run the model itself with 'toroid run', or give the operator a formula or C++ source");
  }
}

// The pipeline from the imported program to C++.
GeneratedVariant generate(const SizeValues& when, Program program, const CompileModelOptions& options, int threads, std::string_view suffix,
                          Dumps& dumps, PhaseClock& clock, const Choosing& choosing) {
  dumps.write("import", [&] { return to_text(program, {.provenance = true}); });
  run_passes(program, {.optimise = options.optimise,
                       .without = options.without_passes,
                       .costs = options.target == codegen::Target::Cpu ? pass_costs() : gpu_pass_costs(),
                       .changed = [&](const Pass& pass,
                                      const Program& now) { dumps.write(pass.name, [&] { return to_text(now, {.provenance = true}); }); },
                       .timed = [&](const Pass& pass, double seconds) { clock.add(pass.name, seconds); }});
  clock.restart();
  const auto has_kernel = [&](const TensorType& q, const TensorType& v) {
    return tensor_cores(options) != schedule::TensorCores::None && schedule::has_attention_kernel(q, v);
  };
  if (options.target != codegen::Target::Cpu && options.optimise && write_scores(program, has_kernel)) {
    remove_dead_code(program);
    dumps.write("write-scores", [&] { return to_text(program, {.provenance = true}); });
  }
  if (options.target != codegen::Target::Cpu && options.optimise && merge_attention(program, has_kernel)) {
    fold_masks(program);
    remove_dead_code(program);
    dumps.write("merge-attention", [&] { return to_text(program, {.provenance = true}); });
  }
  if (options.target != codegen::Target::Cpu && expand_attention(program, attention_kernels(options))) {
    dumps.write("expand-attention", [&] { return to_text(program, {.provenance = true}); });
  }

  const auto has_gradient_kernel = [&](const TensorType& q, const TensorType& v) {
    return tensor_cores(options) != schedule::TensorCores::None && schedule::has_attention_gradient_kernel(q, v);
  };
  if (options.target != codegen::Target::Cpu && options.optimise && merge_attention_gradients(program, has_gradient_kernel)) {
    remove_dead_code(program);
    dumps.write("merge-attention-gradients", [&] { return to_text(program, {.provenance = true}); });
  }

  constexpr int64_t kRecomputedOnGpu = int64_t{1} << 20;
  const bool is_for_gpu = options.target != codegen::Target::Cpu;
  std::vector<LoweredGraph> lowered =
      lower(program, {.realise_all = !options.optimise,
                      .convolutions_as_loops = options.target != codegen::Target::Cpu,
                      .integer_products_as_loops = options.target != codegen::Target::Cpu,
                      .products_of_narrow = options.target == codegen::Target::Cuda,
                      .products_of_float8 = is_for_gpu && tensor_cores(options) == schedule::TensorCores::Hopper,
                      .narrow_weights = narrow_weights_of(options),
                      .convolutions_in_tiles = is_for_gpu && tensor_cores(options) != schedule::TensorCores::None,
                      .least_recomputed_bytes = is_for_gpu ? kRecomputedOnGpu : LowerOptions{}.least_recomputed_bytes,
                      .recomputes_functions = is_for_gpu,
                      .gathers_before_reductions = is_for_gpu});
  clock.done("lower");
  dumps.write("loops", [&] { return loops_text(program, lowered); });

  std::vector<schedule::ScheduledGraph> scheduled =
      schedule::schedule_graphs(std::move(lowered), options.optimise, nullptr, forms_of(options), planner_of(options));
  clock.done("schedule");
  if (choosing.tuner != nullptr && options.target == codegen::Target::Cpu) choose_kernels(scheduled, program, *choosing.tuner);
  if (choosing.tuner != nullptr && options.target != codegen::Target::Cpu)
    choose_ways(scheduled, program, *choosing.tuner, {.options = options, .tools = choosing.tools, .threads = threads});
  if (choosing.tuner != nullptr) clock.done("tune");
  dumps.write("schedule", [&] { return schedule::schedule_text(program, scheduled); });

  const program::Device device = options.target == codegen::Target::Cpu ? program::Device::Cpu : program::Device::Cuda;
  program::Module module =
      program::make_module(scheduled, program, {.device = device, .profile = options.profile, .assertions = options.assertions});
  clock.done("program");
  dumps.write("program", [&] { return program::module_text(program, scheduled, module); });

  codegen::GeneratedProgram code =
      codegen::generate(std::move(module), scheduled, program, {.target = options.target, .max_units = threads, .suffix = suffix});
  clock.done("generate");
  return {when, std::move(program), std::move(code)};
}

}  // namespace

schedule::Forms forms_of(const CompileModelOptions& options) {
  if (options.forms) return *options.forms;
  if (const char* variable = std::getenv("TOROID_FORMS"); variable != nullptr && *variable != '\0') {
    if (const auto forms = schedule::parse_forms(variable)) return *forms;
    throw Error(ErrorKind::InvalidOption, fmt::format("TOROID_FORMS is '{}'", variable))
        .help("it may be measured, estimated, persistent or looped");
  }
  return options.choose.lock ? schedule::Forms::Estimated : schedule::Forms::Measured;
}

std::shared_ptr<CustomOperators> find_operators(const std::filesystem::path& model, const CompileModelOptions& options) {
  OperatorFolders folders{.trusted = {options.operators.begin(), options.operators.end()}};
  if (const char* variable = std::getenv("TOROID_OPERATORS"); variable != nullptr) {
    for (std::string_view rest = variable; !rest.empty();) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
      if (!folder.empty()) folders.trusted.emplace_back(folder);
    }
  }
  folders.beside_model = model.has_parent_path() ? model.parent_path() : ".";
  folders.for_gpu = options.target != codegen::Target::Cpu;
  return std::make_shared<CustomOperators>(std::move(folders));
}

tune::TunerOptions tuner_options(const ChooseOptions& options) {
  tune::TunerOptions result;
  result.lock = options.lock;  // then nothing is measured
  result.mode = options.lock ? tune::Mode::Default : tune::Mode::Max;
  result.measure.threads = RuntimePool::threads_for(options.threads);
  if (!options.lock) result.worker.argv = options.worker.empty() ? tune::own_tuning_worker() : options.worker;
  return result;
}

tune::TunerOptions tuner_options(const CompileModelOptions& options) {
  tune::TunerOptions result = tuner_options(options.choose);
  if (options.target != codegen::Target::Cpu) choose_on_gpus(result, options);
  return result;
}

codegen::GeneratedProgram generate_code(Program program, const CompileModelOptions& options, int threads) {
  std::vector<PhaseTime> phases;
  PhaseClock clock(phases);
  Dumps dumps(options.dump_ir);
  if (!options.choose.lock) return generate({}, std::move(program), options, threads, "", dumps, clock, {}).code;
  Cache none(StoreOptions{.enabled = false});
  tune::Tuner tuner(runtime_choices(), none, tuner_options(options));
  return generate({}, std::move(program), options, threads, "", dumps, clock, {.tuner = &tuner}).code;
}

namespace {

// The levels of a package: "native", "portable", or their instruction sets, in any order. The most demanding first.
std::vector<Isa> levels_of_text(std::string_view text) {
  if (text == "native") return {};
  if (text == "portable") text = "baseline,avx2,avx512";
  std::vector<Isa> levels;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    levels.push_back(parse_isa(part == "amx" ? "avx512+vnni+bf16+amx" : part));
  }
  // One that needs more than another comes before it.
  const auto demands = [](const Isa& isa) { return std::pair(isa.level, isa.vnni + isa.bf16 + isa.fp16 + isa.amx); };
  std::ranges::stable_sort(levels, std::greater(), demands);
  const auto same = std::ranges::unique(levels);
  levels.erase(same.begin(), same.end());
  return levels;
}

}  // namespace

void set_levels(CompileModelOptions& options, std::string_view text) {
  options.package = levels_of_text(text);
  options.is_portable = text == "portable";
}

void set_device(CompileModelOptions& options, std::string_view name) {
  const std::string_view kind = name.substr(0, name.find(':')), number = name.substr(std::min(name.size(), kind.size() + 1));
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), options.gpu);
  const bool has_number = error == std::errc() && end == number.data() + number.size() && options.gpu >= 0;
  if (name == "cpu") {
    options.target = codegen::Target::Cpu;
  } else if (name == "cuda" || (kind == "cuda" && has_number)) {
    options.target = codegen::Target::Cuda;
  } else if (name == "emulated-cuda") {
    options.target = codegen::Target::EmulatedCuda;
  } else {
    throw Error(ErrorKind::InvalidOption, fmt::format("there is no device '{}'", name))
        .help("devices: cpu, cuda (or cuda:1, by its number), emulated-cuda");
  }
}

double CompiledModel::seconds() const {
  double total = 0;
  for (const PhaseTime& phase : phases) total += phase.seconds;
  return total;
}

Executable CompiledModel::load(int threads) const {
  refuse_missing_instructions(isa, fmt::format("the program '{}'", name));
  return with_typed_memory("loading a program", [&] {
    Executable program(library, constants, owner, name, threads, gpu);
    if (products && program.is_on_device()) program.remember_products(products);
    return program;
  });
}

CompileSession::CompileSession(bool use_cache)
    : cache_(StoreOptions{.enabled = use_cache}), probes_(StoreOptions{.enabled = !use_cache}), use_cache_(use_cache) {}

Toolchain& CompileSession::toolchain() {
  std::call_once(probed_,
                 [this] { toolchain_.emplace(ToolchainOptions{.probe_cache = (use_cache_ ? cache_.store() : probes_).probe_cache()}); });
  return *toolchain_;
}

Program CompileSession::import(const std::filesystem::path& path, const CompileModelOptions& options) {
  return with_typed_memory("importing a model", [&] {
    std::shared_ptr<CustomOperators> operators = find_operators(path, options);
    return is_model_text(path) ? read_model_text(path, std::move(operators))
                               : import_pt2(path, {.is_supported = is_supported, .operators = std::move(operators)});
  });
}

CompiledModel CompileSession::compile_file(const std::filesystem::path& path, const CompileModelOptions& options) {
  return with_typed_memory("compiling a model's file", [&] {
    if (!is_model_text(path)) return compile_mapped(path, options);
    Program program = read_model_text(path, find_operators(path, options));
    ErrorContext context("compiling {}", path.string());
    return compile_graph(std::move(program), options, {});
  });
}

CompiledModel CompileSession::compile_mapped(const std::filesystem::path& path, const CompileModelOptions& options) {
  const auto file = std::make_shared<const MappedFile>(path);
  const std::span<const std::byte> bytes = file->bytes();
  try {
    return compile_mapped(file, options);
  } catch (const Error&) {
    refuse_changed_files({&bytes, 1});  // then that is what was wrong
    throw;
  }
}

CompiledModel CompileSession::compile_mapped(const std::shared_ptr<const MappedFile>& file, const CompileModelOptions& options) {
  const std::filesystem::path& path = file->path();
  CompiledModel model;
  model.gpu = options.gpu;
  if (use_cache_ && options.target == codegen::Target::Cuda) model.products = cached_products();
  PhaseClock clock(model.phases);
  GraphCache cache(cache_);
  const bool use_graphs = reason_to_bypass(options, use_cache_).empty();
  std::optional<CacheKey> key;
  const std::shared_ptr<CustomOperators> operators = find_operators(path, options);
  if (use_graphs) {
    key = model_key(file->bytes(), operators->fingerprint(), key_parts(options), toolchain());
    std::optional<GraphCache::Found> found = cache.find(*key);
    note_lookup(model, options, cache_, "model file", *key, found.has_value());
    if (found) {
      cache.count_hit(found->graph);
      model.name = path.filename().string();
      take_levels(model, options, toolchain());
      model.cache_use = "hit: model file";
      take(model, std::move(*found), {}, file);
      clock.done("cache");
      return model;
    }
    clock.done("cache");
  }
  Program program = import_pt2(file->bytes(), file, path.string(), {.is_supported = is_supported, .operators = operators});
  clock.done("import");
  ErrorContext context("compiling {}", path.string());
  const std::vector<ConstantData> imported = program.constants;
  model = compile_graph(std::move(program), options, std::move(model));
  if (!use_graphs || model.choices_late > 0) return model;
  PhaseClock publishing(model.phases);
  CompiledGraph graph = model.graph;
  const std::span<const std::byte> bytes = file->bytes();
  refuse_changed_files({&bytes, 1});  // the key is of the bytes as they were
  if (locate_in_file(graph, imported, bytes)) cache.put(*key, graph);
  publishing.done("publish");
  return model;
}

CompiledModel CompileSession::compile(Program program, const CompileModelOptions& options) {
  return with_typed_memory("compiling", [&] { return compile_graph(std::move(program), options, {}); });
}

// `model` holds the phases so far.
CompiledModel CompileSession::compile_graph(Program program, const CompileModelOptions& given, CompiledModel model) {
  CompileModelOptions options = given;
  for (SizeValues& sizes : options.variants) sizes = by_symbols(program, sizes);
  const std::string training = training_operators(program);
  for (const ConstantData& constant : program.constants) require_elements(constant);
  model.name = program.name;
  model.gpu = options.gpu;
  if (use_cache_ && options.target == codegen::Target::Cuda) model.products = cached_products();
  take_levels(model, options, toolchain());
  PhaseClock clock(model.phases);
  GraphCache cache(cache_);
  const int threads = options.compile_threads > 0 ? options.compile_threads : static_cast<int>(std::thread::hardware_concurrency());
  const std::vector<ConstantData> imported = program.constants;
  const std::string bypass = reason_to_bypass(options, use_cache_);
  std::optional<CacheKey> key;
  std::optional<CacheLease> lease;
  auto find = [&] {
    std::optional<GraphCache::Found> found = cache.find(*key, program);
    clock.done("cache");
    note_lookup(model, options, cache_, "graph", *key, found.has_value());
    if (!found) return false;
    cache.count_hit(found->graph);
    model.cache_use = "hit: graph";
    model.graph = found->graph;
    take(model, std::move(*found), imported, nullptr);
    return true;
  };
  if (use_cache_) key = graph_key(program, key_parts(options), toolchain());
  if (!bypass.empty()) {
    model.cache_use = "bypass: " + bypass;
    if (use_cache_) cache.count_bypass(bypass);
  } else if (find()) {
    return model;
  }
  if (use_cache_) {
    lease.emplace(cache_.acquire(*key, kPatience));
    clock.done("wait");
    if (bypass.empty() && find()) return model;
  }
  Stopwatch work;

  std::optional<tune::Tuner> tuner;
  Choosing choosing;
  if (options.choose.is_asked()) {
    tuner.emplace(runtime_choices(), cache_, tuner_options(options));
    choosing = {.tuner = &*tuner, .tools = &toolchain()};
  }
  std::vector<GeneratedVariant> variants;
  for (const SizeValues& sizes : options.variants) {
    const std::string suffix = fmt::format("_v{}", variants.size());
    Dumps dumps(options.dump_ir.empty() ? options.dump_ir : options.dump_ir / suffix.substr(1));
    variants.push_back(generate(sizes, specialise(program, sizes), options, threads, suffix, dumps, clock, choosing));
  }
  Dumps dumps(options.dump_ir);
  std::set<std::string> known_guards;
  for (sym::Expr guard : program.guards) known_guards.insert(sym::to_string(guard));
  variants.push_back(generate({}, std::move(program), options, threads, "", dumps, clock, choosing));
  if (tuner) {
    model.choices = tuner->decisions();
    model.choices_late = tuner->counters().late;
  }
  if (tuner && options.choose.keep) {
    model.choices_log = tuner->log();
    model.choices_lock = tuner->as_lock().text();
  }

  const ConstantTable constants(variants);
  std::vector<std::string> units, gpu_units;
  codegen::CustomEntries custom_entries;
  bool draws = false;
  codegen::PackageEntry entry;
  PackageNeeds needs;
  RunSideUse use;
  for (size_t v = 0; v < variants.size(); ++v) {
    GeneratedVariant& variant = variants[v];
    draws = draws || variant.code.draws;
    entry.linked_kernels.merge(variant.code.linked_kernels);
    needs.products.insert(needs.products.end(), variant.code.products.begin(), variant.code.products.end());
    use.special_functions = use.special_functions || variant.code.calls_special_functions;
    use.onednn = use.onednn || variant.code.calls_onednn;
    if (!options.save_source.empty())
      save_kernels(options.save_source, variant.code, v + 1 < variants.size() ? fmt::format("_v{}", v) : "");
    for (auto& [op, entries] : variant.code.custom_entries) custom_entries[op].merge(entries);
    std::move(variant.code.units.begin(), variant.code.units.end(), std::back_inserter(units));
    std::move(variant.code.gpu_units.begin(), variant.code.gpu_units.end(), std::back_inserter(gpu_units));
    model.kernels += static_cast<int>(variant.code.kernels.size());
    const program::Counts counts = program::counts(variant.code.module);
    model.kernel_calls += counts.kernel_calls;
    model.library_calls += counts.library_calls;
  }
  // A program without a kernel is for a GPU nevertheless.
  if (options.target == codegen::Target::Cuda && gpu_units.empty()) gpu_units.push_back("");
  units.back() += tables_text(variants, constants, training);
  std::vector<codegen::GpuBinary> binaries;
  if (options.target == codegen::Target::Cuda) {
    binaries = binaries_of(gpu_units.size(), architectures_of(options));
    units.back() += codegen::gpu_tables(binaries, draws);
  }
  std::vector<size_t> prelude_bytes;
  for (const std::string& unit : units) prelude_bytes.push_back(unit.size());
  for (size_t first = 0; const GeneratedVariant& variant : variants) {
    const size_t count = variant.code.units.size();
    codegen::add_prelude(std::span(units).subspan(first, count), *variant.code.unit_prelude);
    first += count;
  }
  for (size_t i = 0; i < units.size(); ++i) prelude_bytes[i] = units[i].size() - prelude_bytes[i];
  if (!options.save_source.empty()) {
    save_units(options.save_source, units, "cpp");
    save_units(options.save_source, gpu_units, "cu");
  }
  auto owners = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (const ConstantData* data : constants.all) {
    model.constants.push_back(data->bytes);
    owners->push_back(data->owner);
  }
  model.owner = std::move(owners);
  for (sym::Expr guard : variants.back().program.guards) {
    std::string text = sym::to_string(guard);
    if (!guard.is_const() && !known_guards.contains(text)) model.guards.push_back(std::move(text));
  }
  if (options.package) refuse_libraries(variants.back().program, custom_entries);
  std::vector<std::string> custom_units = codegen::custom_units(variants.back().program, custom_entries);
  if (!options.save_source.empty()) {
    for (size_t i = 0; i < custom_units.size(); ++i)
      write_file_atomically(options.save_source / fmt::format("custom_unit{}.cpp", i), std::string_view(custom_units[i]));
  }
  if (options.keep_program) model.program = std::move(variants.back().program);

  refuse_changed(imported);  // what follows would keep in the cache what was made of the weights
  const Toolchain& tools = toolchain();
  const CompileOptions how = compiler_options(options);
  for (const Isa& isa : model.levels) entry.isas.push_back(isa.name());
  if (options.keep_sources) {
    model.sources = std::make_shared<const PackageSources>(PackageSources{.units = std::move(units),
                                                                          .custom_units = std::move(custom_units),
                                                                          .levels = model.levels,
                                                                          .entry = codegen::package_entry(entry),
                                                                          .run_side = {},
                                                                          .use = use,
                                                                          .flags = language_flags(how),
                                                                          .prelude_bytes = std::move(prelude_bytes)});
    clock.done("publish");
    return model;
  }
  if (options.debug) keep_sources(units);
  std::vector<std::string> sources = units;
  sources.insert(sources.end(), gpu_units.begin(), gpu_units.end());
  sources.insert(sources.end(), custom_units.begin(), custom_units.end());
  const std::optional<RunSide> run_side = run_side_of(options, Whole::Checked);
  if (run_side) {
    needs.code = code_of_levels(model.levels, options.is_portable);
    needs.linked_kernels = entry.linked_kernels;
    entry.absent_code = absent_code(needs, read_file(run_side->folder / "level_code"));
    entry.linked_code = linked_code_text(needs.code);
    entry.prefix = options.archive_prefix;
    sources.push_back(codegen::package_entry(entry));
  }
  const CacheKey library = library_key(sources, how, tools, target_text(options));
  std::optional<std::string> found = cache_.get(library);
  if (use_cache_) note_lookup(model, options, cache_, "library", library, found.has_value());
  if (found) {
    model.library = std::move(*found);
    model.from_cache = true;
    if (bypass.empty()) model.cache_use = "hit: library";
    clock.done("cache");
  } else {
    if (run_side) {
      model.library =
          build_package({std::move(units), std::move(custom_units), model.levels, sources.back(), *run_side, use, options.archive_prefix},
                        tools, threads, how);
    } else {
      model.library = build_library({std::move(units), std::move(custom_units), std::move(gpu_units), std::move(binaries)}, tools, threads,
                                    how, [](const KernelResources& kernel) {
                                      for (const std::string& complaint : complaints_of(kernel)) log_info("{}", complaint);
                                    });
    }
    if (bypass.empty()) model.cache_use = "miss";
    clock.done("compile");
    cache.put_library(library, model.library);
  }
  if (bypass.empty() && model.choices_late == 0) {  // else the next compilation goes on
    cache.count_miss();
    model.graph = {.library_key = library.hex,
                   .guards = model.guards,
                   .kernels = model.kernels,
                   .kernel_calls = model.kernel_calls,
                   .library_calls = model.library_calls,
                   .seconds = work.seconds()};
    locate_constants(model.graph, model.constants, imported);
    cache.put_alternative(*key, model.graph);
  }
  clock.done("publish");
  return model;
}

}  // namespace toroid
