// toroid cache stats|explain|verify|gc|clear|export|import
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cache/remote.h"
#include "cache/store.h"
#include "cache/transfer.h"
#include "command.h"
#include "driver/compile.h"
#include "driver/graph_cache.h"
#include "flags.h"
#include "support/file.h"

namespace toroid::cli {
namespace {

using Json = nlohmann::ordered_json;

void print(const Json& json) { fmt::print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace)); }

// "1.5 MB": three digits.
std::string bytes_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return fmt::format("{:.{}f} {}", value, unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2, kUnits[unit]);
}

// "redis://host:6379, read only", "" when there is none, or why it cannot be used.
std::string remote_text() {
  try {
    const std::optional<RemoteOptions> options = remote_options_from_environment();
    return options ? options->address.shown + (options->read_only ? ", read only" : "") : "";
  } catch (const Error& error) {
    return "not used: " + error.message();
  }
}

// A store that can be used, or why not.
Store open_store() {
  Store store;
  if (!store.is_open()) throw Error(ErrorKind::Environment, "the cache cannot be opened").help("'toroid doctor' says what is wrong with it");
  return store;
}

int stats(bool as_json) {
  Store store = open_store();
  const StoreStats stats = store.stats();
  const std::map<std::string, int64_t> counters = store.counters();
  const std::string remote = remote_text();
  if (as_json) {
    Json json = {{"file", store.file().string()}, {"remote", remote}, {"entries", stats.entries}, {"bytes", stats.bytes}, {"limit_bytes", stats.limit_bytes},
                 {"hits", stats.lifetime.hits}, {"misses", stats.lifetime.misses}, {"corrupt", stats.lifetime.corrupt},
                 {"evicted", stats.lifetime.evicted}, {"write_errors", stats.lifetime.write_errors}};
    for (const auto& [kind, each] : stats.kinds) json["kinds"][kind] = {{"entries", each.entries}, {"bytes", each.bytes}};
    for (const auto& [name, value] : counters) json["counters"][name] = value;
    print(json);
    return 0;
  }
  fmt::print("{}\n  {} entries, {} of {}\n", store.file().string(), stats.entries, bytes_text(stats.bytes), bytes_text(stats.limit_bytes));
  for (const auto& [kind, each] : stats.kinds) fmt::print("    {:<10} {:6}  {:>8}\n", kind, each.entries, bytes_text(each.bytes));
  fmt::print("  {} hits, {} misses, {} damaged, {} evicted, {} not written\n", stats.lifetime.hits, stats.lifetime.misses, stats.lifetime.corrupt,
             stats.lifetime.evicted, stats.lifetime.write_errors);
  if (!remote.empty()) fmt::print("  remote cache: {}\n", remote);
  for (const auto& [name, value] : counters) fmt::print("  {}: {}\n", name, value);
  return 0;
}

// One key against the store: what is there, or the nearest entry and how it differs.
Json explain_key(Store& store, const CacheKey& key, bool is_hit) {
  Json json = {{"key", key.hex}, {"result", is_hit ? "hit" : "miss"}, {"parts", Json::object()}};
  std::string_view rest = key.parts;
  for (size_t line = 0; !rest.empty(); ++line) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    const size_t colon = text.find(": ");
    if (line > 0 && colon != text.npos) json["parts"][std::string(text.substr(0, colon))] = std::string(text.substr(colon + 2));
  }
  if (is_hit) return json;
  const std::optional<std::string> nearest = store.nearest_parts(key);
  json["differs"] = Json::array();
  if (!nearest) return json;
  for (const std::string& label : differing_labels(key.parts, *nearest)) {
    json["differs"].push_back({{"part", label}, {"here", part_text(key.parts, label).value_or("")}, {"nearest", part_text(*nearest, label).value_or("")}});
  }
  return json;
}

