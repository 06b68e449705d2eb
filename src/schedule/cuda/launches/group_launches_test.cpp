// Which kernels of a GPU are one launch.
#include <gtest/gtest.h>

#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

struct LaunchCase {
  const char* name;
  const char* graph;
  const char* steps;
};
void PrintTo(const LaunchCase& row, std::ostream* out) { *out << row.name; }

const LaunchCase kLaunches[] = {
    {"maps_rows_and_scatters", R"(
graph(p: f32[150, 150], q: bf16[40, 1000], r: f32[77], i: i64[20], u: f32[20, 64], t: f32[90, 64]) {
  x: f32[150, 150] = aten::exp(p)
  y: bf16[40, 1000] = aten::softmax.int(q, 1)
  z: f32[77] = aten::cos(r)
  a: f32[90, 64] = aten::index_add(t, 0, i, u)
  return x, y, z, a
})",
     "group(4)"},
    {"what_fills_the_device_is_alone", R"(
graph(p: f32[4096, 1024], q: f32[400, 400], r: f32[77]) {
  x: f32[4096, 1024] = aten::exp(p)
  y: f32[400, 400] = aten::sin(q)
  z: f32[77] = aten::cos(r)
  return x, y, z
})",
     "kernel group(2)"},
    {"sizes_of_calls_are_alone", R"(
sym s0 in [1, 64]
graph(p: f32[s0, 40], r: f32[s0]) {
  x: f32[s0, 40] = aten::exp(p)
  z: f32[s0] = aten::cos(r)
  return x, z
})",
     "kernel kernel"},
    {"what_reads_the_other_waits", R"(
graph(p: f32[150, 150], q: f32[200, 100]) {
  x: f32[150, 150] = aten::exp(p)
  a: f32[150, 150] = aten::flip(x, [0])
  u: f32[150, 150] = aten::add.Tensor(a, p)
  y: f32[200, 100] = aten::sin(q)
  b: f32[200, 100] = aten::flip(y, [0])
  v: f32[200, 100] = aten::add.Tensor(b, q)
  return x, u, y, v
})",
     "group(2) group(2)"},
    {"a_later_one_comes_up", R"(
graph(p: f32[64, 64], q: f32[200, 100]) {
  x: f32[64, 64] = aten::exp(p)
  m: f32[64, 64] = aten::matmul(x, p)
  y: f32[200, 100] = aten::sin(q)
  return x, m, y
})",
     "group(2) call"},
    {"an_earlier_one_waits", R"(
graph(p: f32[64, 64], q: f32[200, 100]) {
  y: f32[200, 100] = aten::sin(q)
  m: f32[64, 64] = aten::matmul(p, p)
  n: f32[64, 64] = aten::flip(m, [0])
  x: f32[64, 64] = aten::exp(n)
  return x, m, y
})",
     "call group(2)"},
    {"neither_moves_over_what_depends_on_it", R"(
graph(p: f32[64, 64]) {
  y: f32[64, 64] = aten::sin(p)
  m: f32[64, 64] = aten::matmul(y, p)
  n: f32[64, 64] = aten::flip(m, [0])
  x: f32[64, 64] = aten::exp(n)
  return x, y
})",
     "kernel call kernel"},
    // Both updates wait for the product that reads the old value of one of them.
    {"updates_stay_behind_what_reads_the_old_value", R"(
buffer 0 "b": f32[64, 64] = external
buffer 1 "c": f32[200] = external
graph(x: f32[64, 64], g: f32[200]) {
  b: f32[64, 64] = constant(0)
  c: f32[200] = constant(1)
  y: f32[64, 64] = aten::sin(x)
  m: f32[64, 64] = aten::matmul(y, b)
  f: f32[64, 64] = aten::flip(x, [0])
  d: f32[64, 64] = aten::sub.Tensor(b, f)
  e: f32[200] = aten::sub.Tensor(c, g)
  return y, m, d -> buffer "b", e -> buffer "c"
})",
     "kernel call group(2)"},
    {"an_old_value_and_its_update", R"(
buffer 0 "b": f32[64, 64] = external
graph(x: f32[64, 64]) {
  b: f32[64, 64] = constant(0)
  f: f32[64, 64] = aten::flip(b, [0])
  y: f32[64] = aten::sum.dim_IntList(f, [0])
  d: f32[64, 64] = aten::sub.Tensor(b, x)
  return y, d -> buffer "b"
})",
     "kernel kernel"},
    // Blocks have as many threads: what needs 1,024 takes maps along, and no scatters, which have 128.
    {"a_map_beside_a_sum_of_columns", R"(
graph(p: f32[800, 64], q: f32[100]) {
  x: f32[64] = aten::sum.dim_IntList(p, [0])
  y: f32[100] = aten::sin(q)
  return x, y
})",
     "group(2)"},
    {"a_scatter_beside_a_sum_of_columns", R"(
graph(p: f32[800, 64], i: i64[20], u: f32[20, 64], t: f32[90, 64]) {
  x: f32[64] = aten::sum.dim_IntList(p, [0])
  a: f32[90, 64] = aten::index_add(t, 0, i, u)
  return x, a
})",
     "kernel scatter"},
};

class Launches : public testing::TestWithParam<LaunchCase> {};
TEST_P(Launches, AreOneWhereNothingStandsBetween) {
  const Scheduled made = scheduled(GetParam().graph, cuda_planner());
  EXPECT_EQ(kinds_of_steps(made.schedule), GetParam().steps) << to_string(made.schedule);
}
INSTANTIATE_TEST_SUITE_P(Schedule, Launches, testing::ValuesIn(kLaunches), [](const auto& row) { return row.param.name; });

// Columns in vectors have fewer lanes than a warp: their blocks stay as large as they were planned.
TEST(Launches, HaveBlocksThatADeviceTakes) {
  const Scheduled made = scheduled(R"(
graph(p: bf16[16384, 4096], q: bf16[16384, 2048]) {
  x: f32[4096] = aten::sum.dim_IntList(p, [0], dtype=dtype.f32)
  y: f32[2048] = aten::sum.dim_IntList(q, [0], dtype=dtype.f32)
  return x, y
})",
                                   cuda_planner());
  ASSERT_EQ(kinds_of_steps(made.schedule), "kernel group(2) kernel") << to_string(made.schedule);
  for (const ParallelKernel& each : std::get<ParallelKernels>(made.schedule.steps[1]).kernels)
    EXPECT_EQ(std::get<Kernel>(each).gpu->threads, 512) << to_string(made.schedule);
}

// What one kernel of a launch reads for the last time and what another one writes are not in the same place of the arena.
TEST(Launches, HaveAllTheirTemporariesAtOnce) {
  const Scheduled made = scheduled(R"(
graph(p: f32[64, 64], q: f32[64, 64]) {
  m: f32[64, 64] = aten::matmul(p, q)
  f: f32[64, 64] = aten::flip(m, [0])
  x: f32[64] = aten::sum.dim_IntList(f, [0])
  y: f32[64, 64] = aten::sin(q)
  n: f32[64, 64] = aten::matmul(y, p)
  return x, n
})",
                                   cuda_planner());
  EXPECT_EQ(kinds_of_steps(made.schedule), "call group(2) call") << to_string(made.schedule);
  int alive = 0;
  for (const Lifetime& each : made.schedule.lifetimes) alive += each.first_step <= 1 && each.last_step >= 1 ? 1 : 0;
  EXPECT_EQ(alive, 2) << to_string(made.schedule);
}

}  // namespace
}  // namespace toroid::schedule
