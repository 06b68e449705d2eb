#include "codegen/wrapper/generate.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "codegen/cpp/prelude/prelude.h"
#include "codegen/cuda/prelude.h"
#include "codegen/halide/halide_kernel.h"
#include "codegen/wrapper/abi_text.h"
#include "codegen/wrapper/function_printer.h"
#include "codegen/wrapper/unique_names.h"

namespace toroid::codegen {
namespace {

// A lower cost than this is not worth a second compiler, which reads the whole prelude again.
constexpr size_t kWorthAnotherUnit = 6000;

// A program that says so in core operations has the call's random state.
bool has_random_state(const std::vector<schedule::ScheduledGraph>& graphs) {
  return std::any_of(graphs.begin(), graphs.end(), [](const schedule::ScheduledGraph& graph) {
    const std::vector<loop::Buffer>& buffers = graph.schedule.loops->buffers;
    return std::any_of(buffers.begin(), buffers.end(), [](const loop::Buffer& b) { return b.kind == loop::BufferKind::RandomState; });
  });
}

// What a kernel costs the compiler, in characters at 30 us each (g++ 12, fitted to 169 kernels of nine models): a loop's body is compiled
// for whole vectors and for the rest, and that of a loop over rows in several copies.
size_t compile_cost(std::string_view text) {
  auto count = [&](std::string_view word) {
    size_t found = 0;
    for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + word.size())) ++found;
    return found;
  };
  return text.size() + 450 * count("INLINE_BODY") + 2000 * count("for_rows<");
}

// Few units of about equal cost. `load_of_first`: of what the first one has besides.
std::vector<std::string> divide(const std::vector<GeneratedKernel>& kernels, size_t load_of_first, int max_units,
                                size_t worth_another_unit = kWorthAnotherUnit) {
  std::vector<std::pair<size_t, const GeneratedKernel*>> order;
  for (const GeneratedKernel& kernel : kernels) order.emplace_back(compile_cost(kernel.text), &kernel);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  size_t total = 0;
  for (const auto& [cost, kernel] : order) total += cost;
  const size_t count = total < worth_another_unit ? 1 : std::min<size_t>(static_cast<size_t>(std::max(1, max_units)), kernels.size());
  std::vector<std::string> units(std::max<size_t>(1, count));
  std::vector<size_t> load(units.size());
  load[0] = load_of_first;
  for (const auto& [cost, kernel] : order) {
    const size_t unit = static_cast<size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    units[unit] += kernel->text + "\n";
    load[unit] += cost;
  }
  return units;
}

// Kernels of the same text, but for a processor: in one file with the wrapper.
constexpr std::string_view kEmulatedLaunch = R"text(
extern "C" { __attribute__((weak, visibility("default"))) int64_t toroid_bad_index[2]; }
static thread_local Failure emulated_failure;
static int32_t launch(const ToroidRuntime*, EmulatedKernel kernel, int64_t blocks, int32_t threads, void** arguments, int32_t step,
                      int32_t shared_bytes = 0, int32_t = 0, const ToroidTensorMap* maps = nullptr, int32_t num_maps = 0) {
  for (int32_t i = 0; i < num_maps; ++i) arguments[i] = (void*)(maps + i);
  emulated_failure = {};
  run_emulated(kernel, blocks, threads, shared_bytes, arguments);
  if (emulated_failure.code == 0) return 0;
  toroid_bad_index[0] = emulated_failure.index;
  toroid_bad_index[1] = emulated_failure.size;
  return (step + 1) | emulated_failure.code << 28;
}
#define launch_early launch
)text";

void add_gpu_units(GeneratedProgram& result, const SharedParts& shared, const std::string& wrapper, const GenerateOptions& options) {
  const bool emulated = is_emulated(options.target);
  const cuda::Language language = {.is_amd = is_amd(options.target), .is_emulated = emulated};
  const std::string abi(kAbi);
  cuda::Preludes all;
  std::map<cuda::Preludes, std::vector<GeneratedKernel>> by_preludes;
  for (const GeneratedKernel& kernel : result.kernels) {
    const cuda::Preludes& its = shared.kernel_preludes.at(kernel.name);
    all.add(its);
    by_preludes[its].push_back(kernel);
  }
  result.prelude = cuda::prelude_of(all, language);
  if (emulated) {
    result.unit_prelude = std::make_shared<PreludeParts>(cuda::emulation(options.wave) + result.prelude + abi + std::string(kOwnMemory) +
                                                         std::string(kEmulatedLaunch));
    std::string unit;
    for (const GeneratedKernel& kernel : result.kernels) unit += kernel.text + "\n";
    for (const auto& [kernel, text] : shared.thunks) unit += text;
    result.units = {unit + wrapper};
    return;
  }
  for (const auto& [preludes, kernels] : by_preludes) {
    // A kernel of tensor cores is a few lines and compiles for as long as ten others, most of it in templates: it is alone.
    const bool is_long = preludes.products || preludes.convolutions || preludes.attention || preludes.grouped_products;
    const std::string prelude = cuda::prelude_of(preludes, language);
    for (const std::string& unit : divide(kernels, 0, options.max_units, is_long ? 0 : kWorthAnotherUnit)) {
      result.gpu_units.push_back(prelude + unit);
    }
  }
  static const auto host_prelude =
      std::make_shared<PreludeParts>(std::string(cuda::kHostPrelude) + abi + std::string(kGpuMemory) +
                                     "extern \"C\" { __attribute__((weak, visibility(\"default\"))) int64_t toroid_bad_index[2]; }\n");
  result.unit_prelude = host_prelude;
  result.units = {wrapper};
}

}  // namespace

