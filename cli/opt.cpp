// toroid opt FILE --passes=decompose,dead-code, or --passes=all: runs chosen passes over a program and prints the result.
//
// Graph passes print the text form, which is again an input. The last pass may be one that leaves the graph: loops,
// schedule, program, code or c print what the compiler would make of it.
#include <algorithm>
#include <iostream>
#include <iterator>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "codegen/c/print_c.h"
#include "codegen/wrapper/generate.h"
#include "command.h"
#include "driver/compile.h"
#include "driver/pass_costs.h"
#include "flags.h"
#include "graph/text.h"
#include "lower/lower.h"
#include "passes/pipeline.h"
#include "schedule/planner.h"

namespace toroid::cli {
namespace {

std::string print_loops(Program& program) { return to_string(lower(program)); }
std::vector<schedule::ScheduledGraph> scheduled(const Program& program) {
  return schedule::schedule_graphs(lower(program), true, nullptr, forms_of({}));
}
std::string print_schedule(Program& program) { return to_string(scheduled(program)); }
std::string print_program(Program& program) {
  const std::vector<schedule::ScheduledGraph> graphs = scheduled(program);
  return to_string(program::make_module(graphs, program), graphs);
}
std::string print_code(Program& program) {
  std::string text;
  const auto generated = codegen::generate(scheduled(program), program);
  for (const auto& kernel : generated.kernels) text += kernel.text + "\n";
  return text;
}
std::string print_plain_c(Program& program) {
  const auto scheduled = schedule::schedule_graphs(lower(program), true, nullptr, schedule::Forms::Estimated, schedule::plain_planner());
  return codegen::print_c(program::make_module(scheduled, program), scheduled, program, "program");
}

// Stands for the whole list in --passes.
constexpr std::string_view kAllPasses = "all";

struct LastPass {
  std::string_view name;
  std::string_view summary;
  std::string (*print)(Program& program);
};
constexpr LastPass kLastPasses[] = {
    {"loops", "print the loop IR", print_loops},
    {"schedule", "print the kernels and their stages", print_schedule},
    {"program", "print where buffers are, and the instructions of each step", print_program},
    {"code", "print the generated kernels", print_code},
    {"c", "print the program as one file of plain C", print_plain_c},
};

std::string pass_list() {
  std::string text = fmt::format("{} (those of a compilation), {}", kAllPasses, pass_names());
  for (const LastPass& pass : kLastPasses) text += fmt::format(", {}", pass.name);
  return text;
}

Program read_program(const std::string& path) {
  if (path == "-") return parse_text(std::string(std::istreambuf_iterator<char>(std::cin), {}));
  if (std::filesystem::path(path).extension() == ".pt2") return CompileSession::import(path);
  ErrorContext context("reading {}", path);
  return parse_text(read_file(path));
}

}  // namespace

int cmd_opt(int argc, const char* const* argv) {
  std::string path;
  std::vector<std::string> wanted;
  PassOptions options = {.costs = pass_costs()};
  Flags flags("opt", "Runs chosen passes over a program, from its text form or a .pt2 file, and prints the result.");
  flags.add_option("FILE", path, "a text form, a .pt2 file, or - for standard input").required();
  flags.add_option("--passes", wanted, "in order: " + pass_list()).splits_at(',');
  flags.add_option("--without-pass", options.without, "leave out a pass of 'all'; may be repeated: " + optional_pass_names());
  if (const auto status = flags.read(argc, argv)) return *status;
  check_left_out(options.without);

  Program program = read_program(path);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == kAllPasses) {
      run_passes(program, options);
      continue;
    }
    const auto graph_pass = std::find_if(passes().begin(), passes().end(), [&](const Pass& p) { return p.name == wanted[i]; });
    if (graph_pass != passes().end()) {
      run_pass(*graph_pass, program, options);
      continue;
    }
    const auto last = std::find_if(std::begin(kLastPasses), std::end(kLastPasses), [&](const LastPass& p) { return p.name == wanted[i]; });
    if (last == std::end(kLastPasses)) {
      throw Error(ErrorKind::InvalidOption, fmt::format("there is no pass '{}'", wanted[i])).help("passes: " + pass_list());
    }
    if (i + 1 != wanted.size()) {
      throw Error(ErrorKind::InvalidOption, fmt::format("'{}' leaves the graph, so no pass can follow it", wanted[i])).help("put it last");
    }
    fmt::print("{}", last->print(program));
    return 0;
  }
  fmt::print("{}", to_text(program, {.provenance = true}));
  return 0;
}

}  // namespace toroid::cli
