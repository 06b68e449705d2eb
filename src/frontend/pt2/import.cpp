#include "frontend/pt2/import.h"

#include <memory>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "frontend/pt2/archive.h"
#include "frontend/pt2/graph/graph_importer.h"
#include "frontend/pt2/graph/operator_names.h"
#include "frontend/pt2/guards.h"

namespace toroid {
namespace pt2 {
namespace {

constexpr int64_t kSchemaMajor = 8;

void check_version(const JsonValue& model) {
  const JsonValue& version = model.at("schema_version").at("major");
  if (version.as_integer() == kSchemaMajor) return;
  throw Error(ErrorKind::Unsupported,
              fmt::format("the model has schema version {}, and toroid reads {}", version.as_integer(), kSchemaMajor))
      .help("export the model with PyTorch 2.8 or newer");
}

void import_guards(const JsonValue& model, Program& program) {
  const JsonValue* codes = model.find_value("guards_code");
  if (!codes) return;
  const auto input_type = [&](const std::string& input) -> const TensorType* {
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      if (program.inputs[i].name == input) return &program.graph.type(program.graph.inputs[i]);
    }
    return nullptr;
  };
  for (const JsonValue& code : codes->elements()) read_guard(code.as_string(), program, input_type);
}

Program import_program(Archive& archive, const std::string& file, const Pt2Options& options, const SymbolRanges& ranges) {
  Program program;
  program.operators = options.operators;
  program.name = std::filesystem::path(file).filename().string();  // so that what is made of it says nothing of folders
  const JsonValue& model = archive.model();
  Import import{.program = program,
                .archive = archive,
                .sizes = SizeReader(*program.symbols, model.find_value("range_constraints"), ranges),
                .options = options,
                .unsupported = {}};
  const JsonValue& module = model.at("graph_module");
  try {
    GraphImporter(import, program.graph, module.at("graph")).import_main(module);
  } catch (const Error&) {
    // An operator that is not supported may well have types and arguments that are not either: it is the cause.
    const std::vector<OperatorUse> missing = missing_operators(module.at("graph"), options);
    if (missing.empty()) throw;
    throw unsupported_operators(missing, file);
  }
  if (!import.unsupported.uses().empty()) throw unsupported_operators(import.unsupported.uses(), file);
  import_guards(model, program);
  return program;
}

Program import_archive(ZipReader zip, const Pt2Options& options) {
  const std::string file = zip.file();
  Archive archive(std::move(zip));
  ErrorContext context("reading {}", archive.model_entry());
  check_version(archive.model());
  Program program = import_program(archive, file, options, {});
  // Guards name inputs, whose sizes are known by now: read again where these say more of them.
  const SymbolRanges ranges = ranges_of_guards(program);
  return ranges.empty() ? std::move(program) : import_program(archive, file, options, ranges);
}

}  // namespace
}  // namespace pt2

Program import_pt2(const std::filesystem::path& path, const Pt2Options& options) {
  ErrorContext context("importing {}", path.string());
  return pt2::import_archive(ZipReader::open(path), options);
}

Program import_pt2(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& file,
                   const Pt2Options& options) {
  ErrorContext context("importing {}", file);
  return pt2::import_archive(ZipReader(bytes, std::move(owner), file), options);
}

std::vector<OperatorUse> pt2_operators(const std::filesystem::path& path) {
  ErrorContext context("importing {}", path.string());
  const pt2::Archive archive(ZipReader::open(path));
  ErrorContext entry_context("reading {}", archive.model_entry());
  OperatorCounter counter;
  pt2::count_operators(archive.model().at("graph_module").at("graph"), counter);
  return counter.uses();
}

}  // namespace toroid
