#include "backend.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "build_flags.h"
#include "describe.h"
#include "driver/signature.h"
#include "eager_backend.h"
#include "explain/explain_cache.h"
#include "interp/evaluate.h"
#include "passes/decompose/engine/decompose.h"
#include "runtime/program/executable.h"

namespace toroid::cli {
namespace {

class Interpreted : public Callable {
 public:
  Interpreted(Program program, uint64_t seed) : program_(std::move(program)) { options_.random.seed = seed; }
  const Program& program() const override { return program_; }
  std::vector<HostTensor> call(std::span<const HostTensor> inputs) override {
    std::vector<HostTensor> results = evaluate(program_, inputs, options_);
    ++options_.random.call;
    return results;
  }

 private:
  Program program_;
  EvaluateOptions options_;
};

class Compiled : public Callable {
 public:
  Compiled(CompiledModel model, const LoadOptions& options) : model_(std::move(model)), executable_(model_.load(options.threads)) {
    executable_.set_seed(options.seed);
    if (!model_.program) model_.program = signature_of(general_variant(executable_.tables()));
  }
  const Program& program() const override { return *model_.program; }
  std::vector<HostTensor> call(std::span<const HostTensor> inputs) override { return executable_.run(inputs); }
  std::string variant() const override { return variant_text(executable_.tables(), executable_.last_variant()); }
  std::vector<std::string> notes() const override { return device_notes(executable_); }

 private:
  CompiledModel model_;
  Executable executable_;
};

class Packaged : public Callable {
 public:
  Packaged(Executable executable, uint64_t seed)
      : executable_(std::move(executable)), signature_(signature_of(general_variant(executable_.tables()))) {
    executable_.set_seed(seed);
  }
  const Program& program() const override { return signature_; }
  std::vector<HostTensor> call(std::span<const HostTensor> inputs) override { return executable_.run(inputs); }
  std::string variant() const override { return variant_text(executable_.tables(), executable_.last_variant()); }
  std::vector<std::string> notes() const override { return device_notes(executable_); }

 private:
  Executable executable_;
  Program signature_;
};

}  // namespace

std::string backend_list() {
  std::string text;
  for (const char* name : kBackends) text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
  return text;
}

std::unique_ptr<Callable> load_model(const std::filesystem::path& path, const LoadOptions& options) {
  const bool is_eager = options.backend.starts_with("eager");
  if (std::find(std::begin(kBackends), std::end(kBackends), options.backend) == std::end(kBackends)) {
    throw Error(ErrorKind::InvalidOption, fmt::format("there is no backend '{}'", options.backend))
        .help(fmt::format("backends: {}", backend_list()));
  }
  const bool is_compiled = path.extension() == ".so";
  if (options.backend != "cpu" && options.compile.target != codegen::Target::Cpu) {
    throw Error(ErrorKind::InvalidOption, fmt::format("the backend {} runs on the cpu alone", options.backend)).help("leave out --device");
  }
  if (is_compiled || options.backend != "cpu") {
    refuse_build_flags(options.compile, is_compiled ? "a compiled program" : fmt::format("the backend {}", options.backend));
  }
  if (is_compiled) return std::make_unique<Packaged>(Executable::load(path, options.threads, options.compile.gpu), options.seed);
  if (options.backend == "cpu") {
    CompileSession session(options.use_cache);
    CompileModelOptions how = options.compile;
    how.compile_threads = options.threads;
    CompiledModel model = session.compile_file(path, how);
    for (const CacheLookup& lookup : model.lookups) print_explanation(stderr, lookup);
    return std::make_unique<Compiled>(std::move(model), options);
  }
  Program program = CompileSession::import(path, options.compile);
  if (is_eager) return eager_backend(std::move(program), options);
  {
    ErrorContext context("decomposing the operators of {}", path.string());
    decompose(program);
  }
  return std::make_unique<Interpreted>(std::move(program), options.seed);
}

}  // namespace toroid::cli
