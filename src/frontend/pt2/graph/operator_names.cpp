#include "frontend/pt2/graph/operator_names.h"

#include <fmt/format.h>

#include "base/error.h"
#include "frontend/pt2/arguments.h"
#include "frontend/pt2/provenance.h"
#include "frontend/pt2/triton_node.h"
#include "graph/custom/custom_operators.h"

namespace toroid::pt2 {

std::string operator_name(std::string_view target) {
  if (!target.starts_with(kTorchOps)) return std::string(target);
  target.remove_prefix(kTorchOps.size());
  const size_t dot = target.find('.');
  if (dot == target.npos) return std::string(target);
  std::string_view op = target.substr(dot + 1);
  constexpr std::string_view kDefault = ".default";
  if (op.ends_with(kDefault)) op.remove_suffix(kDefault.size());
  return fmt::format("{}::{}", target.substr(0, dot), op);
}

std::string_view name_of_node(const JsonValue& node) {
  const JsonValue* name = node.find_value("name");
  return name ? name->as_string() : std::string_view("?");
}

std::string value_name(std::string_view name) {
  constexpr size_t kMaxBytes = 80;
  std::string identifier;
  for (char c : name.substr(0, kMaxBytes)) {
    const bool is_plain = c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    identifier += is_plain ? c : '_';
  }
  if (!identifier.empty() && identifier[0] >= '0' && identifier[0] <= '9') identifier.insert(0, 1, '_');
  return identifier;
}

std::string effect_of(const JsonValue& node) {
  const JsonValue& argument = node.at("inputs").elements()[1].at("arg");
  if (read_union(argument).key != "as_operator") argument.fail("expected an operator");
  return operator_name(read_union(argument).value.as_string());
}

bool has_only_symbolic_outputs(const JsonValue& node) {
  const std::span<const JsonValue> outputs = node.at("outputs").elements();
  return !outputs.empty() &&
         std::all_of(outputs.begin(), outputs.end(), [](const JsonValue& output) { return is_symbolic(read_union(output).key); });
}

const Schema* known_schema(std::string_view op, const Pt2Options& options) {
  if (const Schema* schema = find_schema(op)) return schema;
  const CustomOperator* custom = options.operators != nullptr ? options.operators->find(op) : nullptr;
  return custom == nullptr ? nullptr : &custom->schema;
}

bool is_supported(const Schema& schema, const Pt2Options& options) {
  if (options.operators != nullptr && options.operators->of(schema) != nullptr) return true;
  return !options.is_supported || options.is_supported(schema);
}

void count_operators(const JsonValue& graph, OperatorCounter& counter) {
  for (const JsonValue& node : graph.at("nodes").elements()) {
    for (const JsonValue& input : node.at("inputs").elements()) {
      const JsonMember& argument = read_union(input.at("arg"));
      if (argument.key == "as_graph") count_operators(argument.value.at("graph"), counter);
    }
    std::string op = operator_name(node.at("target").as_string());
    if (has_only_symbolic_outputs(node) && !contains(kReadsElement, op)) continue;
    if (op == std::string(kHigherOrder) + std::string(kWithEffects) && node.at("inputs").elements().size() >= 2) op = effect_of(node);
    if (op == std::string(kHigherOrder) + std::string(kFunctionalized) && !node.at("inputs").elements().empty()) {
      const JsonMember& functionalized = read_union(node.at("inputs").elements()[0].at("arg"));
      if (functionalized.key == "as_operator") op = operator_name(functionalized.value.as_string());
    }
    if (op == std::string(kHigherOrder) + std::string(kTritonKernel)) op = triton_operator(node);
    bool is_control_flow = contains(kTransforms, op);
    if (op.starts_with(kHigherOrder)) {
      const std::string_view name = std::string_view(op).substr(kHigherOrder.size());
      is_control_flow = contains(kControlFlow, name) || name == kGradientRegion || name == kAutocastRegion;
    }
    counter.add(read_provenance(op, name_of_node(node), node.find_value("metadata")), is_control_flow || find_schema(op));
  }
}

std::vector<OperatorUse> missing_operators(const JsonValue& graph, const Pt2Options& options) {
  OperatorCounter counter;
  try {
    count_operators(graph, counter);
  } catch (const Error&) {  // damaged: what was wrong first is said
    return {};
  }
  std::vector<OperatorUse> missing;
  try {
    for (const OperatorUse& use : counter.uses()) {
      const Schema* const schema = known_schema(use.op, options);
      const bool is_missing = (!use.is_known && schema == nullptr) || (schema != nullptr && !is_supported(*schema, options));
      if (is_missing) missing.push_back(use);
    }
  } catch (const Error&) {  // the file of a custom operator is at fault
    return {};
  }
  return missing;
}

}  // namespace toroid::pt2
