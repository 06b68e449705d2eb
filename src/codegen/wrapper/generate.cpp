#include "codegen/wrapper/generate.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/cpp/prelude.h"
#include "codegen/wrapper/abi_text.h"
#include "codegen/wrapper/function_printer.h"
#include "codegen/wrapper/unique_names.h"

namespace toroid::codegen {
namespace {

// Less text than this is not worth a second compiler, which reads the whole prelude again.
constexpr size_t kWorthAnotherUnit = 6000;

// A program that says so in core operations has the call's random state.
bool has_random_state(const std::vector<schedule::ScheduledGraph>& graphs) {
  return std::any_of(graphs.begin(), graphs.end(), [](const schedule::ScheduledGraph& graph) {
    const std::vector<loop::Buffer>& buffers = graph.schedule.loops->buffers;
    return std::any_of(buffers.begin(), buffers.end(), [](const loop::Buffer& b) { return b.kind == loop::BufferKind::RandomState; });
  });
}

std::string prelude_of(const ExtraPreludes& extra, bool assertions) {
  std::string prelude(kPrelude);
  if (extra.random) prelude += kRandomPrelude;
  if (extra.special) prelude += kSpecialPrelude;
  prelude += kAbi;
  if (assertions) prelude += kAccessPrelude;
  return prelude;
}

// Few units, each with the whole prelude, of about equal cost.
std::vector<std::string> divide(const std::vector<GeneratedKernel>& kernels, const std::string& prelude, const std::string& wrapper,
                                const GenerateOptions& options) {
  size_t total = 0;
  for (const GeneratedKernel& kernel : kernels) total += kernel.text.size();
  const size_t count =
      total < kWorthAnotherUnit ? 1 : std::min<size_t>(static_cast<size_t>(std::max(1, options.max_units)), kernels.size());
  std::vector<std::string> units(std::max<size_t>(1, count), prelude);
  std::vector<size_t> load(units.size());
  std::vector<const GeneratedKernel*> order;
  for (const GeneratedKernel& kernel : kernels) order.push_back(&kernel);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->text.size() > b->text.size(); });
  load[0] = wrapper.size() / 4;  // straight-line code compiles faster than loops
  for (const GeneratedKernel* kernel : order) {
    const size_t unit = static_cast<size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    units[unit] += kernel->text + "\n";
    load[unit] += kernel->text.size();
  }
  units[0] += wrapper;
  return units;
}

}  // namespace

GeneratedProgram generate(program::Module made, const std::vector<schedule::ScheduledGraph>& graphs, const Program& program,
                          const GenerateOptions& options) {
  GeneratedProgram result;
  result.module = std::move(made);
  const program::Module& module = result.module;
  SharedParts shared{.program = program, .module = module, .graphs = graphs, .suffix = options.suffix};
  for (size_t i = 0; i < module.symbols.size(); ++i) shared.symbol_positions.emplace(module.symbols[i], i);
  for (const schedule::ScheduledGraph& graph : graphs) make_names_unique(*graph.schedule.loops, program);

  std::string functions = FunctionPrinter(module.main, shared).print_main();
  if (module.prepare) functions += FunctionPrinter(*module.prepare, shared).print_prepare();
  const std::string sizes = FunctionPrinter(module.main, shared).print_sizes();
  std::string declarations;
  for (const auto& [index, function] : module.subgraphs) {
    functions = FunctionPrinter(function, shared).print_subgraph(index) + "\n" + functions;
    declarations += fmt::format("static Graph graph_{};\n", index);
  }
  // By an attribute: a pragma would hold for the templates instantiated at the end of the file too, which are the bodies of the kernels.
  std::string wrapper = fmt::format("#define WRAPPER{}\n", module.is_long ? " __attribute__((optimize(\"O0\")))" : "");
  if (!shared.dims.empty()) {
    wrapper += "namespace dims {\n";
    for (const auto& [name, numbers] : shared.dims) wrapper += fmt::format("const int64_t {}[] = {{{}}};\n", name, numbers);
    wrapper += "}\n";
  }
  for (const std::string& declaration : shared.kernels.declarations()) wrapper += declaration + "\n";
  for (const auto& [kernel, function] : shared.epilogues) wrapper += function;
  result.kernels = shared.kernels.kernels();
  ExtraPreludes preludes = shared.kernels.preludes();
  preludes.random = preludes.random || has_random_state(graphs);
  if (shared.uses_control_flow)
    wrapper += std::string(preludes.random ? kRandomCall : kSameCall) + std::string(kControlFlow) + declarations;
  wrapper += "\n" + functions + "\n" + sizes;
  result.prelude = prelude_of(preludes, module.assertions);
  result.units = divide(result.kernels, result.prelude, wrapper, options);
  result.step_kernels = std::move(shared.step_kernels);
  result.step_kernels.resize(module.steps.size());
  return result;
}

}  // namespace toroid::codegen
