// The text form of lowered graphs: the program, then the loops of each of its graphs. It reads back as it was.
//
//   graph(x: f32[8, 64], w: f32[64, 128], b: f32[128]) { … }
//   loops {
//     buffer x: f32[8, 64] = input 0
//     …
//     axes i14 in 8, i15 in 128
//     matmul from 1: call y_t_1 = matmul() on x[8, 64], w[64, 128]
//     add from 2: map y[i14, i15] = add(y_t_1[i14, i15], b[i15])
//     sum from 3: reduce s[i14] = fine sum over r0 of y[i14, r0]
//     cumsum from 4: scan c[i16, i17] = sum along 1 of y[i16, i17]
//     index_add from 5: scatter d = base add [v0, i19] over i18, i19 of y[i18, i19]
//     item: bind u0 = n
//   }
//   loops of subgraph 0 { … }
//
// The graph is what was lowered, as graph/text/text.h says: the loops take from it the types of inputs, constants and outputs, and sizes. A
// computation is
// its name, the operators of the model that it comes from, and what it does (loop/loop.h). loop/text.h has the rest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lower/lower.h"

namespace toroid {

std::string loops_text(const Program& program, const std::vector<LoweredGraph>& graphs);
// The loops alone of one graph, each line behind "  ".
std::string computations_text(const LoweredGraph& graph);

struct LoweredProgram {
  Program program;
  std::vector<LoweredGraph> graphs;
};
// Throws Error{InvalidModel} that starts with line:column, where the text is malformed or breaks a rule of the loops. External constants
// have no
// bytes.
LoweredProgram parse_loops(std::string_view text);

// How buffers and the graph's inputs, constants and outputs belong together. `program` has the graph as its main one or as a subgraph.
// Throws
// Error{InvalidModel}.
std::vector<OutputBinding> verified_outputs(const Program& program, const Graph& graph, const loop::LoopProgram& loops);

}  // namespace toroid
