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

void save_sources(const std::filesystem::path& folder, const codegen::GeneratedProgram& generated) {
  std::filesystem::create_directories(folder);
  for (const codegen::GeneratedKernel& kernel : generated.kernels) {
    write_file_atomically(folder / (kernel.name + ".cpp"), "// toroid: " + kernel.text.substr(3));
  }
  for (size_t i = 0; i < generated.units.size(); ++i) {
    write_file_atomically(folder / fmt::format("wrapper_unit{}.cpp", i), std::string_view(generated.units[i]));
  }
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
  return import_pt2(path, {.is_supported = [](const Schema& schema) { return find_decomposition(schema) != nullptr; }});
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
  Stopwatch watch;
  auto done = [&](std::string_view phase) {
    model.phases.push_back({std::string(phase), watch.seconds()});
    watch.restart();
  };
  Dumps dumps(options.dump_ir);
  dumps.write("import", [&] { return to_text(program, {.provenance = true}); });

  decompose(program);
  if (options.optimise) fold_constants(program);
  remove_dead_code(program);
  done("decompose");
  dumps.write("core", [&] { return to_text(program, {.provenance = true}); });

  std::vector<LoweredGraph> lowered = lower(program, !options.optimise);
  done("lower");
  dumps.write("loops", [&] { return to_string(lowered); });

  const std::vector<codegen::ScheduledGraph> scheduled = codegen::schedule_graphs(std::move(lowered), options.optimise);
  done("schedule");
  dumps.write("schedule", [&] { return to_string(scheduled); });

  const int threads = options.compile_threads > 0 ? options.compile_threads : static_cast<int>(std::thread::hardware_concurrency());
  codegen::GeneratedProgram generated = codegen::generate(scheduled, program, threads);
  generated.units[0] += codegen::manifest_unit(manifest_text(program, generated));
  if (!options.save_source.empty()) save_sources(options.save_source, generated);
  done("generate");

  const Toolchain& tools = toolchain();
  const CacheKey key = key_of(generated.units, tools, options.optimization);
  if (std::optional<std::string> found = store_.get(key)) {
    model.library = std::move(*found);
    model.from_cache = true;
    done("cache");
  } else {
    model.library = build(generated.units, tools, threads, options.optimization);
    done("compile");
    store_.put(key, model.library);
    done("publish");
  }

  model.name = program.name;
  model.kernels = static_cast<int>(generated.kernels.size());
  model.kernel_calls = generated.kernel_calls;
  model.library_calls = generated.library_calls;
  auto owners = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (ConstantId id : generated.constants) {
    const ConstantData& data = program.constant(id);
    model.constants.push_back(data.bytes);
    owners->push_back(data.owner);
  }
  model.owner = std::move(owners);
  model.program = std::move(program);
  return model;
}

}  // namespace toroid
