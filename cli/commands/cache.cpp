// toroid cache stats|explain|verify|gc|clear|export|import
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/file/file.h"
#include "base/file/mapped_file.h"
#include "cache/base.h"
#include "cache/remote/remote.h"
#include "cache/store.h"
#include "cache/transfer.h"
#include "command.h"
#include "driver/compile.h"
#include "driver/graph_cache.h"
#include "explain/explain_cache.h"
#include "flags/flags.h"
#include "graph/custom/custom_operators.h"
#include "json_text.h"
#include "support/files/cache_folder.h"
#include "support/files/embedded_files.h"
#include "support/text/byte_size.h"

namespace toroid::cli {
namespace {

using Json = nlohmann::ordered_json;

void print(const Json& json) { fmt::print("{}\n", json_text(json)); }

// "redis://host:6379, read only", "" when there is none, or why it cannot be used.
std::string remote_text() {
  try {
    const std::optional<RemoteOptions> options = remote_options_from_environment();
    return options ? options->address.shown + (options->read_only ? ", read only" : "") : "";
  } catch (const Error& error) {
    return "not used: " + error.message();
  }
}

// What is in the read-only base, or why it cannot be used; null when there is none.
Json base_json() {
  const std::optional<std::filesystem::path> file = base_from_environment();
  if (!file) return nullptr;
  Json json = {{"file", file->string()}};
  try {
    const BaseContents contents = ReadOnlyBase(*file).contents();
    json["entries"] = contents.entries;
    json["bytes"] = contents.bytes;
    for (const auto& [kind, each] : contents.kinds) json["kinds"][kind] = {{"entries", each.entries}, {"bytes", each.bytes}};
  } catch (const Error& error) {
    json["problem"] = error.message();
  }
  return json;
}

// A store that can be used, or why not.
Store open_store() {
  Store store;
  if (!store.is_open()) {
    throw Error(ErrorKind::Environment, "the cache cannot be opened").help("'toroid doctor' says what is wrong with it");
  }
  return store;
}

int stats(bool as_json) {
  Store store = open_store();
  const StoreStats stats = store.stats();
  const std::map<std::string, int64_t> counters = store.counters();
  const std::string remote = remote_text();
  const Json base = base_json();
  if (as_json) {
    Json json = {{"file", store.file().string()},
                 {"base", base},
                 {"remote", remote},
                 {"entries", stats.entries},
                 {"bytes", stats.bytes},
                 {"limit_bytes", stats.limit_bytes},
                 {"hits", stats.lifetime.hits},
                 {"misses", stats.lifetime.misses},
                 {"corrupt", stats.lifetime.corrupt},
                 {"evicted", stats.lifetime.evicted},
                 {"write_errors", stats.lifetime.write_errors}};
    for (const auto& [kind, each] : stats.kinds) json["kinds"][kind] = {{"entries", each.entries}, {"bytes", each.bytes}};
    for (const auto& [name, value] : counters) json["counters"][name] = value;
    print(json);
    return 0;
  }
  fmt::print("{}\n  {} entries, {} of {}\n", store.file().string(), stats.entries, byte_size_text(stats.bytes),
             byte_size_text(stats.limit_bytes));
  for (const auto& [kind, each] : stats.kinds) fmt::print("    {:<10} {:6}  {:>8}\n", kind, each.entries, byte_size_text(each.bytes));
  const auto counter = [&](const std::string& name) {
    const auto found = counters.find(name);
    return found == counters.end() ? 0 : found->second;
  };
  fmt::print("  programs: {} taken from the cache, {} compiled\n", counter("graph hits"), counter("graph misses"));
  fmt::print("  this store: {} of {} questions answered, several for each program; {} entries damaged, {} evicted, {} not written\n",
             stats.lifetime.hits, stats.lifetime.hits + stats.lifetime.misses, stats.lifetime.corrupt, stats.lifetime.evicted,
             stats.lifetime.write_errors);
  if (base.contains("problem")) {
    fmt::print("  read-only base: not used: {}\n", base["problem"].get<std::string>());
  } else if (!base.is_null()) {
    fmt::print("  read-only base: {}, {} entries, {}\n", base["file"].get<std::string>(), base["entries"].get<uint64_t>(),
               byte_size_text(base["bytes"].get<uint64_t>()));
  }
  if (!remote.empty()) fmt::print("  remote cache: {}\n", remote);
  for (const auto& [name, value] : counters) fmt::print("  {}: {}\n", name, value);
  return 0;
}

int explain(const std::string& model, bool as_json) {
  CompileSession session;
  Store& store = session.cache().store();
  CompileModelOptions of_package;
  of_package.package.emplace();
  const GraphKeyParts parts = key_parts(of_package);
  const MappedFile file(model);
  GraphCache cache(session.cache());
  CacheLookup by_file{"model file",
                      model_key(file.bytes(), operators_part(*find_operators(model, of_package)), parts, session.toolchain())};
  by_file.is_hit = cache.find(by_file.key).has_value();
  const Program program = CompileSession::import(model);
  CacheLookup by_graph{"graph", graph_key(program, parts, session.toolchain())};
  by_graph.is_hit = cache.find(by_graph.key, program).has_value();
  Json json;
  for (CacheLookup* lookup : {&by_file, &by_graph}) {
    if (!lookup->is_hit) lookup->nearest = store.nearest_parts(lookup->key);
    if (as_json)
      json[std::string(lookup->what)] = explanation(*lookup);
    else
      print_explanation(stdout, *lookup);
  }
  if (as_json) print(json);
  return 0;
}

int report_count(bool as_json, const char* name, uint64_t count, const std::string& sentence) {
  if (as_json)
    print({{name, count}});
  else
    fmt::print("{}\n", sentence);
  return 0;
}

}  // namespace

int cmd_cache(int argc, const char* const* argv) {
  Flags flags("toroid cache", "Looks at and tends the cache of compiled programs.");
  bool as_json = false;
  auto command = [&](const char* name, const char* what) -> Flags& {
    Flags& command = flags.add_command(name, what);
    command.add_flag("--json", as_json, "print JSON");
    return command;
  };
  std::string model, path, size, kind;
  Flags& stats_command = command("stats", "what is in it, and what it saved");
  Flags& explain_command =
      command("explain", "why compiling a model with -o would be a hit or a miss: the nearest entry, and the parts that differ");
  explain_command.add_option("MODEL", model, "a .pt2 file").required();
  Flags& verify_command = command("verify", "check every entry; damaged ones are removed");
  Flags& gc_command = command("gc", "remove the least recently used entries beyond a size");
  gc_command.add_option("--to", size, "as in 500M (default: the cache's limit)");
  Flags& clear_command = command("clear", "remove every entry");
  Flags& export_command = command("export", "write the entries to a file, for images and other machines");
  export_command.add_option("FILE", path, "the file to write").required();
  export_command.add_option("--kind", kind, "of one kind alone, as in tuning ('toroid cache stats' lists the kinds)");
  Flags& import_command = command("import", "add the entries of such a file; import only files that you would run");
  import_command.add_option("FILE", path, "the file to read").required();
  if (const auto status = flags.read(argc, argv)) return *status;

  if (stats_command.is_given()) return stats(as_json);
  if (explain_command.is_given()) return explain(model, as_json);
  Store store = open_store();
  if (verify_command.is_given()) {
    const uint64_t entries = store.stats().entries, damaged = store.verify();
    const std::optional<std::filesystem::path> base = base_from_environment();
    const uint64_t damaged_in_base = base ? ReadOnlyBase(*base).verify() : 0;
    if (as_json) {
      print({{"damaged", damaged}, {"damaged in the base", damaged_in_base}});
    } else {
      fmt::print("{} entries checked, {} damaged and removed\n", entries, damaged);
      if (damaged_in_base != 0) {
        fmt::print("{} entries of the read-only base {} are damaged: write it anew\n", damaged_in_base, base->string());
      }
    }
    return 0;
  }
  if (gc_command.is_given()) {
    const uint64_t removed = store.shrink_to(size.empty() ? store.stats().limit_bytes : parse_byte_size(size));
    return report_count(as_json, "removed", removed,
                        fmt::format("{} entries removed, {} left", removed, byte_size_text(store.stats().bytes)));
  }
  if (clear_command.is_given()) {
    const uint64_t entries = store.stats().entries;
    store.clear();
    remove_unpacked(default_cache_folder());
    return report_count(as_json, "removed", entries, fmt::format("{} entries removed", entries));
  }
  if (export_command.is_given()) {
    check_writable(path);
    const uint64_t entries = export_entries(store, path, kind);
    return report_count(as_json, "exported", entries, fmt::format("{} entries written to {}", entries, path));
  }
  if (import_command.is_given()) {
    const uint64_t entries = import_entries(store, path);
    return report_count(as_json, "imported", entries, fmt::format("{} entries added", entries));
  }
  return 2;
}

}  // namespace toroid::cli
