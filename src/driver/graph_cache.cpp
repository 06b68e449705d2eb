// The entry under a graph key is a list of alternatives, each a sized text (base/file/framing.h) with the bytes of a CompiledGraph.
#include "driver/graph_cache.h"

#include <map>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/framing.h"
#include "base/machine/processors.h"
#include "cache/code_identity.h"
#include "driver/halide_objects.h"
#include "driver/triton_binaries.h"
#include "graph/builder.h"
#include "graph/custom/custom_operators.h"
#include "graph/text/constant_text.h"
#include "graph/text/text.h"
#include "support/hash.h"
#include "support/log.h"
#include "support/process/thread_pool.h"

namespace toroid {
namespace {

constexpr int kModelKeyVersion = 2;
constexpr int kGraphKeyVersion = 2;
constexpr int kLibraryKeyVersion = 2;
constexpr int kObjectKeyVersion = 1;
constexpr size_t kMostAlternatives = 16;

void add_tools(KeyBuilder& key, const CompileOptions& compiler, const Toolchain& tools) {
  key.add("flags", tools.flags(compiler))
      .add("compiler", tools.compiler().version)
      .add("compiler bytes", tools.compiler().fingerprint)
      .add("environment", tools.environment())
      .add("isa", tools.isa().name());
}

void add_common(KeyBuilder& key, const GraphKeyParts& parts, const Toolchain& tools) {
  std::map<std::string, std::string> options = {{"optimise", parts.optimise ? "yes" : "no"}, {"profile", parts.profile ? "yes" : "no"}};
  if (parts.assertions) options["assertions"] = "yes";
  for (const std::string& pass : parts.without_passes) options["without pass " + pass] = "yes";
  if (parts.forms != schedule::Forms::Measured) options["forms"] = schedule::to_string(parts.forms);
  if (!parts.choices.empty()) options["choices"] = parts.choices;
  if (!parts.target.empty()) options["target"] = parts.target;
  for (const std::string& group : parts.process_groups) options["process group " + group] = "yes";
  for (size_t i = 0; i < parts.variants.size(); ++i) {
    std::string sizes;
    for (const auto& [name, value] : parts.variants[i]) sizes += fmt::format("{}={},", name, value);
    options[fmt::format("variant {}", i)] = sizes;
  }
  key.add("options", options).add("toroid", code_identity());
  add_tools(key, parts.compiler, tools);
}

constexpr int64_t kSmallElements = 16;

// What training changes no pass reads: floats and complex numbers with a name, and the bytes of quantised weights. Passes read integers of
// 32 and 64 bits, as lists of positions are, and conditions, but no counter such as num_batches_tracked.
bool counts_by_value(const ConstantData& data) {
  if (data.name.empty()) return true;
  const DType dtype = data.type.dtype;
  return (dtype == DType::I64 || dtype == DType::I32 || dtype == DType::Bool) && !(data.is_buffer && data.type.sizes.empty());
}

// Kinds, names and types, and which constants are one memory; the values that count are parts of their own, so that a miss can name them.
void add_constants(KeyBuilder& key, const Program& program) {
  std::string text;
  std::map<std::pair<const std::byte*, size_t>, size_t> first;
  for (size_t i = 0; i < program.constants.size(); ++i) {
    const ConstantData& data = program.constants[i];
    const size_t same = first.try_emplace({data.bytes.data(), data.bytes.size()}, i).first->second;
    text += fmt::format("{} \"{}\": {}", data.is_buffer ? "buffer" : "constant", data.name, to_string(data.type));
    text += same == i ? "\n" : fmt::format(" = {}\n", same);
    if (!counts_by_value(data)) continue;  // whatever it shares: the same bytes may count as integers and not as floats
    const bool is_small = static_cast<int64_t>(data.bytes.size()) <= kSmallElements * size_bytes(data.type.dtype);
    key.add(fmt::format("constant {}", i),
            fmt::format("{} {} = {}", data.name, to_string(data.type), is_small ? elements_to_text(data) : sha256(data.bytes).hex()));
  }
  key.add("constants", text);
}

// The files of the custom operators that the program uses.
void add_operators(KeyBuilder& key, const Program& program) {
  if (program.operators == nullptr) return;
  for (const auto& [name, op] : program.operators->all()) {
    key.add_source("custom operator " + op->file, op->text);
    if (program.operators->takes_triton(*op)) key.add("compiler of " + op->file, triton_part(true));
    for (const CustomKernel& kernel : op->kernels) {
      if (kernel.kind == CustomKernel::Kind::Library) key.add("library of " + op->file, kernel.library.string() + " " + kernel.digest);
    }
  }
}

// The SHA-256 of those of its pieces, which several threads take: one thread reads no more than 2 GB a second.
std::string hash_of_pieces(std::span<const std::byte> bytes) {
  constexpr size_t kPiece = size_t{4} << 20, kMostThreads = 16;
  std::vector<Digest> digests((bytes.size() + kPiece - 1) / kPiece);
  const auto take = [&](size_t i) { digests[i] = sha256(bytes.subspan(i * kPiece, std::min(kPiece, bytes.size() - i * kPiece))); };
  if (digests.size() < 2) {
    for (size_t i = 0; i < digests.size(); ++i) take(i);
  } else {
    ThreadPool(std::min({digests.size(), static_cast<size_t>(usable_processors()), kMostThreads})).parallel_for(digests.size(), take);
  }
  return sha256(std::as_bytes(std::span(digests))).hex();
}

bool holds(const std::string& guard, const Program& program) {
  try {
    const sym::Expr expr = sym::parse(guard, *program.symbols, [&](std::string_view name) -> sym::Expr {
      const std::optional<sym::Expr> symbol = program.symbols->find_symbol(name);
      if (!symbol) throw Error(ErrorKind::InvalidInput, "no such size");
      return *symbol;
    });
    return sym::evaluate(expr, [](sym::Expr symbol) { return symbol.node()->hint; }) != 0;
  } catch (const Error&) {
    return false;
  }
}

// An entry of the first alternative and those of the others whose guards differ from all before.
std::string joined(const std::string& first, const std::vector<std::vector<std::string>>& others) {
  std::string bytes;
  std::set<std::vector<std::string>> guards;
  auto append = [&](const std::string& each) {
    try {
      if (guards.size() == kMostAlternatives || !guards.insert(parse_compiled_graph(each).guards).second) return;
    } catch (const Error&) {
      return;  // a damaged one need not be kept
    }
    append_sized(bytes, each);
  };
  append(first);
  for (const std::vector<std::string>& list : others) {
    for (const std::string& each : list) append(each);
  }
  return bytes;
}

}  // namespace

std::string operators_part(const CustomOperators& operators) {
  return operators.fingerprint() + triton_part(operators.may_take_triton()) + halide_part(operators.may_take_halide());
}

CacheKey model_key(std::span<const std::byte> file, const std::string& operators, const GraphKeyParts& parts, const Toolchain& tools) {
  KeyBuilder key("model", kModelKeyVersion);
  key.add("file", hash_of_pieces(file));
  if (!operators.empty()) key.add("custom operators", operators);
  add_common(key, parts, tools);
  return key.finish();
}

CacheKey graph_key(const Program& imported, const GraphKeyParts& parts, const Toolchain& tools) {
  KeyBuilder key("graph", kGraphKeyVersion);
  key.add_source("program", to_text(imported, {.hints = false, .name = false, .constants = false}));
  add_constants(key, imported);
  add_operators(key, imported);
  key.add("call tree", imported.call_tree);
  for (const auto& [name, ranks] : imported.process_groups) key.add("process group " + name, fmt::format("{}", fmt::join(ranks, ",")));
  add_common(key, parts, tools);
  return key.finish();
}

CacheKey library_key(const std::vector<std::string>& units, const CompileOptions& compiler, const Toolchain& tools,
                     const std::string& target) {
  KeyBuilder key("library", kLibraryKeyVersion);
  for (size_t i = 0; i < units.size(); ++i) key.add_source(fmt::format("source {}", i), units[i]);
  if (!target.empty()) key.add("target", target);
  add_tools(key, compiler, tools);
  return key.finish();
}

CacheKey object_key(std::string_view unit, const CompileOptions& compiler, const Toolchain& tools, const std::string& target) {
  KeyBuilder key("object", kObjectKeyVersion);
  key.add_source("source", unit);
  if (!target.empty()) key.add("target", target);
  add_tools(key, compiler, tools);
  return key.finish();
}

std::optional<GraphCache::Found> GraphCache::load(std::string_view bytes) {
  try {
    Found found;
    found.graph = parse_compiled_graph(bytes);
    std::optional<std::string> library = cache_.get({.kind = "library", .hex = found.graph.library_key, .parts = ""});
    if (!library) return std::nullopt;
    found.library = std::move(*library);
    return found;
  } catch (const Error& error) {
    log_warn("{}; compiling again", error.message());
    return std::nullopt;
  }
}

std::optional<GraphCache::Found> GraphCache::find(const CacheKey& model) {
  const std::optional<std::string> bytes = cache_.get(model);
  return bytes ? load(*bytes) : std::nullopt;
}

std::vector<std::string> GraphCache::alternatives(const CacheKey& key, Tier tier) {
  std::vector<std::string> all;
  const std::optional<std::string> bytes = cache_.get(key, tier);
  std::string_view rest = bytes ? std::string_view(*bytes) : std::string_view();
  while (const std::optional<std::string_view> each = take_sized(rest)) all.emplace_back(*each);
  return all;
}

std::optional<GraphCache::Found> GraphCache::find(const CacheKey& graph, const Program& program) {
  std::vector<std::string> local;
  for (const Tier tier : {Tier::Local, Tier::Base, Tier::Remote}) {
    std::vector<std::string> all = alternatives(graph, tier);
    for (const std::string& bytes : all) {
      std::optional<Found> found = load(bytes);
      if (!found) continue;
      const std::vector<std::string>& guards = found->graph.guards;
      if (!std::all_of(guards.begin(), guards.end(), [&](const std::string& guard) { return holds(guard, program); })) continue;
      if (tier == Tier::Remote) cache_.keep(graph, joined(bytes, {std::move(local), std::move(all)}));
      return found;
    }
    if (tier == Tier::Local) local = std::move(all);
  }
  return std::nullopt;
}

void GraphCache::count_hit(const CompiledGraph& graph) {
  cache_.store().count("graph hits");
  cache_.store().count("milliseconds saved", static_cast<int64_t>(graph.seconds * 1e3));
}

void GraphCache::put_alternative(const CacheKey& key, const CompiledGraph& graph) {
  cache_.put(key, joined(to_bytes(graph), {alternatives(key, Tier::Local), alternatives(key, Tier::Remote)}));
}

}  // namespace toroid
