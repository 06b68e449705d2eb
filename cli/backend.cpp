#include "backend.h"

#include "frontend/pt2/import.h"
#include "interp/evaluate.h"
#include "passes/decompose/decompose.h"
#include "support/error.h"

namespace toroid::cli {
namespace {

Program import_model(const std::filesystem::path& path) {
  if (path.extension() == ".pt2") {
    Pt2Options options;
    options.is_supported = [](const Schema& schema) { return find_decomposition(schema) != nullptr; };
    return import_pt2(path, options);
  }
  throw Error(ErrorKind::Unsupported, fmt::format("{} is not a model that toroid reads", path.string()))
      .help("export it with torch.export.save to a file that ends in .pt2");
}

class Interpreted : public Callable {
 public:
  explicit Interpreted(Program program) : program_(std::move(program)) {}
  const Program& program() const override { return program_; }
  std::vector<HostTensor> call(std::span<const HostTensor> inputs) const override { return evaluate(program_, inputs); }

 private:
  Program program_;
};

}  // namespace

std::unique_ptr<Callable> load_model(const std::filesystem::path& path, std::string_view backend) {
  if (backend != "interp") {
    throw Error(ErrorKind::InvalidOption, fmt::format("there is no backend '{}'", backend))
        .help(fmt::format("backends: {}", kBackends));
  }
  Program program = import_model(path);
  {
    ErrorContext context("decomposing the operators of {}", path.string());
    decompose(program);
  }
  return std::make_unique<Interpreted>(std::move(program));
}

}  // namespace toroid::cli
