// Which collective operations run beside kernels or on lanes, what waits for them, how long their memory stays theirs, and that a text
// which says otherwise is refused.
#include "program/streams/beside.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "program/made_for_test.h"
#include "program/streams/lanes.h"
#include "program/streams/received_in_place.h"
#include "program/text.h"
#include "runtime/memory/arena.h"
#include "schedule/cuda/launches/accesses.h"
#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::program {
namespace {

Made for_gpu(std::string_view text, bool profile = false) {
  schedule::Scheduled scheduled = schedule::scheduled(text, schedule::cuda_planner(schedule::TensorCores::Hopper));
  Made result{std::move(scheduled.program), {}, {}};
  result.graphs.push_back({std::move(scheduled.schedule), std::move(scheduled.outputs)});
  result.module = make_module(result.graphs, result.program, {.device = Device::Cuda, .profile = profile});
  return result;
}

// A letter for each step: c of a collective operation, C of one beside others, k of a kernel, m of a marked one, and before one that waits
// for how many.
std::string steps_of(const Made& made) {
  std::string text;
  for (const Step& step : made.module.main.steps) {
    if (step.awaits > 0) text += fmt::format("{}", step.awaits);
    const bool is_call = !step.instructions.empty() && std::holds_alternative<LibraryCall>(step.instructions.back());
    text += step.is_beside ? 'C' : step.is_marked ? 'm' : is_call ? 'c' : 'k';
  }
  return text;
}

// Two halves of a batch, of which the first goes on.
constexpr std::string_view kHalves = R"(
graph(x: f32[64, 512], y: f32[64, 512]) {
  a: f32[64, 512] = aten::softmax.int(x, 1)
  b: f32[64, 512] = _c10d_functional::all_reduce(a, "sum", "0")
  c: f32[64, 512] = aten::softmax.int(y, 1)
  d: f32[64, 512] = _c10d_functional::all_reduce(c, "sum", "0")
  e: f32[64, 512] = aten::softmax.int(b, 1)
  f: f32[64, 512] = _c10d_functional::all_reduce(e, "sum", "0")
  g: f32[64, 512] = aten::softmax.int(d, 1)
  return f, g
})";