void print_explanation(std::string_view name, const Json& json) {
  fmt::print("{:<11} {}  {}\n", name, json["result"].get<std::string>(), json["key"].get<std::string>());
  if (json["result"] == "hit") return;
  if (json["differs"].empty()) {
    fmt::print("  there is no entry of this kind\n");
    return;
  }
  fmt::print("  the nearest entry differs in\n");
  for (const Json& each : json["differs"]) {
    const std::string part = each["part"], here = each["here"], nearest = each["nearest"];
    fmt::print("    {}\n      here     {}\n      nearest  {}\n", part, here.substr(0, 300), nearest.substr(0, 300));
  }
}

int explain(const std::string& model, bool as_json) {
  CompileSession session;
  Store& store = session.cache().store();
  const GraphKeyParts parts;
  const MappedFile file(model);
  GraphCache cache(session.cache());
  const CacheKey by_file = model_key(file.bytes(), parts, session.toolchain());
  const Program program = CompileSession::import(model);
  const CacheKey by_graph = graph_key(program, parts, session.toolchain());
  const Json json = {{"model file", explain_key(store, by_file, cache.find(by_file).has_value())},
                     {"graph", explain_key(store, by_graph, cache.find(by_graph, program).has_value())}};
  if (as_json) {
    print(json);
    return 0;
  }
  for (const auto& [name, each] : json.items()) print_explanation(name, each);
  return 0;
}

int report(bool as_json, const char* name, uint64_t count, const std::string& sentence) {
  if (as_json)
    print({{name, count}});
  else
    fmt::print("{}\n", sentence);
  return 0;
}

}  // namespace

int cmd_cache(int argc, const char* const* argv) {
  Flags flags("cache", "Looks at and tends the cache of compiled programs.");
  flags.require_subcommand(1);
  bool as_json = false;
  auto command = [&](const char* name, const char* what) {
    CLI::App* app = flags.add_subcommand(name, what);
    app->add_flag("--json", as_json, "print JSON");
    return app;
  };
  std::string model, path, size;
  CLI::App* const stats_command = command("stats", "what is in it, and what it saved");
  CLI::App* const explain_command = command("explain", "why a model would be a hit or a miss: the nearest entry, and the parts that differ");
  explain_command->add_option("MODEL", model, "a .pt2 file")->required();
  CLI::App* const verify_command = command("verify", "check every entry; damaged ones are removed");
  CLI::App* const gc_command = command("gc", "remove the least recently used entries beyond a size");
  gc_command->add_option("--to", size, "as in 500M (default: the cache's limit)");
  CLI::App* const clear_command = command("clear", "remove every entry");
  CLI::App* const export_command = command("export", "write the entries to a file, for images and other machines");
  export_command->add_option("FILE", path, "the file to write")->required();
  CLI::App* const import_command = command("import", "add the entries of such a file; import only files that you would run");
  import_command->add_option("FILE", path, "the file to read")->required();
  if (const auto status = flags.read(argc, argv)) return *status;

  if (stats_command->parsed()) return stats(as_json);
  if (explain_command->parsed()) return explain(model, as_json);
  Store store = open_store();
  if (verify_command->parsed()) {
    const uint64_t entries = store.stats().entries, damaged = store.verify();
    return report(as_json, "damaged", damaged, fmt::format("{} entries checked, {} damaged and removed", entries, damaged));
  }
  if (gc_command->parsed()) {
    const uint64_t removed = store.shrink_to(size.empty() ? store.stats().limit_bytes : parse_byte_size(size));
    return report(as_json, "removed", removed, fmt::format("{} entries removed, {} left", removed, bytes_text(store.stats().bytes)));
  }
  if (clear_command->parsed()) {
    const uint64_t entries = store.stats().entries;
    store.clear();
    return report(as_json, "removed", entries, fmt::format("{} entries removed", entries));
  }
  if (export_command->parsed()) {
    check_writable(path);
    const uint64_t entries = export_entries(store, path);
    return report(as_json, "exported", entries, fmt::format("{} entries written to {}", entries, path));
  }
  if (import_command->parsed()) {
    const uint64_t entries = import_entries(store, path);
    return report(as_json, "imported", entries, fmt::format("{} entries added", entries));
  }
  return 2;
}

}  // namespace toroid::cli
