// The text form of scheduled graphs: the program, then the steps of each of its graphs. It reads back as it was.
//
//   graph(x: f32[4, 1000]) { … }
//   schedule {
//     buffer x: f32[4, 1000] = input 0
//     buffer y: f32[4, 1000] = output 0
//     axes i0 in 4, r0 in 1000
//     kernel softmax from 1 {
//       outer i0
//       inner r0
//       vector inner
//       form persistent 1.5 or 2.25
//       acc0 max f32 from 1
//       acc1 fine sum f32
//       stash0 f32
//       reads x
//       writes y
//       stage inner turns 4 {
//         acc0 = x[1000*i0 + r0]
//       }
//       stage inner blocks 2048 vectors {
//         fetch near x[1000*i0 + r0 + 1000]
//         stash0 = exp(sub(x[1000*i0 + r0], acc0))
//         acc1 = exp(sub(x[1000*i0 + r0], acc0))
//       }
//       stage inner {
//         store y[1000*i0 + r0] = mul(stash0, reciprocal(acc1))
//       }
//     }
//   }
//   schedule of subgraph 0 { … }
//
// A kernel's lines stand in this order, those left out that say nothing; schedule.h has what they mean:
//
//   outer, inner     its axes, slowest first            vector       inner or outer
//   tile             an axis, and the loads that are turned in cache; `and fetched` if the next tile is prefetched
//   streaming        buffers stored around the caches   product      of an epilogue: the load that finds its value; or two
//   form             with the estimates of both         unfused      never contracted with what uses it
//   accN             reduction, dtype, origin           stashN       dtype
//   stage            once or inner; turns, rows, blocks
//   finish, or       kernels that run after it, and the same kernel in its other form
//
// `once` before a step: it runs once, over constants. Other steps: `scan`, `scatter`, `call` with its epilogue and, of a GPU's own kernel,
// its `tiles`, `bind`, `chain` and `together`. Loads have one
// index, the position in elements. How long a buffer lives follows from the steps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/scheduled_graph.h"

namespace toroid::schedule {

std::string schedule_text(const Program& program, const std::vector<ScheduledGraph>& graphs);

struct ScheduledProgram {
  Program program;
  std::vector<ScheduledGraph> graphs;
};
// The loops that a schedule was made of are not in its text, so the programs of loops have buffers and expressions only. Throws
// Error{InvalidModel} that
// starts with line:column, where the text is malformed or breaks a rule of the schedules. External constants have no bytes.
ScheduledProgram parse_schedule(std::string_view text);
// The same of a text that goes on behind the schedules: `end` is set to the place behind them.
ScheduledProgram parse_schedule_prefix(std::string_view text, size_t& end);

}  // namespace toroid::schedule
