#include "explain/explain_cache.h"

#include <fmt/format.h>

#include "cache/key.h"

namespace toroid::cli {
namespace {

using Json = nlohmann::ordered_json;

// Of a part in a message.
constexpr size_t kShownCharacters = 300;

// What a part stands for, where its name and its digest do not say it.
std::string_view meaning_of(std::string_view part) {
  constexpr std::pair<std::string_view, std::string_view> kMeanings[] = {
      {"file", "the bytes of the model file: weights, and what PyTorch notes beside them"},
      {"program", "operators, their arguments, shapes and order, names of inputs and results, or values of small constants"},
      {"constants", "which weights share memory, or the values of integer constants"},
      {"toroid", "another build of toroid made that entry"},
      {"compiler bytes", "another compiler, or another release of it"}};
  for (const auto& [name, meaning] : kMeanings) {
    if (part == name) return meaning;
  }
  return part.starts_with("source") ? "the generated C++" : "";
}

}  // namespace

Json explanation(const CacheLookup& lookup) {
  const CacheKey& key = lookup.key;
  Json json = {{"key", key.hex}, {"result", lookup.is_hit ? "hit" : "miss"}, {"parts", Json::object()}};
  std::string_view rest = key.parts;
  for (size_t line = 0; !rest.empty(); ++line) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    const size_t colon = text.find(": ");
    if (line > 0 && colon != text.npos) json["parts"][std::string(text.substr(0, colon))] = std::string(text.substr(colon + 2));
  }
  if (lookup.is_hit) return json;
  json["differs"] = Json::array();
  if (!lookup.nearest) return json;
  for (const std::string& label : differing_labels(key.parts, *lookup.nearest)) {
    json["differs"].push_back(
        {{"part", label}, {"here", part_text(key.parts, label).value_or("")}, {"nearest", part_text(*lookup.nearest, label).value_or("")}});
  }
  return json;
}

void print_explanation(std::FILE* out, const CacheLookup& lookup) {
  const Json json = explanation(lookup);
  fmt::print(out, "{:<11} {}  {}\n", lookup.what, json["result"].get<std::string>(), lookup.key.hex);
  if (lookup.is_hit) return;
  if (json["differs"].empty()) {
    fmt::print(out, "  there is no entry of this kind\n");
    return;
  }
  fmt::print(out, "  the nearest entry differs in\n");
  for (const Json& each : json["differs"]) {
    const std::string part = each["part"], here = each["here"], nearest = each["nearest"];
    const std::string_view meaning = meaning_of(part);
    fmt::print(out, "    {}{}{}\n      here     {}\n      nearest  {}\n", part, meaning.empty() ? "" : ": ", meaning,
               here.substr(0, kShownCharacters), nearest.substr(0, kShownCharacters));
  }
}

}  // namespace toroid::cli
