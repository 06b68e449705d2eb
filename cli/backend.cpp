#include "backend.h"

#include "driver/compile.h"
#include "driver/executable.h"
#include "interp/evaluate.h"
#include "passes/decompose/decompose.h"
#include "support/error.h"

namespace toroid::cli {
namespace {

class Interpreted : public Callable {
 public:
  explicit Interpreted(Program program) : program_(std::move(program)) {}
  const Program& program() const override { return program_; }
  std::vector<HostTensor> call(std::span<const HostTensor> inputs) override { return evaluate(program_, inputs); }

 private:
  Program program_;
};

class Compiled : public Callable {
 public:
  Compiled(CompiledModel model, int threads) : model_(std::move(model)), executable_(model_.load(threads)) {}
  const Program& program() const override { return model_.program; }
  std::vector<HostTensor> call(std::span<const HostTensor> inputs) override { return executable_.run(inputs); }

 private:
  CompiledModel model_;
  Executable executable_;
};

class Packaged : public Callable {
 public:
  explicit Packaged(Executable executable) : executable_(std::move(executable)) {}
  const Program& program() const override { return executable_.manifest().signature; }
  std::vector<HostTensor> call(std::span<const HostTensor> inputs) override { return executable_.run(inputs); }

 private:
  Executable executable_;
};

}  // namespace

std::unique_ptr<Callable> load_model(const std::filesystem::path& path, const LoadOptions& options) {
  if (options.backend != "cpu" && options.backend != "interp") {
    throw Error(ErrorKind::InvalidOption, fmt::format("there is no backend '{}'", options.backend))
        .help(fmt::format("backends: {}", kBackends));
  }
  if (path.extension() == ".so") return std::make_unique<Packaged>(Executable::load(path, options.threads));
  if (options.backend == "cpu") {
    CompileSession session(options.use_cache);
    CompileModelOptions how;
    how.compile_threads = options.threads;
    return std::make_unique<Compiled>(session.compile_file(path, how), options.threads);
  }
  Program program = CompileSession::import(path);
  {
    ErrorContext context("decomposing the operators of {}", path.string());
    decompose(program);
  }
  return std::make_unique<Interpreted>(std::move(program));
}

}  // namespace toroid::cli
