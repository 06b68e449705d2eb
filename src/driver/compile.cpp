#include "driver/compile.h"

#include <set>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/file.h"
#include "base/file/mapped_file.h"
#include "base/machine/out_of_memory.h"
#include "base/machine/processors.h"
#include "driver/build_library.h"
#include "driver/cached_products.h"
#include "driver/gpu_binaries.h"
#include "driver/graph_cache.h"
#include "driver/halide_objects.h"
#include "driver/model_text.h"
#include "driver/pipeline/assemble.h"
#include "driver/pipeline/generate.h"
#include "driver/pipeline/save_sources.h"
#include "driver/pipeline/take_part.h"
#include "driver/triton_binaries.h"
#include "frontend/pt2/import.h"
#include "graph/text/text.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/engine/overrides.h"
#include "runtime/kernels/registry/registry.h"
#include "runtime/pool/pool.h"
#include "runtime/program/loaded_program.h"
#include "support/log.h"

namespace toroid {
namespace {

// How long another process may take for the same program before this one compiles it as well.
constexpr auto kPatience = std::chrono::minutes(10);

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
  model.levels = levels_for(options, tools.isa());
  model.isa = model.levels.back();
}

// A program from the cache, in the place of all the work.
void take(CompiledModel& model, GraphCache::Found found, std::span<const ConstantData> imported, std::shared_ptr<const MappedFile> file) {
  const Span<const std::byte> bytes = file ? file->bytes() : Span<const std::byte>();
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
  std::vector<Span<const std::byte>> memory;
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

// The program in all its forms, the general one last; and what was chosen for them, noted in the model.
std::vector<GeneratedVariant> generate_all(Program program, const CompileModelOptions& options, int threads, CompileSession& session,
                                           PhaseClock& clock, CompiledModel& model) {
  std::optional<tune::Tuner> tuner;
  Choosing choosing;
  if (options.choose.is_asked()) {
    tune::TunerOptions tuning = tuner_options(options);
    if (model.products) keep_products(tuning);
    tuner.emplace(runtime_choices(), session.cache(), std::move(tuning));
    choosing = {.tuner = &*tuner, .tools = &session.toolchain()};
  }
  std::vector<GeneratedVariant> variants;
  for (const SizeValues& sizes : options.variants) {
    const std::string suffix = fmt::format("_v{}", variants.size());
    Dumps dumps(options.dump_ir.empty() ? options.dump_ir : options.dump_ir / suffix.substr(1));
    variants.push_back(generate(sizes, specialise(program, sizes), options, model.isa, threads, suffix, dumps, clock, choosing));
  }
  Dumps dumps(options.dump_ir);
  variants.push_back(generate({}, std::move(program), options, model.isa, threads, "", dumps, clock, choosing));
  if (!tuner) return variants;
  model.choices = tuner->decisions();
  model.tuning = tuner->counters();
  model.choices_late = model.tuning.late;
  if (options.choose.keep) {
    model.choices_log = tuner->log();
    model.choices_lock = tuner->as_lock().text();
  }
  return variants;
}

void take_constants(CompiledModel& model, const ConstantTable& constants) {
  auto owners = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (const ConstantData* data : constants.all) {
    model.constants.push_back(data->bytes);
    owners->push_back(data->owner);
  }
  model.owner = std::move(owners);
}

std::set<std::string> texts_of(std::span<const sym::Expr> guards) {
  std::set<std::string> texts;
  for (sym::Expr guard : guards) texts.insert(sym::to_string(guard));
  return texts;
}

// For whoever compiles the sources himself.
std::shared_ptr<const PackageSources> package_sources(AssembledProgram program, const std::vector<Isa>& levels, const CompileOptions& how) {
  return std::make_shared<const PackageSources>(PackageSources{.units = std::move(program.sources.units),
                                                               .is_optimised = std::move(program.sources.is_optimised),
                                                               .custom_units = std::move(program.sources.custom_units),
                                                               .levels = levels,
                                                               .entry = codegen::package_entry(program.entry),
                                                               .run_side = {},
                                                               .use = program.use,
                                                               .gpu = std::move(program.sources.gpu),
                                                               .flags = language_flags(how),
                                                               .prelude_bytes = std::move(program.prelude_bytes)});
}

// The unit of a package that holds it together.
std::string entry_unit(AssembledProgram& program, const RunSide& run_side, const std::vector<Isa>& levels,
                       const CompileModelOptions& options) {
  codegen::PackageEntry& entry = program.entry;
  program.needs.code = code_of_levels(levels, options.is_portable);
  program.needs.linked_kernels = entry.linked_kernels;
  entry.absent_code = absent_code(program.needs, read_file(run_side.folder / "level_code"));
  entry.linked_code = linked_code_text(program.needs.code);
  entry.prefix = options.archive_prefix;
  return codegen::package_entry(entry);
}

}  // namespace

double CompiledModel::seconds() const {
  double total = 0;
  for (const PhaseTime& phase : phases) total += phase.seconds;
  return total;
}

Executable CompiledModel::load(int threads) const {
  std::shared_ptr<LoadedProgram> loaded = load_program(threads);
  return with_typed_memory("loading a program", [&] {
    Executable program(std::move(loaded), gpu);
    if (products && program.is_on_device()) program.remember_products(products);
    return program;
  });
}

std::shared_ptr<LoadedProgram> CompiledModel::load_program(int threads) const {
  refuse_missing_instructions(isa, fmt::format("the program '{}'", name));
  return with_typed_memory("loading a program",
                           [&] { return std::make_shared<LoadedProgram>(library, constants, owner, name, RuntimePool::shared(threads)); });
}

CompileSession::CompileSession(bool use_cache)
    : cache_(StoreOptions{.enabled = use_cache}), probes_(StoreOptions{.enabled = !use_cache}), use_cache_(use_cache) {}

Toolchain& CompileSession::toolchain() {
  // Not std::call_once: where an exception passes the C library's pthread_once, and no memory is left, that ends the process.
  const std::lock_guard lock(probing_);
  if (!toolchain_) toolchain_.emplace(ToolchainOptions{.probe_cache = (use_cache_ ? cache_.store() : probes_).probe_cache()});
  return *toolchain_;
}

Program CompileSession::import(const std::filesystem::path& path, const CompileModelOptions& options) {
  return with_typed_memory("importing a model", [&] {
    std::shared_ptr<CustomOperators> operators = find_operators(path, options);
    Program program = is_model_text(path) ? read_model_text(MappedFile(path), std::move(operators))
                                          : import_pt2(path, {.is_supported = is_supported, .operators = std::move(operators)});
    program.process_groups = process_groups_of(options);
    take_part(program, options);
    return program;
  });
}

CompiledModel CompileSession::compile_file(const std::filesystem::path& path, const CompileModelOptions& options) {
  return with_typed_memory("compiling a model's file",
                           [&] { return is_model_text(path) ? compile_text(path, options) : compile_mapped(path, options); });
}

CompiledModel CompileSession::compile_text(const std::filesystem::path& path, const CompileModelOptions& options) {
  const auto file = std::make_shared<const MappedFile>(path);
  Program program = read_model_text(*file, find_operators(path, options));
  ErrorContext context("compiling {}", path.string());
  take_part(program, options);
  CompiledModel model = compile_graph(std::move(program), options, {});
  model.file = file;
  return model;
}

CompiledModel CompileSession::compile_mapped(const std::filesystem::path& path, const CompileModelOptions& options) {
  const auto file = std::make_shared<const MappedFile>(path);
  const Span<const std::byte> bytes = file->bytes();
  try {
    CompiledModel model = compile_mapped(file, options);
    model.file = file;
    return model;
  } catch (const Error&) {
    refuse_changed_files({&bytes, 1});  // then that is what was wrong
    throw;
  }
}

CompiledModel CompileSession::compile_mapped(const std::shared_ptr<const MappedFile>& file, const CompileModelOptions& options) {
  const std::filesystem::path& path = file->path();
  CompiledModel model;
  model.gpu = options.gpu;
  if (use_cache_ && is_device(options.target)) model.products = cached_products(options.choose.measure);
  PhaseClock clock(model.phases);
  GraphCache cache(cache_);
  // The part of a process is found by its graph: its constants are not those of the file.
  const bool use_graphs = reason_to_bypass(options, use_cache_).empty() && options.shard.processes == 1;
  std::optional<CacheKey> key;
  const std::shared_ptr<CustomOperators> operators = find_operators(path, options);
  if (use_graphs) {
    key = model_key(file->bytes(), operators_part(*operators), key_parts(options), toolchain());
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
  if (options.shard.processes > 1) {
    take_part(program, options);
    clock.done("shard");
  }
  const std::vector<ConstantData> imported = program.constants;
  model = compile_graph(std::move(program), options, std::move(model));
  if (!use_graphs) return model;
  PhaseClock publishing(model.phases);
  CompiledGraph graph = model.graph;
  const Span<const std::byte> bytes = file->bytes();
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
  if (!options.process_groups.empty()) program.process_groups = process_groups_of(options);
  const std::string training = training_operators(program), call_tree = program.call_tree;
  for (const ConstantData& constant : program.constants) require_elements(constant);
  model.name = program.name;
  model.gpu = options.gpu;
  if (use_cache_ && is_device(options.target)) model.products = cached_products(options.choose.measure);
  take_levels(model, options, toolchain());
  PhaseClock clock(model.phases);
  GraphCache cache(cache_);
  const int threads = options.compile_threads > 0 ? options.compile_threads : usable_processors();
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
  if (use_cache_ && !options.part) {  // parts work side by side, each with leases for what it makes
    lease.emplace(cache_.acquire(*key, kPatience));
    clock.done("wait");
    if (bypass.empty() && find()) return model;
  }
  Stopwatch work;

  const std::set<std::string> known_guards = texts_of(program.guards);
  std::vector<GeneratedVariant> variants = generate_all(std::move(program), options, threads, *this, clock, model);
  const ConstantTable constants(variants);
  AssembledProgram assembled = assemble(variants, constants, {training, call_tree}, options);
  model.kernels = assembled.kernels;
  model.kernel_calls = assembled.kernel_calls;
  model.library_calls = assembled.library_calls;
  take_constants(model, constants);
  for (sym::Expr guard : variants.back().program.guards) {
    std::string text = sym::to_string(guard);
    if (!guard.is_const() && !known_guards.contains(text)) model.guards.push_back(std::move(text));
  }
  if (options.keep_program) model.program = std::move(variants.back().program);

  refuse_changed(imported);  // what follows would keep in the cache what was made of the weights
  const Toolchain& tools = toolchain();
  const CompileOptions how = compiler_options(options);
  for (const Isa& isa : model.levels) assembled.entry.isas.push_back(isa.name());
  if (options.keep_sources) {
    model.sources = package_sources(std::move(assembled), model.levels, how);
    clock.done("publish");
    return model;
  }
  LibrarySources& sources = assembled.sources;
  if (options.debug) keep_sources(sources.units);
  std::vector<std::string> texts = sources.units;  // that the library's key is of
  texts.insert(texts.end(), sources.gpu.units.begin(), sources.gpu.units.end());
  texts.insert(texts.end(), sources.custom_units.begin(), sources.custom_units.end());
  if (!sources.gpu.triton.empty()) {
    texts.insert(texts.end(), sources.gpu.triton.begin(), sources.gpu.triton.end());
    texts.push_back(triton_version());
    sources.gpu.compile_triton = cached_triton(cache_, threads);
  }
  if (!sources.halide.pipelines.empty()) {
    texts.insert(texts.end(), sources.halide.pipelines.begin(), sources.halide.pipelines.end());
    texts.push_back(halide_version());
    sources.halide.compile = cached_halide(cache_, threads);
  }
  const std::optional<RunSide> run_side = run_side_of(options, Whole::Checked);
  if (run_side) texts.push_back(entry_unit(assembled, *run_side, model.levels, options));
  const CacheKey library = library_key(texts, how, tools, target_text(options));
  std::optional<std::string> found = cache_.get(library);
  if (use_cache_) note_lookup(model, options, cache_, "library", library, found.has_value());
  if (found) {
    model.library = std::move(*found);
    model.from_cache = true;
    if (bypass.empty()) model.cache_use = "hit: library";
    clock.done("cache");
  } else {
    std::unique_ptr<SharedBuild> shared;
    if (options.part && use_cache_ && !options.debug) {
      shared.reset(new SharedBuild{.cache = cache_, .part = *options.part, .library = library});
      if (options.target != codegen::Target::Cpu) shared->gpu_target = target_text(options);
    }
    const auto told = [](const KernelResources& kernel) {
      for (const std::string& complaint : complaints_of(kernel)) log_info("{}", complaint);
    };
    if (run_side) {
      const PackageSources package{.units = std::move(sources.units),
                                   .is_optimised = std::move(sources.is_optimised),
                                   .custom_units = std::move(sources.custom_units),
                                   .levels = model.levels,
                                   .entry = texts.back(),
                                   .run_side = *run_side,
                                   .use = assembled.use,
                                   .gpu = std::move(sources.gpu),
                                   .halide = std::move(sources.halide),
                                   .prefix = options.archive_prefix};
      model.library = build_package(package, tools, threads, how, told, shared.get());
    } else {
      model.library = build_library(sources, tools, threads, how, told, shared.get());
    }
    if (bypass.empty()) model.cache_use = "miss";
    clock.done("compile");
    if (shared) {
      model.objects = shared->objects;
      model.objects_made = shared->made;
    } else {
      cache.put_library(library, model.library);
    }
  }
  if (bypass.empty()) {
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