TEST(Beside, IsWhatKernelsDoNotWaitFor) {
  const Made halves = for_gpu(kHalves);
  EXPECT_EQ(steps_of(halves), "kCkC1kC2k") << module_text(halves.program, halves.graphs, halves.module);
  EXPECT_EQ(fault_of_beside(halves.graphs, halves.module), std::nullopt);
  // One behind the other.
  EXPECT_EQ(steps_of(for_gpu(R"(
graph(x: f32[64, 512]) {
  a: f32[64, 512] = _c10d_functional::all_reduce(x, "sum", "0")
  b: f32[64, 512] = _c10d_functional::all_reduce(a, "sum", "0")
  c: f32[64, 512] = aten::softmax.int(b, 1)
  return c
})")),
            "cck");
  EXPECT_EQ(steps_of(for_gpu(kHalves, true)).find('C'), std::string::npos) << "steps are timed one by one";
}

// Kernels of both halves are neither one kernel nor one launch: the first would wait for the second's operation.
TEST(Beside, NothingIsFusedOverAnOperation) {
  const Made alike = for_gpu(R"(
graph(x: f32[64, 512], w: f32[64, 512]) {
  a: f32[64, 512] = _c10d_functional::all_reduce(x, "sum", "0")
  b: f32[64, 512] = aten::mul.Tensor(x, w)
  c: f32[64, 512] = _c10d_functional::all_reduce(b, "sum", "0")
  d: f32[64, 512] = aten::mul.Tensor(a, w)
  e: f32[64, 512] = _c10d_functional::all_reduce(d, "sum", "0")
  f: f32[64, 512] = aten::mul.Tensor(c, w)
  return e, f
})");
  EXPECT_EQ(steps_of(alike), "CkC1kC2k") << module_text(alike.program, alike.graphs, alike.module);
}

TEST(Beside, KeepsItsMemoryUntilItHasEnded) {
  const Made made = for_gpu(kHalves);
  const std::vector<Step>& steps = made.module.main.steps;
  for (size_t s : {size_t{1}, size_t{3}}) {
    const auto& call = std::get<LibraryCall>(steps[s].instructions[0]);
    for (const schedule::Lifetime& each : made.module.temporaries) {
      const size_t waiting = s == 1 ? 4 : 6;
      if (each.buffer == call.inputs[0].buffer) {
        EXPECT_EQ(each.last_step, waiting - 1);
      }
    }
  }
}

TEST(Beside, ReadsBackAndIsChecked) {
  const Made made = for_gpu(kHalves);
  const std::string text = module_text(made.program, made.graphs, made.module);
  const ParsedModule read = parse_module(text);
  EXPECT_EQ(module_text(read.program, read.graphs, read.module), text);
  const auto fault_with = [&](std::string_view what, std::string_view other) {
    std::string changed = text;
    const size_t at = changed.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    changed.replace(at, what.size(), other);
    return error_of([&] { parse_module(changed); }).message();
  };
  EXPECT_NE(fault_with(" awaits 1", "").find("step 4 has to wait for step 1, which is beside it"), std::string::npos);
  EXPECT_NE(fault_with(" awaits 2", " awaits 4").find("step 6 awaits 4 steps beside others, of which 3 are before it"), std::string::npos);
}

// Parts of a batch, each of which communicates so many times, in turns.
std::string parts(int count, int times) {
  std::string inputs, outputs, body = "  token: i64[] = full(value=0)\n", token = "token";
  for (int part = 0; part < count; ++part) {
    inputs += fmt::format("{}x{}: f32[64, 512]", part == 0 ? "" : ", ", part);
    outputs += fmt::format("{}s{}_{}", part == 0 ? "" : ", ", part, times);
  }
  for (int time = 0; time <= times; ++time) {
    for (int part = 0; part < count; ++part) {
      const std::string from = time == 0 ? fmt::format("x{}", part) : fmt::format("r{}_{}", part, time - 1);
      body += fmt::format("  s{0}_{1}: f32[64, 512] = aten::softmax.int({2}, 1)\n", part, time, from);
      if (time == times) continue;
      body += fmt::format("  r{0}_{1}: f32[64, 512], t{0}_{1}: i64[] = library.collectives.swap(s{0}_{1}, {2}, attributes=[2, 0])\n", part,
                          time, token);
      token = fmt::format("t{}_{}", part, time);
    }
  }
  return fmt::format("\ngraph({}) {{\n{}  return {}\n}}", inputs, body, outputs);
}

// The lane of each step.
std::string lanes_of(const Made& made) {
  std::string text;
  for (const Step& step : made.module.main.steps) text += fmt::format("{}", step.branch);
  return text;
}

TEST(Lanes, AreChainsThatCommunicateAndDoNotWaitForEachOther) {
  const Made two = for_gpu(parts(2, 3));
  EXPECT_EQ(lanes_of(two), "1122112211220");
  EXPECT_EQ(steps_of(two), "mC1mC3mC5mC7mC9kCk") << module_text(two.program, two.graphs, two.module);
  EXPECT_EQ(lanes_of(for_gpu(parts(3, 2))).find_first_not_of('0'), std::string::npos) << "there are two lanes";
  EXPECT_EQ(lanes_of(for_gpu(parts(2, 1))).find_first_not_of('0'), std::string::npos) << "they communicate once";
  EXPECT_EQ(lanes_of(for_gpu(parts(1, 4))).find_first_not_of('0'), std::string::npos);
}

// Where a step needs both of them, lanes end.
TEST(Lanes, MeetWhereAStepNeedsThem) {
  std::string text = parts(2, 2);
  const std::string last = "  return s0_2, s1_2";
  text.replace(text.find(last), last.size(), "  m: f32[64, 512] = aten::mm(s0_2, t)\n  return m");
  const std::string one = "  s0_0: ";
  text.replace(text.find(one), one.size(), "  t: f32[512, 512] = aten::mm(x2, x3)\n" + one);
  const std::string inputs = "x1: f32[64, 512]";
  text.replace(text.find(inputs), inputs.size(), inputs + ", x2: f32[512, 64], x3: f32[64, 512]");
  const Made met = for_gpu(text);
  const std::string lanes = lanes_of(met);
  EXPECT_NE(lanes.find('2'), std::string::npos) << module_text(met.program, met.graphs, met.module);
  EXPECT_EQ(lanes.back(), '0') << lanes;
}

// Rows of this process and of another one (passes/shard/swap_rows.h), so many times: what is there and what was swapped are each multiplied
// twice, of the latter the sums are swapped. What is between products of own rows is computed with the first, though the second is read
// behind a swap; and the second does not wait for what was swapped, to which it is added.
std::string rows(int times) {
  std::string body = "  t: i64[] = full(value=0)\n  x0: bf16[256, 512] = aten::softmax.int(x, 1)\n";
  for (int i = 0; i < times; ++i) {
    body += fmt::format(R"(  r{0}: bf16[256, 512], t{0}a: i64[] = library.collectives.swap(x{0}, {1}, attributes=[2, 0])
  p{0}: bf16[256, 512] = aten::mm(x{0}, w)
  a{0}: bf16[256, 512] = aten::relu(p{0})
  q{0}: bf16[256, 512] = aten::mm(r{0}, w)
  b{0}: bf16[256, 512] = aten::relu(q{0})
  c{0}: bf16[256, 512] = aten::mm(b{0}, w)
  s{0}: bf16[256, 512], t{0}b: i64[] = library.collectives.swap(c{0}, t{0}a, attributes=[2, 0])
  d{0}: bf16[256, 512] = aten::mm(a{0}, w)
  e{0}: bf16[256, 512] = aten::add.Tensor(d{0}, s{0})
  y{0}: bf16[256, 512] = aten::add.Tensor(e{0}, x{0})
  x{2}: bf16[256, 512] = aten::softmax.int(y{0}, 1)
)",
                        i, i == 0 ? "t" : fmt::format("t{}b", i - 1), i + 1);
  }
  return fmt::format("\ngraph(x: bf16[256, 512], w: bf16[512, 512]) {{\n{}  return x{}\n}}", body, times);
}