std::shared_ptr<const PreludeParts> prelude_for(bool assertions) {
  const auto text = [](std::string_view last) {
    return fmt::format("{}{}{}{}{}{}", kPrelude, kRandomPrelude, kSpecialPrelude, kAbi, kHalideAbi, last);
  };
  static const auto plain = std::make_shared<PreludeParts>(text("")), checked = std::make_shared<PreludeParts>(text(kAccessPrelude));
  return assertions ? checked : plain;
}

void add_prelude(std::span<std::string> units, const PreludeParts& prelude) {
  for (std::string& unit : units) unit.insert(0, prelude.used_by(unit));
}

void add_prelude(std::span<std::string> units, const GeneratedProgram& program) {
  const size_t host = std::min(program.host_units, units.size());
  add_prelude(units.first(host), *prelude_for(program.module.assertions));
  add_prelude(units.subspan(host), *program.unit_prelude);
}

GeneratedProgram generate(program::Module made, const std::vector<schedule::ScheduledGraph>& graphs, const Program& program,
                          const GenerateOptions& options) {
  GeneratedProgram result;
  result.module = std::move(made);
  const program::Module& module = result.module;
  SharedParts shared{.program = program, .module = module, .graphs = graphs, .suffix = options.suffix, .target = options.target};
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
  const bool on_cpu = options.target == Target::Cpu;
  for (const std::string& declaration : (on_cpu ? shared.kernels : shared.host_kernels).declarations()) wrapper += declaration + "\n";
  for (const auto& [kernel, function] : shared.epilogues) wrapper += function;
  result.kernels = shared.kernels.kernels();
  result.host_kernels = shared.host_kernels.kernels();
  result.draws = has_random_state(graphs);
  result.linked_kernels = std::move(shared.linked_kernels);
  result.products = std::move(shared.products);
  result.calls_special_functions = shared.calls_special_functions;
  result.calls_onednn = shared.calls_onednn;
  result.custom_entries = std::move(shared.custom_entries);
  for (const auto& [text, kernel] : shared.triton_kernels) result.triton_units.push_back(to_text(kernel));
  for (const auto& [entry, pipeline] : shared.halide) result.halide_pipelines.push_back(to_text(pipeline));
  if (!shared.halide.empty()) wrapper += kHalideHost;
  for (const std::string& declaration : shared.halide_declarations) wrapper += declaration;
  for (const auto& [op, entries] : result.custom_entries) {
    for (const auto& [name, text] : entries) {
      wrapper += fmt::format(
          "extern \"C\" {{ int32_t {}(const ToroidOperand*, const ToroidOperand*, const int64_t*, const double*, int64_t, int64_t); }}\n",
          name);
    }
  }
  if (shared.uses_control_flow) {
    if (on_cpu) wrapper += kOwnMemory;
    wrapper += std::string(result.draws ? kRandomCall : kSameCall) + std::string(kControlFlow) + declarations;
  }
  wrapper += "\n" + functions + "\n" + sizes;
  if (on_cpu) {
    result.unit_prelude = prelude_for(module.assertions);
    result.prelude = result.unit_prelude->whole();
    // Straight-line code compiles faster than kernels, above all where it is not optimised.
    result.units = divide(result.kernels, wrapper.size() / (module.is_long ? 5 : 2), options.max_units);
    result.units[0] += wrapper;
  } else {
    add_gpu_units(result, shared, wrapper, options);
    if (!result.host_kernels.empty()) {
      std::vector<std::string> units = divide(result.host_kernels, 0, options.max_units);
      result.host_units = units.size();
      result.units.insert(result.units.begin(), units.begin(), units.end());
    }
  }
  result.step_kernels = std::move(shared.step_kernels);
  result.step_kernels.resize(module.steps.size());
  return result;
}

}  // namespace toroid::codegen
