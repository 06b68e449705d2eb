// toroid opt FILE --passes=decompose,dead-code, or --passes=all: runs chosen passes over a program and prints the result.
//
// Graph passes print the text form, which is again an input. The last pass may be one that leaves the graph: loops,
// schedule, program, code or c print what the compiler would make of it. The first three of these are inputs too.
#include <algorithm>
#include <iostream>
#include <iterator>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "base/machine/machine.h"
#include "base/text_cursor.h"
#include "build_flags.h"
#include "codegen/c/print_c.h"
#include "codegen/wrapper/generate.h"
#include "command.h"
#include "driver/compile.h"
#include "driver/pipeline/pass_costs.h"
#include "flags/flags.h"
#include "graph/custom/custom_operators.h"
#include "graph/text/text.h"
#include "lower/text.h"
#include "passes/pipeline.h"
#include "program/text.h"
#include "schedule/planner.h"
#include "schedule/text/text.h"

namespace toroid::cli {
namespace {

// A program at the level at hand, and what led there.
struct Compilation {
  std::string_view level = "graph";
  Program program;
  std::vector<LoweredGraph> loops = {};
  std::vector<schedule::ScheduledGraph> schedule = {};
  program::Module module = {};
};

void require_core_operations(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    const auto* aten = std::get_if<Aten>(&node.op);
    if (aten == nullptr) continue;
    throw Error(ErrorKind::InvalidOption, fmt::format("loops are made of core operations, and '{}' is none", aten->schema->name))
        .help("put decompose before it, as in --passes=decompose,loops, or all, as in --passes=all,code");
  }
}

void to_loops(Compilation& it) {
  if (it.level != "graph") return;
  require_core_operations(it.program.graph);
  for (const Graph& subgraph : it.program.subgraphs) require_core_operations(subgraph);
  it.loops = lower(it.program);
  it.level = "loops";
}
void to_schedule(Compilation& it) {
  if (it.level == "schedule") return;
  to_loops(it);
  it.schedule = schedule::schedule_graphs(std::move(it.loops), true, nullptr, forms_of({}));
  it.level = "schedule";
}
void to_program(Compilation& it) {
  if (it.level == "program") return;
  to_schedule(it);
  it.module = program::make_module(it.schedule, it.program);
  it.level = "program";
}
std::string print_loops(Compilation& it) {
  to_loops(it);
  return loops_text(it.program, it.loops);
}
std::string print_schedule(Compilation& it) {
  to_schedule(it);
  return schedule::schedule_text(it.program, it.schedule);
}
std::string print_program(Compilation& it) {
  to_program(it);
  return program::module_text(it.program, it.schedule, it.module);
}
std::string print_code(Compilation& it) {
  to_program(it);
  std::string text;
  const auto generated = codegen::generate(std::move(it.module), it.schedule, it.program);
  for (const auto& kernel : generated.kernels) text += kernel.text + "\n";
  return text;
}
std::string print_plain_c(Compilation& it) {
  to_loops(it);
  const auto scheduled =
      schedule::schedule_graphs(std::move(it.loops), true, nullptr, schedule::Forms::Estimated, schedule::plain_planner());
  return codegen::print_c(program::make_module(scheduled, it.program), scheduled, it.program, "program");
}

// Stands for the whole list in --passes.
constexpr std::string_view kAllPasses = "all";

struct LastPass {
  std::string_view name;
  std::string_view summary;
  std::string (*print)(Compilation& it);
  std::string_view from;  // the last level that it is made of
};
constexpr LastPass kLastPasses[] = {
    {"loops", "print the loop IR", print_loops, "loops"},
    {"schedule", "print the kernels and their stages", print_schedule, "schedule"},
    {"program", "print where buffers are, and the instructions of each step", print_program, "program"},
    {"code", "print the generated kernels", print_code, "program"},
    {"c", "print the program as one file of plain C", print_plain_c, "loops"},
};

// The levels that a text may hold, from the first.
constexpr std::string_view kLevels[] = {"graph", "loops", "schedule", "program"};
bool is_behind(std::string_view level, std::string_view other) {
  return std::find(std::begin(kLevels), std::end(kLevels), level) > std::find(std::begin(kLevels), std::end(kLevels), other);
}

std::string pass_list() {
  std::string text = fmt::format("{} (those of a compilation), {}", kAllPasses, pass_names());
  for (const LastPass& pass : kLastPasses) text += fmt::format(", {}", pass.name);
  return text;
}

// A text of any level: what stands behind the graph says which.
Compilation read_text(const std::string& text, std::shared_ptr<CustomOperators> operators) {
  size_t end = 0;
  Program program = parse_text_prefix(text, end, {}, std::move(operators));
  Cursor rest(text);
  rest.move_to(end);
  if (rest.at_end()) return {.program = std::move(program)};
  if (rest.next_word() == "schedule") {
    schedule::ScheduledProgram scheduled = schedule::parse_schedule_prefix(text, end);
    rest.move_to(end);
    if (rest.at_end()) return {.level = "schedule", .program = std::move(scheduled.program), .schedule = std::move(scheduled.graphs)};
    program::ParsedModule parsed = program::parse_module(text);
    return {
        .level = "program", .program = std::move(parsed.program), .schedule = std::move(parsed.graphs), .module = std::move(parsed.module)};
  }
  LoweredProgram lowered = parse_loops(text);
  return {.level = "loops", .program = std::move(lowered.program), .loops = std::move(lowered.graphs)};
}

Compilation read_program(const std::string& path, const CompileModelOptions& options) {
  if (path == "-") return read_text(std::string(std::istreambuf_iterator<char>(std::cin), {}), find_operators(path, options));
  if (std::filesystem::path(path).extension() == ".pt2") return {.program = CompileSession::import(path, options)};
  ErrorContext context("reading {}", path);
  return read_text(read_file(path), find_operators(path, options));
}

}  // namespace

