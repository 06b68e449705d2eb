#include "driver/compile.h"

#include <fstream>
#include <thread>

#include "codegen/wrapper/generate.h"
#include "driver/manifest.h"
#include "frontend/pt2/import.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "lower/lower.h"
#include "passes/dead_code.h"
#include "passes/decompose/decompose.h"
#include "passes/fold_constants.h"
#include "schedule/schedule.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/file.h"
#include "support/progress.h"
#include "support/thread_pool.h"

namespace toroid {
namespace {

constexpr int kLibraryKeyVersion = 1;

CacheKey key_of(const std::vector<std::string>& units, const Toolchain& tools, int optimization) {
  KeyBuilder key("library", kLibraryKeyVersion);
  for (size_t i = 0; i < units.size(); ++i) key.add_source(fmt::format("source {}", i), units[i]);
  return key.add("flags", tools.flags({.optimization = optimization}))
      .add("compiler", tools.compiler().version)
      .add("compiler bytes", tools.compiler().fingerprint)
      .add("isa", tools.isa().name())
      .finish();
}

std::string build(const std::vector<std::string>& units, const Toolchain& tools, int threads, int optimization) {
  if (units.size() == 1) return tools.compile_shared(units[0], {.name = "program", .optimization = optimization});
  Progress progress("compiling kernels", units.size());
  ThreadPool pool(static_cast<size_t>(std::max(1, threads)));
  std::vector<std::future<std::string>> objects;
  for (size_t i = 0; i < units.size(); ++i) {
    objects.push_back(pool.submit([&, i] {
      std::string object = tools.compile_object(units[i], {.name = fmt::format("unit{}", i), .optimization = optimization});
      progress.advance();
      return object;
    }));
  }
  std::vector<std::string> built;
  for (auto& object : objects) built.push_back(object.get());
  return tools.link_shared(built, {.name = "program"});
}

// Numbered dumps, one per phase.
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

// `first_unit`: how many files of other variants came before.
void save_sources(const std::filesystem::path& folder, const codegen::GeneratedProgram& generated, size_t first_unit) {
  std::filesystem::create_directories(folder);
  for (const codegen::GeneratedKernel& kernel : generated.kernels) {
    write_file_atomically(folder / (kernel.name + ".cpp"), "// toroid: " + kernel.text.substr(3));
  }
  for (size_t i = 0; i < generated.units.size(); ++i) {
    write_file_atomically(folder / fmt::format("wrapper_unit{}.cpp", first_unit + i), std::string_view(generated.units[i]));
  }
}

// Phases by name, each with the time of all its variants.
class PhaseClock {
 public:
  explicit PhaseClock(std::vector<PhaseTime>& phases) : phases_(phases) {}
  void done(std::string_view phase) {
    const double seconds = watch_.seconds();
    watch_.restart();
    for (PhaseTime& each : phases_) {
      if (each.name == phase) {
        each.seconds += seconds;
        return;
      }
    }
    phases_.push_back({std::string(phase), seconds});
  }

 private:
  std::vector<PhaseTime>& phases_;
  Stopwatch watch_;
};

// The pipeline from the imported program to C++.
GeneratedVariant generate(const SizeValues& when, Program program, const CompileModelOptions& options, int threads, std::string_view suffix,
                          Dumps& dumps, PhaseClock& clock) {
  dumps.write("import", [&] { return to_text(program, {.provenance = true}); });
  decompose(program);
  if (options.optimise) fold_constants(program);
  remove_dead_code(program);
  clock.done("decompose");
  dumps.write("core", [&] { return to_text(program, {.provenance = true}); });

  std::vector<LoweredGraph> lowered = lower(program, !options.optimise);
  clock.done("lower");
  dumps.write("loops", [&] { return to_string(lowered); });

  const std::vector<codegen::ScheduledGraph> scheduled = codegen::schedule_graphs(std::move(lowered), options.optimise);
  clock.done("schedule");
  dumps.write("schedule", [&] { return to_string(scheduled); });

  codegen::GeneratedProgram code = codegen::generate(scheduled, program, threads, suffix);
  clock.done("generate");
  return {when, std::move(program), std::move(code)};
}

}  // namespace

double CompiledModel::seconds() const {
  double total = 0;
  for (const PhaseTime& phase : phases) total += phase.seconds;
  return total;
}

CompileSession::CompileSession(bool use_cache) : store_(StoreOptions{.enabled = use_cache}), probes_(StoreOptions{}), use_cache_(use_cache) {}

Toolchain& CompileSession::toolchain() {
  if (!toolchain_) toolchain_.emplace(ToolchainOptions{.probe_cache = (use_cache_ ? store_ : probes_).probe_cache()});
  return *toolchain_;
}

Program CompileSession::import(const std::filesystem::path& path) {
  return import_pt2(path, {.is_supported = is_supported});
}

CompiledModel CompileSession::compile_file(const std::filesystem::path& path, const CompileModelOptions& options) {
  Stopwatch watch;
  Program program = import(path);
  const double import_seconds = watch.seconds();
  ErrorContext context("compiling {}", path.string());
  CompiledModel model = compile(std::move(program), options);
  model.phases.insert(model.phases.begin(), {"import", import_seconds});
  return model;
}

CompiledModel CompileSession::compile(Program program, const CompileModelOptions& options) {
  CompiledModel model;
  model.name = program.name;
  PhaseClock clock(model.phases);
  const int threads = options.compile_threads > 0 ? options.compile_threads : static_cast<int>(std::thread::hardware_concurrency());

  std::vector<GeneratedVariant> variants;
  for (const SizeValues& sizes : options.variants) {
    const std::string suffix = fmt::format("_v{}", variants.size());
    Dumps dumps(options.dump_ir.empty() ? options.dump_ir : options.dump_ir / suffix.substr(1));
    variants.push_back(generate(sizes, specialise(program, sizes), options, threads, suffix, dumps, clock));
  }
  Dumps dumps(options.dump_ir);
  variants.push_back(generate({}, std::move(program), options, threads, "", dumps, clock));

  const ConstantTable constants(variants);
  std::vector<std::string> units;
  for (GeneratedVariant& variant : variants) {
    if (!options.save_source.empty()) save_sources(options.save_source, variant.code, units.size());
    std::move(variant.code.units.begin(), variant.code.units.end(), std::back_inserter(units));
    model.kernels += static_cast<int>(variant.code.kernels.size());
    model.kernel_calls += variant.code.kernel_calls;
    model.library_calls += variant.code.library_calls;
  }
  units.back() += codegen::manifest_unit(manifest_text(variants, constants));

  const Toolchain& tools = toolchain();
  const CacheKey key = key_of(units, tools, options.optimization);
  if (std::optional<std::string> found = store_.get(key)) {
    model.library = std::move(*found);
    model.from_cache = true;
    clock.done("cache");
  } else {
    model.library = build(units, tools, threads, options.optimization);
    clock.done("compile");
    store_.put(key, model.library);
    clock.done("publish");
  }

  auto owners = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (const ConstantData* data : constants.all) {
    model.constants.push_back(data->bytes);
    owners->push_back(data->owner);
  }
  model.owner = std::move(owners);
  model.program = std::move(variants.back().program);
  return model;
}

}  // namespace toroid
