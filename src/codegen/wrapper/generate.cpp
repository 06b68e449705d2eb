#include "codegen/wrapper/generate.h"

#include <algorithm>

#include "codegen/cpp/prelude.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/wrapper/abi_text.h"
#include "codegen/wrapper/graph_function.h"
#include "interp/bind_symbols.h"

namespace toroid::codegen {
namespace {

// Less text than this is not worth a second compiler, which reads the whole prelude again.
constexpr size_t kWorthAnotherUnit = 6000;

// By kernels of either kind, or by what a program says in core operations.
bool draws_random_numbers(const std::vector<ScheduledGraph>& graphs, const std::vector<GeneratedKernel>& kernels) {
  const bool in_kernels = std::any_of(kernels.begin(), kernels.end(),
                                      [](const GeneratedKernel& kernel) { return kernel.text.find("op_philox_") != std::string::npos; });
  return in_kernels || std::any_of(graphs.begin(), graphs.end(), [](const ScheduledGraph& graph) {
           const std::vector<loop::Buffer>& buffers = graph.schedule.loops->buffers;
           return std::any_of(buffers.begin(), buffers.end(),
                              [](const loop::Buffer& b) { return b.kind == loop::BufferKind::RandomState; });
         });
}

bool computes_special_functions(const std::vector<GeneratedKernel>& kernels) {
  const std::span<const ScalarOp> ops = special_vector_forms();
  return std::any_of(kernels.begin(), kernels.end(), [&](const GeneratedKernel& kernel) {
    return std::any_of(ops.begin(), ops.end(),
                       [&](ScalarOp op) { return kernel.text.find(fmt::format("op_{}_v(", to_string(op))) != std::string::npos; });
  });
}

// Programs with more steps than this get a wrapper that is not optimised.
constexpr size_t kOptimisedSteps = 100;

std::string prelude_of(const std::vector<GeneratedKernel>& kernels, bool assertions, bool draws) {
  std::string prelude(kPrelude);
  if (draws) prelude += kRandomPrelude;
  if (computes_special_functions(kernels)) prelude += kSpecialPrelude;
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

std::vector<ScheduledGraph> schedule_graphs(std::vector<LoweredGraph> graphs, bool fuse, std::vector<schedule::FusionDecision>* decisions,
                                            schedule::Forms forms) {
  std::vector<ScheduledGraph> result;
  for (LoweredGraph& graph : graphs) {
    result.push_back(
        {schedule::make_schedule(std::move(graph.loops), fuse, result.empty() ? decisions : nullptr, forms), std::move(graph.outputs)});
  }
  return result;
}

std::string to_string(const std::vector<ScheduledGraph>& graphs) {
  std::string text;
  for (size_t i = 0; i < graphs.size(); ++i) {
    if (i > 0) text += fmt::format("\nsubgraph {}\n", i - 1);
    text += schedule::to_string(graphs[i].schedule);
  }
  return text;
}

GeneratedProgram generate(const std::vector<ScheduledGraph>& graphs, const Program& program, const GenerateOptions& options) {
  GeneratedProgram result;
  SharedParts shared{
      .program = program, .result = result, .suffix = options.suffix, .profile = options.profile, .assertions = options.assertions};
  for (const sym::Expr symbol : program.symbols->symbols()) {
    const sym::SymbolKind kind = symbol.node()->symbol_kind;
    if (kind != sym::SymbolKind::Size && kind != sym::SymbolKind::DataDependent) continue;
    shared.symbol_positions.emplace(symbol, result.symbols.size());
    result.symbols.push_back(symbol);
  }
  // The call's shapes give these; nodes of the program define the others.
  std::vector<sym::Expr> known;
  for (const SymbolDefinition& each : plan_bindings(program).definitions) known.push_back(each.symbol);

  GraphFunction main(graphs[0], program.graph, shared, known);
  std::string functions = main.print_main();
  functions += main.print_prepare();
  const std::string sizes = main.print_sizes();
  std::string declarations;
  // Printing a subgraph may find calls of others.
  std::vector<bool> printed(program.subgraphs.size());
  for (bool again = true; again;) {
    again = false;
    const auto called = shared.called;
    for (const auto& [index, symbols] : called) {
      if (printed[index]) continue;
      printed[index] = again = true;
      GraphFunction function(graphs[1 + index], program.subgraphs[index], shared, symbols);
      functions = function.print_subgraph(index) + "\n" + functions;
      declarations += fmt::format("static Graph graph_{};\n", index);
    }
  }
  // Straight-line code that runs once a call. Optimising one function with hundreds of calls takes the compiler longer than the kernels
  // do, so long ones are not. By an attribute: a pragma would hold for the templates instantiated at the end of the file too, which are
  // the bodies of the kernels.
  size_t steps = 0;
  for (const ScheduledGraph& graph : graphs) steps += graph.schedule.steps.size();
  std::string wrapper = fmt::format("#define WRAPPER{}\n", steps <= kOptimisedSteps ? "" : " __attribute__((optimize(\"O0\")))");
  if (!shared.dims.empty()) {
    wrapper += "namespace dims {\n";
    for (const auto& [name, numbers] : shared.dims) wrapper += fmt::format("const int64_t {}[] = {{{}}};\n", name, numbers);
    wrapper += "}\n";
  }
  for (const std::string& declaration : shared.kernels.declarations()) wrapper += declaration + "\n";
  for (const auto& [kernel, function] : shared.epilogues) wrapper += function;
  result.kernels = shared.kernels.kernels();
  const bool draws = draws_random_numbers(graphs, result.kernels);
  if (shared.uses_control_flow) wrapper += std::string(draws ? kRandomCall : kSameCall) + std::string(kControlFlow) + declarations;
  wrapper += "\n" + functions + "\n" + sizes;
  result.prelude = prelude_of(result.kernels, options.assertions, draws);
  result.units = divide(result.kernels, result.prelude, wrapper, options);
  return result;
}

std::string manifest_unit(std::string_view manifest) {
  std::string text = "extern \"C\" __attribute__((visibility(\"default\"))) const char toroid_manifest[] =\n  \"";
  size_t column = 0;
  for (unsigned char c : manifest) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += static_cast<char>(c);
    } else if (c < 0x20 || c >= 0x7f || c == '?') {
      text += fmt::format("\\{:03o}", c);
    } else {
      text += static_cast<char>(c);
    }
    if (++column == 100) {
      text += "\"\n  \"";
      column = 0;
    }
  }
  return text + "\";\n";
}

}  // namespace toroid::codegen
