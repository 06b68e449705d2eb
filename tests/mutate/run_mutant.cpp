#include "mutate/run_mutant.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/error.h"
#include "frontend/pt2/import.h"
#include "fuzz/check.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "interp/compare.h"
#include "interp/evaluate.h"
#include "passes/dead_code.h"
#include "passes/decompose/engine/decompose.h"
#include "signature/symbol_values.h"
#include "support/hash.h"

namespace toroid::mutate {
namespace {

constexpr int64_t kMostElements = 1 << 18;  // of a program's tensors together, if the evaluator is to run it
constexpr size_t kMostNodes = 4000;
constexpr int64_t kMostSteps = 20000;  // nodes that the evaluator runs: a spoilt loop may never end

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')).substr(0, 400); }

// An error that may end a mutant; toroid's own faults and a compiler that refuses its code may not.
Outcome outcome_of(const Error& error, std::string_view phase) {
  // An allocation that the limit refuses names its size; one that does not has grown bit by bit.
  const bool is_fault =
      error.kind() == ErrorKind::Internal || error.kind() == ErrorKind::ToolFailed || error.message().starts_with("out of memory while");
  const std::string text = fmt::format("{}: {}", phase, error.message());
  return {is_fault ? Ending::Finding : Ending::Refused, is_fault ? text.substr(0, 600) : first_line(text)};
}

// Memory for constants that a text leaves out.
void fill_constant(ConstantData& data) {
  Checked bytes = size_bytes(data.type.dtype);
  for (sym::Expr size : data.type.sizes) bytes *= size.is_const() ? size.value() : 1;
  const auto count = static_cast<size_t>(std::clamp<int64_t>(bytes.value().value_or(0), 0, 1 << 20));
  auto memory = std::make_shared<std::vector<std::byte>>(count);
  data.bytes = *memory;
  data.owner = memory;
}

uint64_t hash_of(const Program& program) {
  uint64_t hash = hash64(to_text(program));
  for (const ConstantData& data : program.constants) {
    for (sym::Expr stride : data.type.strides) hash = hash_combine(hash, stride.hash());
    hash = hash_combine(hash, hash64(data.bytes));
  }
  return hash;
}

// Inputs of the recorded types; symbols take their hint, or a small value in their range.
std::vector<HostTensor> inputs_for(const Program& program) {
  Random random(17);
  const auto value_of = [](sym::Expr symbol) -> std::optional<int64_t> {
    const sym::Range range = symbol.range();
    return std::clamp<int64_t>(symbol.node()->hint.value_or(3), range.min, range.max);
  };
  std::vector<HostTensor> inputs;
  for (ValueId input : program.graph.inputs) {
    const TensorType& type = program.graph.type(input);
    std::vector<int64_t> sizes;
    for (sym::Expr size : type.sizes) sizes.push_back(std::max<int64_t>(0, sym::evaluate(size, value_of)));
    if (numel(sizes) > kMostElements) throw Error(ErrorKind::InvalidInput, "an input is too large to be made");
    const auto count = static_cast<size_t>(numel(sizes));
    if (is_floating(type.dtype)) {
      std::vector<double> values(count);
      for (double& value : values) value = static_cast<double>(random.between(-16, 16)) / 8;
      inputs.push_back(HostTensor::from_doubles(type.dtype, sizes, values));
    } else {
      std::vector<int64_t> values(count);
      for (int64_t& value : values) value = random.between(0, type.dtype == DType::Bool ? 1 : 2);
      inputs.push_back(HostTensor::from_ints(type.dtype, sizes, values));
    }
  }
  return inputs;
}

// Whether the evaluator can be asked to run it.
bool is_small(const Program& program) {
  const auto value_of = [](sym::Expr symbol) -> std::optional<int64_t> {
    return std::clamp<int64_t>(symbol.node()->hint.value_or(8), symbol.range().min, symbol.range().max);
  };
  Checked elements = 0;
  size_t nodes = 0;
  const auto count = [&](const Graph& graph) {
    nodes += graph.num_nodes();
    for (size_t v = 0; v < graph.num_values(); ++v) {
      Checked all = 1;
      for (sym::Expr size : graph.type(ValueId{static_cast<uint32_t>(v)}).sizes) all *= sym::evaluate(size, value_of);
      elements += all;
    }
  };
  count(program.graph);
  for (const Graph& graph : program.subgraphs) count(graph);
  return elements.fits() && *elements.value() <= kMostElements * 16 && nodes <= kMostNodes;
}

bool has_16_bits(DType dtype) { return dtype == DType::BF16 || dtype == DType::F16; }

// Per output: is something on its way rounded to 16 bits? A sum in another order may then be the next number of 16 bits.
std::vector<bool> made_of_16_bits(const Program& program) {
  const auto any_of_graph = [](const Graph& graph) {
    for (size_t v = 0; v < graph.num_values(); ++v) {
      if (has_16_bits(graph.type(ValueId{static_cast<uint32_t>(v)}).dtype)) return true;
    }
    return false;
  };
  const bool any_of_bodies = std::any_of(program.subgraphs.begin(), program.subgraphs.end(), any_of_graph);
  const Graph& graph = program.graph;
  std::vector<bool> rounded(graph.num_values(), false);
  for (const Node& node : graph.nodes()) {
    if (std::holds_alternative<Input>(node.op)) continue;
    bool is_rounded = std::holds_alternative<HigherOrder>(node.op) && any_of_bodies;
    for (ValueId input : node.inputs) is_rounded = is_rounded || rounded[static_cast<size_t>(input)];
    for (ValueId output : node.outputs) rounded[static_cast<size_t>(output)] = is_rounded || has_16_bits(graph.type(output).dtype);
  }
  std::vector<bool> result;
  for (ValueId output : graph.outputs) result.push_back(rounded[static_cast<size_t>(output)]);
  return result;
}

// A difference beyond what another order of sums makes.
std::optional<std::string> first_difference(const Program& program, const std::vector<HostTensor>& expected,
                                            const std::vector<HostTensor>& actual) {
  if (actual.size() != expected.size()) return fmt::format("{} outputs and {}", expected.size(), actual.size());
  const std::vector<bool> sums = made_of_sums_or_products(program.graph), narrow = made_of_16_bits(program);
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool same_type = actual[i].dtype() == expected[i].dtype() && actual[i].sizes() == expected[i].sizes();
    if (narrow[i] && same_type && is_floating(expected[i].dtype()) &&
        compare_elements(actual[i], expected[i], tolerance_of(DType::BF16), sums[i]).differing == 0) {
      continue;
    }
    if (const auto found = difference(actual[i], expected[i], {.sums_or_products = sums[i]})) return fmt::format("output {} {}", i, *found);
  }
  return std::nullopt;
}

// The same by the rule of random programs, which knows where numbers may overflow on the way and which operators flush subnormal ones:
// `found` remains where either differs from their reference, or where they have none.
std::optional<std::string> difference_by_reference(const std::string& text, const Program& program, const std::vector<HostTensor>& inputs,
                                                   const std::vector<HostTensor>& evaluated, const std::vector<HostTensor>& compiled,
                                                   std::string found) {
  try {
    const fuzz::Program parsed = fuzz::parse_program(text);
    fuzz::Run run;
    for (const fuzz::Symbol& symbol : parsed.symbols) {
      if (!symbol.from_data) run.emplace_back(symbol.name, std::clamp(symbol.hint, symbol.least, symbol.most));
    }
    for (const auto* outputs : {&evaluated, &compiled}) {
      if (auto differs = fuzz::difference_from_reference(parsed, run, inputs, program, *outputs)) {
        return fmt::format("{}; {} and reference: {}", found, outputs == &evaluated ? "evaluator" : "compiled program", *differs);
      }
    }
    return std::nullopt;
  } catch (const Error& error) {
    return fmt::format("{}; no reference: {}", found, error.message());
  }
}

struct TooManySteps {};

struct Ran {
  std::vector<HostTensor> outputs = {};
  std::optional<Outcome> error = {};
};
template <class F>
Ran attempt(std::string_view phase, F f) {
  try {
    return {.outputs = f()};
  } catch (const Error& error) {
    return {.error = outcome_of(error, phase)};
  }
}

Outcome run(const std::string& bytes, bool is_archive, CompileSession& session, SeenPrograms& seen, const RunOptions& options) {
  std::string_view phase = "import";
  try {
    const auto owner = std::make_shared<const std::string>(bytes);
    const auto read = [&] {
      return is_archive ? import_pt2(std::as_bytes(std::span(*owner)), owner, "mutant.pt2", {.is_supported = is_supported})
                        : parse_text(*owner, fill_constant);
    };
    Program program = read();
    if (is_archive) {
      phase = "verify";
      verify(program, Level::Import);
    }
    phase = "decompose";
    decompose(program);
    remove_dead_code(program);
    phase = "verify core";
    verify(program, Level::Core);
    if (!seen.insert(hash_of(program))) return {Ending::Known};

    phase = "inputs";
    if (!is_small(program)) return {Ending::Large};
    std::vector<HostTensor> inputs;
    try {
      inputs = inputs_for(program);
    } catch (const Error&) {  // sizes or dtypes that no test makes
      return {Ending::Large};
    }
    Ran evaluated;
    try {
      evaluated = attempt("evaluate", [&] {
        int64_t steps = 0;
        return evaluate(program, inputs, {.after_node = [&](auto&&...) {
                          if (++steps > kMostSteps) throw TooManySteps();
                        }});
      });
    } catch (const TooManySteps&) {
      return {Ending::Large};
    }
    if (evaluated.error && evaluated.error->ending == Ending::Finding) return *evaluated.error;
    if (!options.compile) return {Ending::Evaluated};
    const Ran compiled = attempt("compile and run", [&] {
      CompiledModel model = session.compile(read(), {.compile_threads = 1, .optimization = options.optimization});
      return model.load(1).run(inputs);
    });
    if (compiled.error && compiled.error->ending == Ending::Finding) return *compiled.error;
    if (evaluated.error && compiled.error) return {Ending::Refused, compiled.error->text};
    if (evaluated.error) return {Ending::OneSided, evaluated.error->text};
    if (compiled.error) return {Ending::OneSided, compiled.error->text};
    std::optional<std::string> found = first_difference(program, evaluated.outputs, compiled.outputs);
    if (found && !is_archive) found = difference_by_reference(bytes, program, inputs, evaluated.outputs, compiled.outputs, *found);
    if (found) return {Ending::Finding, "differs: " + *found};
    return {Ending::Equal};
  } catch (const Error& error) {
    return outcome_of(error, phase);
  } catch (const std::bad_alloc&) {
    return {Ending::Finding, fmt::format("{}: std::bad_alloc", phase)};
  } catch (const std::exception& error) {
    return {Ending::Finding, fmt::format("{}: an exception without a type: {}", phase, error.what())};
  }
}

}  // namespace

SeenPrograms::SeenPrograms() {
  void* memory = mmap(nullptr, kSlots * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error(ErrorKind::Environment, "no memory to remember programs in");
  slots_ = static_cast<std::atomic<uint64_t>*>(memory);
}

bool SeenPrograms::insert(uint64_t hash) {
  hash |= 1;  // 0 is an empty slot
  for (size_t probe = 0; probe < 64; ++probe) {
    std::atomic<uint64_t>& slot = slots_[(hash + probe) % kSlots];
    uint64_t expected = 0;
    if (slot.compare_exchange_strong(expected, hash)) return true;
    if (expected == hash) return false;
  }
  return true;
}

Outcome run_mutant(const std::string& bytes, bool is_archive, CompileSession& session, SeenPrograms& seen, const RunOptions& options) {
  return run(bytes, is_archive, session, seen, options);
}

}  // namespace toroid::mutate
