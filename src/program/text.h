// The text form of modules: the program, its schedules, then what a call does. It reads back as it was.
//
//   graph(x: f32[s0, 128], w: f32[64, 128]) { … }
//   schedule { … }
//   schedule of subgraph 0 { … }
//   program {
//     symbols s0
//     constants 2, 0
//     prepared 4096 bytes
//     temporary 0: h, steps 0 to 1
//     output 0: [s0, 64]
//     kernel 0: step 1
//     kernel 1: step 0 of subgraph 0
//     function main(s0) {
//       place x: cpu input 0
//       place h: cpu arena 0
//       step 0 linear from 1 "linear (aten::linear) in 0 (Linear)" {
//         call matmul at 0 of free sizes on x[s0, 128], w[128, 64] strides [1, 128] constant -> h[s0, 64]
//       }
//       step 1 relu {
//         launch 0: tasks s0, work 64, least 16384
//       }
//     }
//     function subgraph 0(s0) { … }
//   }
//
// Lines stand in this order, those left out that say nothing; module.h has what they mean:
//
//   assertions, long     what the whole module is
//   constants            by their numbers in the program
//   temporary            of the arena: a buffer, and how long it lives
//   output               its sizes; `late` where the call's shapes do not tell them; `in place` where it may be written over the constant
//                        that it updates
//   kernel               where the schedules have it: `once` of a step that runs once, `part 1` of a step that has several
//   place                the device of a buffer; then input, output, constant or arena with its number, prepared with an offset in bytes,
//                        `random state` or `allocated`
//   step                 its name, the origin that uses all its others, what an error says of it, whether it is beside others or marked
//                        (beside.h, lanes.h), and the branch that it is on
//     work               of a step that is timed
//     time step
//     allocate           `h[512*s0]`, a number of elements; `y[u0, 4] = output 0`
//     launch             a kernel with its tasks, the work of each, and the least work that is worth a thread
//     together, quickest launches, in braces
//     call, chain        `choice` one of the kernel's implementations, `at` its site, `on` operands `->` results; then integers, numbers,
//                        and the number of the epilogue's kernel or post-operations, whose places are buffer[offset, step from row to row]
//     read               a number
//     cond, while_loop, scan, map_impl, associative_scan
//     release
//   at end               outputs that no step writes
//
// Kernels and what library calls compute stand in the schedule; operands and sizes are written out here, and must be those of the schedule.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "program/module.h"

namespace toroid::program {

std::string module_text(const toroid::Program& program, const std::vector<schedule::ScheduledGraph>& graphs, const Module& module);
// The last part alone: "program { … }".
std::string to_string(const Module& module, const std::vector<schedule::ScheduledGraph>& graphs);

struct ParsedModule {
  toroid::Program program;
  std::vector<schedule::ScheduledGraph> graphs;
  Module module;
};
// Throws Error{InvalidModel} that starts with line:column, where the text is malformed or breaks a rule of the modules (verify.h). External
// constants have no bytes.
ParsedModule parse_module(std::string_view text);

}  // namespace toroid::program
