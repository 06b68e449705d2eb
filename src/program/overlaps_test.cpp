// Which launches start while the one before them ends, and that a text that pairs them otherwise is refused.
#include "program/overlaps.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "program/made_for_test.h"
#include "program/text.h"
#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::program {
namespace {

Made made_for_hopper(std::string_view text, bool profile = false) {
  schedule::Scheduled scheduled = schedule::scheduled(text, schedule::cuda_planner(schedule::TensorCores::Hopper));
  Made result{std::move(scheduled.program), {}, {}};
  result.graphs.push_back({std::move(scheduled.schedule), std::move(scheduled.outputs)});
  result.module = make_module(result.graphs, result.program, {.device = Device::Cuda, .profile = profile});
  return result;
}

// Of each step's instructions: "launch" or "call", with the overlap's text behind it.
std::string overlaps_in(const Function& function) {
  std::string text;
  for (const Step& step : function.steps) {
    for (const Instruction& each : step.instructions) {
      const schedule::Overlap* const overlap = overlap_of(each);
      if (overlap == nullptr) continue;
      text += text.empty() ? "" : "; ";
      text += std::holds_alternative<Launch>(each) ? "launch" : "call";
      text += overlap->starts_early ? ", early" : "";
      text += overlap->loads_ahead ? ", loads ahead" : "";
      text += overlap->lets_next_start ? ", lets next" : "";
    }
  }
  return text;
}

struct OverlapCase {
  std::string name, program, overlaps;
};
const OverlapCase kOverlaps[] = {
    {"small_kernels", R"(
graph(x: f32[8, 512]) {
  y: f32[8, 512] = aten::softmax.int(x, 1)
  s: f32[512] = aten::sum.dim_IntList(y, [0])
  c: f32[512] = aten::cumsum(s, 0)
  return c
})",
     "launch, lets next; launch, early, lets next; launch, early"},
    {"one_alone", "graph(x: f32[8, 512]) {\n  y: f32[8, 512] = aten::softmax.int(x, 1)\n  return y\n}", "launch"},
    {"a_library_call_in_between", R"(
graph(x: f32[64, 64]) {
  y: f32[64, 64] = aten::softmax.int(x, 1)
  p: f32[64, 64] = aten::mm(y, y)
  z: f32[64, 64] = aten::softmax.int(p, 1)
  c: f32[64, 64] = aten::cumsum(z, 1)
  return c
})",
     "launch; call; launch, lets next; launch, early"},
    {"sizes_that_may_be_nothing", R"(
sym s0 in [0, 8]
graph(x: f32[s0, 512]) {
  y: f32[s0, 512] = aten::softmax.int(x, 1)
  s: f32[512] = aten::sum.dim_IntList(y, [0])
  return s
})",
     "launch; launch"},
    // The right sides are a constant, twice, an input, and a constant that the call updates. The library is behind the last one.
    {"products_of_few_rows", R"(
constant 0 "w": bf16[2048, 2048] = external
buffer 1 "v": bf16[2048, 2048] = external
graph(x: bf16[1, 2048], u: bf16[2048, 2048], a: f32[64, 64]) {
  w: bf16[2048, 2048] = constant(0)
  v: bf16[2048, 2048] = constant(1)
  p: bf16[1, 2048] = aten::linear(x, w)
  q: bf16[1, 2048] = aten::linear(p, w)
  r: bf16[1, 2048] = aten::linear(q, u)
  s: bf16[1, 2048] = aten::linear(r, v)
  n: bf16[2048, 2048] = aten::add.Tensor(v, s)
  b: f32[64, 64] = aten::mm(a, a)
  return s, b, n -> buffer "v"
})",
     "launch, lets next; launch, early, loads ahead, lets next; launch, early, lets next; launch, early; call; launch"},
    {"attention_of_one_query", R"(
graph(q: bf16[1, 8, 1, 64], k: bf16[1, 8, 512, 64], v: bf16[1, 8, 512, 64]) {
  r: bf16[1, 8, 1, 64] = aten::mul.Tensor(q, 2.0)
  y: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(r, k, v)
  z: bf16[1, 8, 1, 64] = aten::relu(y)
  return z
})",
     "launch, lets next; call, early, lets next; launch, early"},
    // Keys and values are there but for the row that the call writes: by the kernel of attention, or, where that does not make the queries, by
    // one before it.
    {"attention_of_a_cache_behind_a_kernel", R"(
buffer 0 "keys": bf16[1, 8, 512, 64] = external
buffer 1 "values": bf16[1, 8, 512, 64] = external
graph(x: bf16[1, 8, 1, 64], p: i64[1]) {
  k: bf16[1, 8, 512, 64] = constant(0)
  v: bf16[1, 8, 512, 64] = constant(1)
  s: bf16[1, 8, 1, 64] = aten::softmax.int(x, 3)
  t: bf16[1, 8, 1, 64] = aten::softmax.int(s, 1)
  l: bf16[1, 8, 512, 64] = aten::index_copy(k, 2, p, t)
  w: bf16[1, 8, 512, 64] = aten::index_copy(v, 2, p, s)
  y: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(x, l, w)
  return y, l -> buffer "keys", w -> buffer "values"
})",
     "launch, lets next; launch, early, lets next; launch, early, loads ahead"},
    {"attention_of_sums_and_a_cache", R"(
buffer 0 "keys": bf16[1, 8, 512, 64] = external
buffer 1 "values": bf16[1, 8, 512, 64] = external
graph(x: bf16[1, 8, 1, 64], p: i64[1]) {
  k: bf16[1, 8, 512, 64] = constant(0)
  v: bf16[1, 8, 512, 64] = constant(1)
  s: bf16[1, 8, 1, 64] = aten::softmax.int(x, 3)
  l: bf16[1, 8, 512, 64] = aten::index_copy(k, 2, p, x)
  w: bf16[1, 8, 512, 64] = aten::index_copy(v, 2, p, x)
  y: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(s, l, w)
  return y, l -> buffer "keys", w -> buffer "values"
})",
     "call, lets next; call, early, loads ahead"},
    {"attention_of_a_cache", R"(
buffer 0 "keys": bf16[1, 8, 512, 64] = external
buffer 1 "values": bf16[1, 8, 512, 64] = external
graph(x: bf16[1, 8, 1, 64], p: i64[1]) {
  k: bf16[1, 8, 512, 64] = constant(0)
  v: bf16[1, 8, 512, 64] = constant(1)
  r: bf16[1, 8, 1, 64] = aten::mul.Tensor(x, 2.0)
  l: bf16[1, 8, 512, 64] = aten::index_copy(k, 2, p, r)
  w: bf16[1, 8, 512, 64] = aten::index_copy(v, 2, p, x)
  y: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(r, l, w)
  z: bf16[1, 8, 1, 64] = aten::relu(y)
  return z, l -> buffer "keys", w -> buffer "values"
})",
     "launch, lets next; launch, early"},
    // Heads beside each other in each row, two batches, and two layers.
    {"attention_of_caches_by_rows", R"(
buffer 0 "keys": bf16[2, 512, 8, 64] = external
buffer 1 "values": bf16[2, 512, 8, 64] = external
buffer 2 "more": bf16[2, 512, 8, 64] = external
graph(x: bf16[2, 1, 8, 64], p: i64[1]) {
  k: bf16[2, 512, 8, 64] = constant(0)
  v: bf16[2, 512, 8, 64] = constant(1)
  c: bf16[2, 512, 8, 64] = constant(2)
  l: bf16[2, 512, 8, 64] = aten::index_copy(k, 1, p, x)
  w: bf16[2, 512, 8, 64] = aten::index_copy(v, 1, p, x)
  a: bf16[2, 8, 512, 64] = aten::transpose.int(l, 1, 2)
  b: bf16[2, 8, 512, 64] = aten::transpose.int(w, 1, 2)
  q: bf16[2, 8, 1, 64] = aten::transpose.int(x, 1, 2)
  y: bf16[2, 8, 1, 64] = aten::scaled_dot_product_attention(q, a, b)
  t: bf16[2, 1, 8, 64] = aten::transpose.int(y, 1, 2)
  n: bf16[2, 512, 8, 64] = aten::index_copy(c, 1, p, t)
  d: bf16[2, 8, 512, 64] = aten::transpose.int(n, 1, 2)
  z: bf16[2, 8, 1, 64] = aten::scaled_dot_product_attention(y, d, d)
  return z, l -> buffer "keys", w -> buffer "values", n -> buffer "more"
})",
     "launch, lets next; launch, early, lets next; call, early, loads ahead"},
    // The row of values is another one; the index is made by a kernel; the cache is replaced; all rows of a head are written.
    {"attention_of_caches_that_are_not_there", R"(
buffer 0 "keys": bf16[1, 8, 512, 64] = external
buffer 1 "values": bf16[1, 8, 512, 64] = external
buffer 2 "others": bf16[1, 8, 512, 64] = external
graph(x: bf16[1, 8, 1, 64], p: i64[1], o: i64[1], h: i64[1], t: bf16[1, 1, 512, 64]) {
  k: bf16[1, 8, 512, 64] = constant(0)
  v: bf16[1, 8, 512, 64] = constant(1)
  c: bf16[1, 8, 512, 64] = constant(2)
  l: bf16[1, 8, 512, 64] = aten::index_copy(k, 2, p, x)
  w: bf16[1, 8, 512, 64] = aten::index_copy(v, 2, o, x)
  y: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(x, l, w)
  n: bf16[1, 8, 512, 64] = aten::index_copy(c, 1, h, t)
  z: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(y, n, n)
  u: bf16[1, 8, 512, 64] = aten::mul.Tensor(n, 2.0)
  a: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(z, u, u)
  return a, l -> buffer "keys", w -> buffer "values", n -> buffer "others"
})",
     "call, lets next; call, early, lets next; call, early, lets next; launch, early, lets next; call, early"},
};
void PrintTo(const OverlapCase& row, std::ostream* out) { *out << row.name; }

