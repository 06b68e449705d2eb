#include "parsers.h"

#include "base/error.h"
#include "base/file/file.h"
#include "cache/remote/action_result.h"
#include "cache/remote/seal.h"
#include "cache/transfer.h"
#include "driver/compiled_graph.h"
#include "frontend/json_reader.h"
#include "frontend/pt2/pt2_for_test.h"
#include "frontend/safetensors.h"
#include "graph/custom/custom_operator.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "lower/text.h"
#include "passes/decompose/engine/decompose.h"
#include "program/text.h"
#include "runtime/program/safetensors_weights.h"
#include "schedule/text/text.h"

namespace toroid::parsers {
namespace {

std::span<const std::byte> as_bytes(std::string_view bytes) { return std::as_bytes(std::span(bytes)); }

void import_bytes(const std::string& archive) { import_pt2(as_bytes(archive), nullptr, "fuzz.pt2", {.is_supported = is_supported}); }

constexpr Parser kParsers[] = {
    // The model inside a sound archive: a checksum would stop nearly every change of the archive itself.
    {"pt2",
     [](std::string_view bytes) {
       Pt2ForTest model;
       model.model_json = bytes;
       import_bytes(model.zip().build());
     }},
    {"zip", [](std::string_view bytes) { import_bytes(std::string(bytes)); }},
    {"json", [](std::string_view bytes) { parse_json(bytes, "fuzz.json"); }},
    {"text",
     [](std::string_view bytes) {
       const Program program = parse_text(bytes);
       const std::string text = to_text(program);
       if (to_text(parse_text(text)) != text) internal_error(__FILE__, __LINE__, "printed text reads back as it was", "{}", text);
     }},
    {"loops",
     [](std::string_view bytes) {
       const LoweredProgram read = parse_loops(bytes);
       const std::string text = loops_text(read.program, read.graphs);
       const LoweredProgram again = parse_loops(text);
       if (loops_text(again.program, again.graphs) != text)
         internal_error(__FILE__, __LINE__, "printed loops read back as they were", "{}", text);
     }},
    {"schedule",
     [](std::string_view bytes) {
       const schedule::ScheduledProgram read = schedule::parse_schedule(bytes);
       const std::string text = schedule_text(read.program, read.graphs);
       const schedule::ScheduledProgram again = schedule::parse_schedule(text);
       if (schedule_text(again.program, again.graphs) != text) {
         internal_error(__FILE__, __LINE__, "a printed schedule reads back as it was", "{}", text);
       }
     }},
    {"program",
     [](std::string_view bytes) {
       const program::ParsedModule read = program::parse_module(bytes);
       const std::string text = module_text(read.program, read.graphs, read.module);
       const program::ParsedModule again = program::parse_module(text);
       if (module_text(again.program, again.graphs, again.module) != text) {
         internal_error(__FILE__, __LINE__, "a printed program reads back as it was", "{}", text);
       }
     }},
    {"operator", [](std::string_view bytes) { read_custom_operator(std::string(bytes), "fuzz.op"); }},
    {"safetensors", [](std::string_view bytes) { parse_safetensors(as_bytes(bytes), nullptr, "fuzz.safetensors"); }},
    // What packages read it by.
    {"weights", [](std::string_view bytes) { parse_weights(bytes); }},
    {"sympy",
     [](std::string_view bytes) {
       sym::Context context;
       sym::to_string(sym::parse(bytes, context, [&](std::string_view name) { return context.symbol(name, sym::SymbolKind::Size); }));
     }},
    {"graph_entry",
     [](std::string_view bytes) {
       const CompiledGraph graph = parse_compiled_graph(bytes);
       find_constants(graph, {}, as_bytes(bytes), nullptr);
     }},
    {"cache_export",
     [](std::string_view bytes) {
       static const TempFolder folder;
       static Store store({.enabled = false});
       write_file_atomically(folder.path() / "export", bytes);
       import_entries(store, folder.path() / "export");
     }},
    {"remote_entry",
     [](std::string_view bytes) {
       const std::optional<BlobName> blob = parse_action_result(bytes);
       if (blob && parse_action_result(action_result(*blob)) != blob)
         internal_error(__FILE__, __LINE__, "what is written reads back as it was", "{}", blob->hash);
       unseal({"library", std::string(64, 'a'), ""}, bytes, "for tests");
     }},
};

}  // namespace

std::span<const Parser> all() { return kParsers; }

void feed(const Parser& parser, std::string_view bytes) {
  try {
    parser.parse(bytes);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Internal) throw;
  }
}

}  // namespace toroid::parsers
