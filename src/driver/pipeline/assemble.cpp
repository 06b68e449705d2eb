#include "driver/pipeline/assemble.h"

#include <fmt/format.h>

#include "base/error.h"
#include "driver/gpu_binaries.h"
#include "driver/pipeline/save_sources.h"
#include "graph/custom/custom_operators.h"

namespace toroid {
namespace {

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

// Of a library kernel among processes (library/collectives/collectives.h).
bool is_collective_kernel(const std::string& name) { return name.starts_with("library.collectives."); }

// Behind the units of all variants; what they draw and call is told to the rest of the program.
void take_variant(AssembledProgram& all, codegen::CustomEntries& custom_entries, codegen::GeneratedProgram& code) {
  all.entry.linked_kernels.merge(code.linked_kernels);
  all.needs.products.insert(all.needs.products.end(), code.products.begin(), code.products.end());
  all.use.special_functions = all.use.special_functions || code.calls_special_functions;
  all.use.onednn = all.use.onednn || code.calls_onednn;
  all.use.mpi = std::ranges::any_of(all.entry.linked_kernels, is_collective_kernel);
  for (auto& [op, entries] : code.custom_entries) custom_entries[op].merge(entries);
  for (size_t i = 0; i < code.units.size(); ++i) all.sources.is_optimised.push_back(i < code.host_units);
  std::ranges::move(code.units, std::back_inserter(all.sources.units));
  std::ranges::move(code.gpu_units, std::back_inserter(all.sources.gpu.units));
  std::ranges::move(code.triton_units, std::back_inserter(all.sources.gpu.triton));
  for (std::string& pipeline : code.halide_pipelines) {
    std::vector<std::string>& pipelines = all.sources.halide.pipelines;
    if (std::ranges::find(pipelines, pipeline) == pipelines.end()) pipelines.push_back(std::move(pipeline));
  }
  all.kernels += static_cast<int>(code.kernels.size());
  const program::Counts counts = program::counts(code.module);
  all.kernel_calls += counts.kernel_calls;
  all.library_calls += counts.library_calls;
}

// Each variant has its own prelude. The bytes of each unit's.
std::vector<size_t> add_preludes(std::vector<std::string>& units, const std::vector<GeneratedVariant>& variants) {
  std::vector<size_t> bytes;
  for (const std::string& unit : units) bytes.push_back(unit.size());
  for (size_t first = 0; const GeneratedVariant& variant : variants) {
    const size_t count = variant.code.units.size();
    codegen::add_prelude(std::span(units).subspan(first, count), variant.code);
    first += count;
  }
  for (size_t i = 0; i < units.size(); ++i) bytes[i] = units[i].size() - bytes[i];
  return bytes;
}

}  // namespace

AssembledProgram assemble(std::vector<GeneratedVariant>& variants, const ConstantTable& constants, const codegen::ProgramTexts& texts,
                          const CompileModelOptions& options) {
  const std::filesystem::path& folder = options.save_source;
  AssembledProgram all;
  codegen::CustomEntries custom_entries;
  for (size_t v = 0; v < variants.size(); ++v) {
    if (!folder.empty()) save_kernels(folder, variants[v].code, v + 1 < variants.size() ? fmt::format("_v{}", v) : "");
    take_variant(all, custom_entries, variants[v].code);
  }
  LibrarySources& sources = all.sources;
  sources.units.back() += tables_text(variants, constants, texts);
  if (is_device(options.target)) {
    if (sources.gpu.units.empty()) sources.gpu.units.push_back("");  // a program without a kernel is for a GPU nevertheless
    sources.gpu.binaries = binaries_of(sources.gpu.units.size(), sources.gpu.triton.size(), architectures_of(options));
    const bool draws = std::ranges::any_of(variants, [](const GeneratedVariant& variant) { return variant.code.draws; });
    std::vector<const program::Module*> modules;
    for (const GeneratedVariant& variant : variants) modules.push_back(&variant.code.module);
    sources.units.back() += codegen::gpu_tables(sources.gpu.binaries, draws, modules);
    all.entry.is_for_gpu = all.use.gpu = true;
  }
  all.prelude_bytes = add_preludes(sources.units, variants);
  const Program& general = variants.back().program;
  if (options.package) refuse_libraries(general, custom_entries);
  sources.custom_units = codegen::custom_units(general, custom_entries);
  if (!folder.empty()) {
    save_units(folder, "wrapper_unit", sources.units, "cpp");
    save_units(folder, "kernels_unit", sources.gpu.units, is_amd(options.target) ? "hip" : "cu");
    save_units(folder, "triton_unit", sources.gpu.triton, "json");
    save_units(folder, "custom_unit", sources.custom_units, "cpp");
    save_units(folder, "halide_unit", sources.halide.pipelines, "json");
  }
  return all;
}

}  // namespace toroid
