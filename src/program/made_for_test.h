// For tests: a program in text form as a module.
#pragma once

#include <string_view>

#include "graph/text/text.h"
#include "passes/pipeline.h"
#include "program/module.h"

namespace toroid::program {

struct Made {
  toroid::Program program;
  std::vector<schedule::ScheduledGraph> graphs;
  Module module;
};
inline Made made(std::string_view text, const ModuleOptions& options = {}) {
  Made result{parse_text(text), {}, {}};
  run_passes(result.program);
  result.graphs = schedule::schedule_graphs(lower(result.program));
  result.module = make_module(result.graphs, result.program, options);
  return result;
}

}  // namespace toroid::program