TEST(Lanes, AreRowsOfThisProcessAndOfAnother) {
  const Made made = for_gpu(rows(3));
  EXPECT_EQ(lanes_of(made),
            "0212221"
            "0212221"
            "0212221"
            "0")
      << module_text(made.program, made.graphs, made.module);
  // The last own rows start with the last ones of the other process, which go.
  EXPECT_EQ(steps_of(made),
            "kCkmkC2k"
            "kCkmkC5k"
            "kCkmkC8k"
            "k");
  EXPECT_EQ(fault_of_lanes(made.graphs, made.module), std::nullopt);
  EXPECT_EQ(received_in_place(made.graphs, made.module), (std::vector<size_t>{1, 5, 8, 12, 15, 19}));
}

// In whatever order steps of lanes are done that each stream and each wait allow, no temporary is written where another one is needed.
TEST(Lanes, ShareNoMemoryThatIsNeeded) {
  for (const auto& [times, text] : {std::pair(2, parts(2, 2)), {3, parts(2, 3)}, {9, parts(2, 9)}, {2, rows(2)}, {9, rows(9)}}) {
    const Made made = for_gpu(text);
    const std::vector<Step>& steps = made.module.main.steps;
    // ended[s][t]: step t has ended when s starts.
    std::vector<std::vector<bool>> ended(steps.size(), std::vector<bool>(steps.size()));
    const auto behind = [&](size_t s, size_t before) {
      ended[s][before] = true;
      for (size_t t = 0; t < before; ++t) ended[s][t] = ended[s][t] || ended[before][t];
    };
    std::vector<size_t> operations;
    for (size_t s = 0; s < steps.size(); ++s) {
      for (size_t t = s; t-- > 0;) {
        if (steps[t].branch == steps[s].branch || steps[s].branch == 0 || steps[t].branch == 0) behind(s, t);
      }
      for (size_t i = 0; i < steps[s].awaits; ++i) behind(s, operations.at(i));
      if (steps[s].is_beside || steps[s].is_marked) operations.push_back(s);
    }
    const schedule::AccessTable table(*made.graphs[0].schedule.loops);
    const auto accesses = [&](size_t s, BufferId id) {
      const schedule::Accesses all = table.of(made.graphs[0].schedule.steps[s]);
      return all.reads.contains(static_cast<uint32_t>(id)) || all.writes.contains(static_cast<uint32_t>(id));
    };
    const std::vector<schedule::Lifetime>& all = made.module.temporaries;
    int64_t whole = 0, kept = 0;
    std::vector<ArenaRequest> requests;
    for (const schedule::Lifetime& each : all) {
      const int64_t bytes = sym::product(made.graphs[0].schedule.loops->buffer(each.buffer).sizes).value() * 4;
      requests.push_back({bytes, static_cast<int64_t>(each.first_step), static_cast<int64_t>(each.last_step)});
      whole += bytes;
    }
    const ArenaPlan plan = plan_arena(requests);
    kept = plan.bytes;
    int shared = 0;
    for (size_t a = 0; a < all.size(); ++a) {
      for (size_t b = 0; b < all.size(); ++b) {
        const bool meet = plan.offsets[a] < plan.offsets[b] + requests[b].bytes && plan.offsets[b] < plan.offsets[a] + requests[a].bytes;
        if (!meet || requests[a].bytes < 64 || requests[b].bytes < 64 || all[a].last_step >= all[b].first_step) continue;
        for (size_t s = 0; s < steps.size(); ++s) {
          for (size_t t = 0; t < steps.size(); ++t) {
            if (!accesses(s, all[a].buffer) || !accesses(t, all[b].buffer)) continue;
            EXPECT_TRUE(ended[t][s]) << "steps " << s << " and " << t;
            ++shared;
          }
        }
      }
    }
    if (times < 9) continue;
    EXPECT_GT(shared, 0);
    EXPECT_LT(kept, whole * 3 / 4) << "memory is used again";
  }
}

