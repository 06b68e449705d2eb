// The compiled-graph cache: finds a whole compiled program by what it was made from.
//
// Two keys lead to an entry. The *model key* hashes the model file's bytes: on a hit the file is mapped and the program runs;
// nothing is parsed. The *graph key* hashes the imported program's structure: its text without provenance, hints and names of
// itself. Named floats, which training changes and no pass reads, are in it by reference (kind, dtype, sizes, which share memory), so a
// model trained anew, or exported again from another place, hits; integers, conditions and literals are in it by value, each a part of its
// own. Both hold everything else that decides a byte of the result: toroid's own code, the compiler, flags, instruction set, options.
//
// Under a graph key there may be several entries, since a compiler may assume more of the sizes than the program says. Each entry
// carries those guards; a lookup takes the first whose guards all hold for the hints of the caller's sizes. The guards are part of
// the entry's manifest and so of every later call.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "driver/compiled_graph.h"
#include "graph/custom/custom_operators.h"
#include "graph/graph.h"
#include "passes/specialise.h"
#include "schedule/schedule.h"
#include "toolchain/toolchain.h"

namespace toroid {

// What decides the result beside the program.
struct GraphKeyParts {
  bool optimise = true;
  std::vector<std::string> without_passes = {};
  bool profile = false;
  bool assertions = false;
  CompileOptions compiler = {};
  std::vector<SizeValues> variants = {};
  schedule::Forms forms = schedule::Forms::Measured;
  std::string target = {};   // of a GPU: its architecture and what compiles for it; empty: a processor
  std::string choices = {};  // how library kernels' implementations are chosen; empty: when they are called
  std::vector<std::string> process_groups = {};
};

// What a model's key has of custom operators: their files, and what compiles them. "" without any.
std::string operators_part(const CustomOperators& operators);
// `operators`: operators_part.
CacheKey model_key(std::span<const std::byte> file, const std::string& operators, const GraphKeyParts& parts, const Toolchain& tools);
CacheKey graph_key(const Program& imported, const GraphKeyParts& parts, const Toolchain& tools);
// The library's own key: the store finds it by this when only the graph differs.
CacheKey library_key(const std::vector<std::string>& units, const CompileOptions& compiler, const Toolchain& tools,
                     const std::string& target = {});
// The key of one unit's object, for processes that share the compilers' work. `target`: of a GPU's binary, what it is made for and by.
CacheKey object_key(std::string_view unit, const CompileOptions& compiler, const Toolchain& tools, const std::string& target = {});

class GraphCache {
 public:
  explicit GraphCache(Cache& cache) : cache_(cache) {}

  struct Found {
    CompiledGraph graph;
    std::string library;
  };
  // By model key.
  std::optional<Found> find(const CacheKey& model);
  // By graph key. `program`: whose symbols' hints the entries' guards are evaluated with; a guard over a size without a hint does
  // not hold.
  std::optional<Found> find(const CacheKey& graph, const Program& program);

  // What the lifetime counters are told: a hit saved so much time; a bypass has its reason in its name.
  void count_hit(const CompiledGraph& graph);
  void count_miss() { cache_.store().count("graph misses"); }
  void count_bypass(std::string_view reason) { cache_.store().count("graph bypasses: " + std::string(reason)); }

  void put_library(const CacheKey& key, std::string_view library) { cache_.put(key, library); }
  void put(const CacheKey& model, const CompiledGraph& graph) { cache_.put(model, to_bytes(graph)); }
  // Beside the entries with other guards that are there already, here and in the remote tier. Call it while the key's lease is
  // held.
  void put_alternative(const CacheKey& key, const CompiledGraph& graph);

 private:
  std::optional<Found> load(std::string_view bytes);
  std::vector<std::string> alternatives(const CacheKey& key, Tier tier);

  Cache& cache_;
};

}  // namespace toroid
