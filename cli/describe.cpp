#include "describe.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "graph/graph.h"
#include "runtime/contract/contract.h"
#include "runtime/program/executable.h"

namespace toroid::cli {
namespace {

std::string range_text(const ToroidSymbol& symbol) {
  const bool is_open = symbol.most == std::numeric_limits<int64_t>::max();
  return is_open ? fmt::format("{} or more", symbol.least) : fmt::format("from {} to {}", symbol.least, symbol.most);
}

// "logits: f32[s40, 10]"
std::string output_text(const ToroidOutputInfo& output, size_t number) {
  const std::string file_name = fmt::format("out{}", number);
  return fmt::format("{}{}: {}", file_name, output.name == file_name ? "" : fmt::format(" {}", output.name), output.type);
}

bool is_returned(const ToroidOutputInfo& output) { return toroid::is_returned({static_cast<OutputKind>(output.kind), output.target}); }

}  // namespace

std::vector<std::string> device_notes(const Executable& executable) {
  std::vector<std::string> notes;
  const std::vector<std::string> calls = executable.calls_on_host(), obstacles = executable.graph_obstacles();
  std::string names;
  for (size_t i = 0; i < calls.size(); ++i) names += (i == 0 ? "" : i + 1 == calls.size() ? " and " : ", ") + calls[i];
  if (!calls.empty()) notes.push_back(names + " ran on the host, with copies");
  if (!obstacles.empty()) notes.push_back(fmt::format("calls are no CUDA graphs: {}", fmt::join(obstacles, ", ")));
  return notes;
}

std::string variant_text(const ToroidProgram& program, const ToroidVariant& variant) {
  if (program.num_variants == 1) return "";
  if (variant.num_conditions == 0) return "all other sizes";
  std::string text;
  for (const ToroidCondition& condition : rows(variant.conditions, variant.num_conditions))
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", condition.symbol, condition.value);
  return text;
}

std::string steps_text(const ToroidVariant& variant) {
  const int others = variant.num_steps - variant.num_library_calls - variant.num_kernel_steps;
  const std::string together = variant.num_kernel_calls > variant.num_kernel_steps
                                   ? fmt::format(" ({} kernels, some started together)", variant.num_kernel_calls)
                                   : "";
  return fmt::format("{} steps: {} library calls, {} of generated kernels{}{}", variant.num_steps, variant.num_library_calls,
                     variant.num_kernel_steps, together,
                     others > 0 ? fmt::format(", {} of control flow or of sizes that are read", others) : "");
}

void print_interface(std::FILE* to, const ToroidProgram& program, size_t most_outputs) {
  const ToroidVariant& general = general_variant(program);
  const ToroidContract& contract = general.contract;
  for (const ToroidInputInfo& input : rows(contract.inputs, contract.num_inputs))
    fmt::print(to, "  input    {}: {}\n", input.name, input.type);
  const std::span<const ToroidOutputInfo> outputs = rows(general.outputs, general.num_outputs);
  size_t returned = 0, updated = 0;
  for (const ToroidOutputInfo& output : outputs) {
    if (!is_returned(output)) continue;
    if (returned < most_outputs) fmt::print(to, "  output   {}\n", output_text(output, returned));
    ++returned;
  }
  for (const ToroidOutputInfo& output : outputs) {
    if (is_returned(output)) continue;
    if (updated++ < most_outputs) fmt::print(to, "  updates  {}\n", output.target);
  }
  const auto more = [&](size_t count) { return count - std::min(count, most_outputs); };
  if (more(returned) + more(updated) > 0) fmt::print(to, "  and {} more outputs and updates\n", more(returned) + more(updated));
  for (const ToroidDefinition& size : rows(contract.definitions, contract.num_definitions)) {
    const ToroidSymbol& symbol = contract.symbols[size.symbol];
    const bool is_itself = std::string_view(size.form) == symbol.name;
    fmt::print(to, "  size     {} {} {}.{}, {}\n", symbol.name, is_itself ? "=" : "follows from", contract.inputs[size.input].name,
               size.dim, range_text(symbol));
  }
  if (program.num_variants == 1) return;
  for (const ToroidVariant& variant : rows(program.variants, program.num_variants))
    fmt::print(to, "  variant  {}: {}\n", variant_text(program, variant), steps_text(variant));
}

nlohmann::ordered_json interface_json(const ToroidProgram& program) {
  const ToroidVariant& general = general_variant(program);
  const ToroidContract& contract = general.contract;
  using Json = nlohmann::ordered_json;
  Json json = {{"inputs", Json::array()}, {"outputs", Json::array()}, {"updates", Json::array()}, {"sizes", Json::array()}};
  for (const ToroidInputInfo& input : rows(contract.inputs, contract.num_inputs))
    json["inputs"].push_back({{"name", input.name}, {"type", input.type}});
  for (const ToroidOutputInfo& output : rows(general.outputs, general.num_outputs)) {
    if (is_returned(output)) {
      json["outputs"].push_back(
          {{"file_name", fmt::format("out{}", json["outputs"].size())}, {"name", output.name}, {"type", output.type}});
    } else {
      json["updates"].push_back(output.target);
    }
  }
  for (const ToroidDefinition& size : rows(contract.definitions, contract.num_definitions)) {
    const ToroidSymbol& symbol = contract.symbols[size.symbol];
    json["sizes"].push_back(
        {{"symbol", symbol.name}, {"input", contract.inputs[size.input].name}, {"dim", size.dim}, {"least", symbol.least}});
    if (symbol.most != std::numeric_limits<int64_t>::max()) json["sizes"].back()["most"] = symbol.most;
  }
  return json;
}

}  // namespace toroid::cli
