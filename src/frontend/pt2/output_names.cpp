// A tree is [1, node]; a node is {"type": T, "context": C, "children_spec": [node, …]}, a leaf has the type null. What the children are
// called follows from the context, a string of JSON in most types:
//
//   dict, OrderedDict, transformers' outputs   "[\"logits\", \"past\"]"            keys, one a child
//   dataclass                                  "[[\"loss\"], [\"extra\"]]"         fields, and those that were None
//   defaultdict                                {"dict_context": ["logits"], …}
//   namedtuple                                 "NAME": fields in treespec_namedtuple_fields
//   tuple, list, all others                    "null": positions
#include "frontend/pt2/output_names.h"

#include <set>

#include <fmt/format.h>

namespace toroid::pt2 {
namespace {

// What a terminal can show: no control characters, and not endlessly many.
std::string plain(std::string_view text) {
  constexpr size_t kMostBytes = 500;
  std::string result(text.substr(0, kMostBytes));
  while (result.size() < text.size() && !result.empty() && (text[result.size()] & 0xc0) == 0x80)
    result.pop_back();  // no half of a character
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '_';
  }
  return result;
}

class TreeReader {
 public:
  explicit TreeReader(const JsonValue* namedtuples) : namedtuples_(namedtuples) {}

  void read(const JsonValue& node, const std::string& path, int depth) {
    if (node.at("type").is_null()) {
      names.push_back(path);
      return;
    }
    const std::span<const JsonValue> children = node.at("children_spec").elements();
    std::vector<std::string> keys = keys_of(node.at("type").as_string(), node.at("context"));
    if (keys.size() != children.size()) keys.clear();
    is_flat_sequence = is_flat_sequence && depth == 0 && keys.empty();
    for (size_t i = 0; i < children.size(); ++i) {
      const std::string key = keys.empty() ? std::to_string(i) : plain(keys[i]);
      read(children[i], path.empty() ? key : path + "." + key, depth + 1);
    }
  }

  std::vector<std::string> names;
  bool is_flat_sequence = true;

 private:
  // Scalars as text; of a list whose first element is a list, that one's. Nothing for anything else.
  static std::vector<std::string> texts(const JsonValue& list) {
    if (list.kind() != JsonValue::Kind::Array) return {};
    std::vector<std::string> result;
    for (const JsonValue& key : list.elements()) {
      switch (key.kind()) {
        case JsonValue::Kind::Array: return texts(key);
        case JsonValue::Kind::String: result.emplace_back(key.as_string()); break;
        case JsonValue::Kind::Integer: result.push_back(std::to_string(key.as_integer())); break;
        case JsonValue::Kind::Bool: result.emplace_back(key.as_bool() ? "True" : "False"); break;
        default: return {};
      }
    }
    return result;
  }

  std::vector<std::string> keys_of(std::string_view type, const JsonValue& context) const {
    if (context.kind() == JsonValue::Kind::Object) {
      const JsonValue* const keys = context.find("dict_context");
      return keys ? texts(*keys) : std::vector<std::string>();
    }
    if (context.kind() != JsonValue::Kind::String) return {};
    if (type == "collections.namedtuple") {
      const JsonValue* const fields = namedtuples_ ? namedtuples_->find(context.as_string()) : nullptr;
      return fields ? texts(fields->at("field_names")) : std::vector<std::string>();
    }
    try {
      return texts(parse_json(context.as_string(), "a context").root());
    } catch (const Error&) {  // a type with a context of its own kind
      return {};
    }
  }

  const JsonValue* namedtuples_;
};

void make_unique(std::vector<std::string>& names) {
  std::set<std::string> taken(names.begin(), names.end()), seen;
  for (std::string& name : names) {
    if (seen.insert(name).second) continue;
    std::string other;
    for (int n = 2; other.empty() || taken.contains(other); ++n) other = fmt::format("{}_{}", name, n);
    taken.insert(other);
    seen.insert(other);
    name = other;
  }
}

}  // namespace

std::vector<std::string> output_names(const JsonValue& graph_module, size_t leaves) {
  const std::vector<std::string> none(leaves);
  try {
    const JsonValue* const calls = graph_module.find_value("module_call_graph");
    if (calls == nullptr || calls->elements().empty()) return none;
    const JsonValue* const signature = calls->elements()[0].find_value("signature");
    if (signature == nullptr) return none;
    const JsonDocument tree = parse_json(signature->at("out_spec").as_string(), "out_spec");
    const std::span<const JsonValue> versioned = tree.root().elements();
    if (versioned.size() != 2 || versioned[0].as_integer() != 1) return none;
    TreeReader reader(graph_module.find_value("treespec_namedtuple_fields"));
    reader.read(versioned[1], "", 0);
    if (reader.is_flat_sequence || reader.names.size() != leaves) return none;
    make_unique(reader.names);
    return std::move(reader.names);
  } catch (const Error&) {  // names are for people: the program is the same without them
    return none;
  }
}

}  // namespace toroid::pt2