// Where another swap of the same mailbox would wait for a slot that one of a lane has for long, it is copied out. Other sizes have others.
TEST(Lanes, KeepWhatComesWhereAllSwapsTakeTurns) {
  const Made turns = for_gpu(parts(2, 4));
  EXPECT_EQ(received_in_place(turns.graphs, turns.module), (std::vector<size_t>{1, 3, 5, 7, 9, 11, 13, 15}));
  std::string further = parts(2, 4);
  const std::string last = "  return s0_4, s1_4";
  further.replace(further.find(last), last.size(),
                  "  z: f32[64, 512], t: i64[] = library.collectives.swap(s0_4, t1_3, attributes=[2, 0])\n  return z, s1_4");
  const Made alone = for_gpu(further);
  ASSERT_NE(lanes_of(alone).find('2'), std::string::npos);
  EXPECT_EQ(received_in_place(alone.graphs, alone.module), (std::vector<size_t>{1, 3, 5, 7, 9, 11, 15}))
      << "the first lane would have its last slot for three operations";
  std::string other = parts(2, 4);
  const std::string input = "x1: f32[64, 512]";
  other.replace(other.find(input), input.size(), "x1: f32[32, 512]");
  for (int time = 0; time <= 4; ++time) {
    for (const std::string& name : {fmt::format("s1_{}: f32[64,", time), fmt::format("r1_{}: f32[64,", time)}) {
      const size_t at = other.find(name);
      if (at != std::string::npos) other.replace(at, name.size(), name.substr(0, name.size() - 3) + "32,");
    }
  }
  const Made sizes = for_gpu(other);
  ASSERT_NE(lanes_of(sizes).find('2'), std::string::npos);
  EXPECT_EQ(received_in_place(sizes.graphs, sizes.module), (std::vector<size_t>{1, 3, 5, 7, 9, 11, 13, 15}));
  // Results that are gathered at the end are of another size than what layers swap.
  std::string gathered = rows(3);
  const std::string result = "  return x3";
  gathered.replace(gathered.find(result), result.size(),
                   "  z: bf16[512, 512], tz: i64[] = library.collectives.swap(w, t2b, attributes=[2, 0])\n  return x3, z");
  const Made with_result = for_gpu(gathered);
  EXPECT_EQ(received_in_place(with_result.graphs, with_result.module), (std::vector<size_t>{1, 5, 8, 12, 15, 19}));
  const std::string group = "(w, t2b, attributes=[2, 0])";
  gathered.replace(gathered.find(group), group.size(), "(w, t2b, attributes=[2, 0, 1, 0])");
  const Made of_others = for_gpu(gathered);
  EXPECT_TRUE(received_in_place(of_others.graphs, of_others.module).empty());
  // Steps that are timed one by one are beside nothing.
  const Made timed = for_gpu(rows(3), true);
  EXPECT_TRUE(received_in_place(timed.graphs, timed.module).empty());
}

TEST(Lanes, ReadBackAndAreChecked) {
  const Made made = for_gpu(parts(2, 4));
  const std::string text = module_text(made.program, made.graphs, made.module);
  const ParsedModule read = parse_module(text);
  EXPECT_EQ(module_text(read.program, read.graphs, read.module), text);
  const auto fault_with = [&](size_t step, std::string_view what, std::string_view other) {
    std::string changed = text;
    const size_t at = changed.find(what, changed.find(fmt::format("    step {} ", step)));
    EXPECT_NE(at, std::string::npos) << what;
    changed.replace(at, what.size(), other);
    return error_of([&] { parse_module(changed); }).message();
  };
  EXPECT_NE(fault_with(4, " on branch 1", " on branch 2").find("for which it has to wait"), std::string::npos);
  EXPECT_NE(fault_with(4, " on branch 1", " on branch 3").find("is on lane 3 of 2"), std::string::npos);
  EXPECT_NE(fault_with(5, " beside", "").find("is on a lane, and not beside others"), std::string::npos);
  EXPECT_NE(fault_with(6, " awaits 5", " awaits 9").find("of which 6 are before it"), std::string::npos);
  EXPECT_NE(fault_with(8, " awaits 7", "").find("a step of another lane needs it"), std::string::npos);
  std::string shorter = text;
  const schedule::Lifetime& first = made.module.temporaries[0];
  const std::string life = fmt::format("steps {} to {}", first.first_step, first.last_step);
  shorter.replace(shorter.find(life), life.size(), fmt::format("steps {} to {}", first.first_step, first.last_step - 1));
  EXPECT_NE(error_of([&] { parse_module(shorter); }).message().find("a step of another lane needs it"), std::string::npos);
}

}  // namespace
}  // namespace toroid::program
