#include "frontend/pt2/call_tree.h"

#include <nlohmann/json.hpp>

namespace toroid::pt2 {
namespace {

using Json = nlohmann::json;

Json copy(const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::Null: return nullptr;
    case JsonValue::Kind::Bool: return value.as_bool();
    case JsonValue::Kind::Integer: return value.as_integer();
    case JsonValue::Kind::Real: return value.as_real();
    case JsonValue::Kind::String: return std::string(value.as_string());
    case JsonValue::Kind::Array: {
      Json result = Json::array();
      for (const JsonValue& each : value.elements()) result.push_back(copy(each));
      return result;
    }
    case JsonValue::Kind::Object: {
      Json result = Json::object();
      for (const JsonMember& each : value.members()) result[std::string(each.key)] = copy(each.value);
      return result;
    }
  }
  return nullptr;
}

const JsonMember& only_member(const JsonValue& value) {
  if (value.members().size() != 1) value.fail("expected an object with one member");
  return value.members()[0];
}

// As GraphImporter::import_user_input takes it: is it a tensor, or a number that may change?
bool is_input_of_program(const JsonMember& argument) {
  if (argument.key == "as_tensor") return true;
  return (argument.key == "as_sym_int" || argument.key == "as_sym_float") && only_member(argument.value).key == "as_name";
}

Json input_leaves(const JsonValue& specs, const JsonValue& inputs) {
  Json leaves = Json::array();
  int64_t number = 0;
  for (size_t i = 0; i < specs.elements().size(); ++i) {
    const JsonMember& spec = only_member(specs.elements()[i]);
    if (spec.key == "constant_input") leaves.push_back(copy(spec.value.at("value")));
    if (spec.key != "user_input") continue;
    const JsonValue& input = inputs.elements()[i];
    if (is_input_of_program(only_member(input))) {
      leaves.push_back(number++);
    } else {
      leaves.push_back(copy(input));
    }
  }
  return leaves;
}

Json output_leaves(const JsonValue& specs, const JsonValue& outputs) {
  Json leaves = Json::array();
  int64_t number = 0;
  for (size_t i = 0; i < specs.elements().size(); ++i) {
    const JsonMember& spec = only_member(specs.elements()[i]);
    if (spec.key != "user_output" && spec.key != "loss_output") continue;
    const std::string_view kind = only_member(outputs.elements()[i]).key;
    if (kind == "as_none") {
      leaves.push_back(nullptr);
    } else if (kind == "as_tensor") {
      leaves.push_back(number++);
    } else {
      leaves.push_back({{"number", number++}});
    }
  }
  return leaves;
}

}  // namespace

std::string call_tree(const JsonValue& graph_module, const JsonValue& graph) try {
  constexpr size_t kMostBytes = size_t{1} << 20;
  const JsonValue* const calls = graph_module.find_value("module_call_graph");
  if (calls == nullptr || calls->elements().empty()) return "";
  const JsonValue* const call = calls->elements()[0].find_value("signature");
  if (call == nullptr || call->find_value("in_spec") == nullptr || call->find_value("out_spec") == nullptr) return "";
  const JsonValue& signature = graph_module.at("signature");
  Json result = {{"in_spec", copy(call->at("in_spec"))},
                 {"out_spec", copy(call->at("out_spec"))},
                 {"inputs", input_leaves(signature.at("input_specs"), graph.at("inputs"))},
                 {"outputs", output_leaves(signature.at("output_specs"), graph.at("outputs"))}};
  if (const JsonValue* names = call->find_value("forward_arg_names")) result["names"] = copy(*names);
  if (const JsonValue* fields = graph_module.find_value("treespec_namedtuple_fields"); fields != nullptr && !fields->members().empty())
    result["namedtuples"] = copy(*fields);
  std::string text = result.dump();
  return text.size() <= kMostBytes ? text : "";
} catch (const Error&) {
  return "";
}

}  // namespace toroid::pt2