class Overlaps : public testing::TestWithParam<OverlapCase> {};
TEST_P(Overlaps, ArePairsOfKernelsBehindEachOther) {
  const Made each = made_for_hopper(GetParam().program);
  EXPECT_EQ(overlaps_in(each.module.main), GetParam().overlaps) << module_text(each.program, each.graphs, each.module);
}
TEST_P(Overlaps, ReadBack) {
  const Made each = made_for_hopper(GetParam().program);
  const std::string text = module_text(each.program, each.graphs, each.module);
  const ParsedModule read = parse_module(text);
  EXPECT_EQ(module_text(read.program, read.graphs, read.module), text);
}
TEST_P(Overlaps, AreNoneWhereStepsAreTimed) {
  const Made each = made_for_hopper(GetParam().program, true);
  EXPECT_EQ(overlaps_in(each.module.main).find(','), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(Rows, Overlaps, testing::ValuesIn(kOverlaps), [](const auto& row) { return row.param.name; });

struct WrongOverlap {
  std::string name, from, to, message;  // what of the text is replaced
};
const WrongOverlap kWrongOverlaps[] = {
    {"nobody_waits", " starts early lets next start", " lets next start",
     "a launch lets the next one start, and what is behind it does not wait"},
    {"nobody_lets_it", "lets next start", "", "a launch starts early, and what is before it lets none start"},
    {"the_last_lets_the_next", "starts early\n", "starts early lets next start\n",
     "the last launch lets the next one start, and there is none"},
    {"nothing_is_there_to_load", "starts early lets", "starts early loading ahead lets",
     "what this launch would load ahead may not be there yet"},
};
class WrongOverlaps : public testing::TestWithParam<WrongOverlap> {};
TEST_P(WrongOverlaps, AreRefused) {
  const WrongOverlap& row = GetParam();
  const Made each = made_for_hopper(kOverlaps[0].program);
  std::string text = module_text(each.program, each.graphs, each.module);
  const size_t at = text.find(row.from);
  ASSERT_NE(at, text.npos) << text;
  text.replace(at, row.from.size(), row.to);
  const Error error = error_of([&] { parse_module(text); });
  EXPECT_NE(error.message().find(row.message), std::string::npos) << error.report();
}
INSTANTIATE_TEST_SUITE_P(Rows, WrongOverlaps, testing::ValuesIn(kWrongOverlaps), [](const auto& row) { return row.param.name; });

TEST(WrongOverlaps, OfTheLibraryAreRefused) {
  const Made each = made_for_hopper(kOverlaps[2].program);
  Module wrong = each.module;
  overlap_of(wrong.main.steps[0].instructions[0])->lets_next_start = true;
  overlap_of(wrong.main.steps[1].instructions[0])->starts_early = true;
  const Error error = error_of([&] { parse_module(module_text(each.program, each.graphs, wrong)); });
  EXPECT_NE(error.message().find("this launch cannot overlap with others"), std::string::npos) << error.report();
}

}  // namespace
}  // namespace toroid::program