int cmd_opt(int argc, const char* const* argv) {
  std::string path;
  std::vector<std::string> wanted;
  CompileModelOptions how;
  PassOptions options = {.costs = pass_costs()};
  options.costs.byte_convolutions = byte_convolutions(machine().isa);
  options.costs.sums_elements = true;
  Flags flags("toroid opt", "Runs chosen passes over a program, from its text form or a .pt2 file, and prints the result.");
  flags.add_option("FILE", path, "a text form, a .pt2 file, or - for standard input").required();
  flags.add_option("--passes", wanted, "in order: " + pass_list()).splits_at(',');
  flags.add_option("--without-pass", options.without, "leave out a pass of 'all'; may be repeated: " + optional_pass_names());
  add_operators_flag(flags, how);
  if (const auto status = flags.read(argc, argv)) return *status;
  check_left_out(options.without);

  Compilation it = read_program(path, how);
  const auto needs_graph = [&](std::string_view pass) {
    if (it.level == "graph") return;
    throw Error(ErrorKind::InvalidOption, fmt::format("'{}' is a pass over graphs, and {} holds the {}", pass, path, it.level))
        .help("give it the text of a graph, or leave the pass out");
  };
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == kAllPasses) {
      needs_graph(wanted[i]);
      run_passes(it.program, options);
      continue;
    }
    const auto graph_pass = std::find_if(passes().begin(), passes().end(), [&](const Pass& p) { return p.name == wanted[i]; });
    if (graph_pass != passes().end()) {
      needs_graph(wanted[i]);
      run_pass(*graph_pass, it.program, options);
      continue;
    }
    const auto last = std::find_if(std::begin(kLastPasses), std::end(kLastPasses), [&](const LastPass& p) { return p.name == wanted[i]; });
    if (last == std::end(kLastPasses)) {
      throw Error(ErrorKind::InvalidOption, fmt::format("there is no pass '{}'", wanted[i])).help("passes: " + pass_list());
    }
    if (i + 1 != wanted.size()) {
      throw Error(ErrorKind::InvalidOption, fmt::format("'{}' leaves the graph, so no pass can follow it", wanted[i])).help("put it last");
    }
    if (is_behind(it.level, last->from)) {
      throw Error(ErrorKind::InvalidOption, fmt::format("'{}' is made of {}, and {} holds the {}", wanted[i], last->from, path, it.level))
          .help("give it the text of an earlier level");
    }
    fmt::print("{}", last->print(it));
    return 0;
  }
  if (it.level == "loops") {
    fmt::print("{}", print_loops(it));
  } else if (it.level == "schedule") {
    fmt::print("{}", print_schedule(it));
  } else if (it.level == "program") {
    fmt::print("{}", print_program(it));
  } else {
    fmt::print("{}", to_text(it.program, {.provenance = true}));
  }
  return 0;
}

}  // namespace toroid::cli
