// Which kernels are started together.
#include <gtest/gtest.h>

#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

struct GroupCase {
  const char* name;
  const char* steps;
  const char* graph;
};
void PrintTo(const GroupCase& row, std::ostream* out) { *out << row.name; }

const GroupCase kGroups[] = {
    {"updates_of_several_sizes", "group(3)", R"(
graph(p: f32[150, 150], q: f32[200, 100], r: f32[77]) {
  x: f32[150, 150] = aten::exp(p)
  y: f32[200, 100] = aten::sin(q)
  z: f32[77] = aten::cos(r)
  return x, y, z
})"},
    {"too_little_for_two_threads", "kernel kernel", R"(
graph(q: f32[100, 100], r: f32[77]) {
  y: f32[100, 100] = aten::sin(q)
  z: f32[77] = aten::cos(r)
  return y, z
})"},
    {"each_enough_for_two_threads", "kernel kernel", R"(
graph(p: f32[300, 300], q: f32[400, 400]) {
  x: f32[300, 300] = aten::exp(p)
  y: f32[400, 400] = aten::sin(q)
  return x, y
})"},
    {"what_waits_comes_after", "group(2) group(2)", R"(
graph(p: f32[150, 150], q: f32[200, 100]) {
  x: f32[150, 150] = aten::exp(p)
  a: f32[150, 150] = aten::flip(x, [0])
  u: f32[150, 150] = aten::add.Tensor(a, p)
  y: f32[200, 100] = aten::sin(q)
  b: f32[200, 100] = aten::flip(y, [0])
  v: f32[200, 100] = aten::add.Tensor(b, q)
  return x, u, y, v
})"},
    {"not_over_other_steps", "kernel call kernel", R"(
graph(p: f32[150, 150], q: f32[200, 100]) {
  x: f32[150, 150] = aten::exp(p)
  m: f32[150, 150] = aten::matmul(x, p)
  y: f32[200, 100] = aten::sin(q)
  return x, m, y
})"},
};

class Groups : public testing::TestWithParam<GroupCase> {};

TEST_P(Groups, AreStartedTogether) { EXPECT_EQ(kinds_of_steps(scheduled(GetParam().graph).schedule), GetParam().steps); }

INSTANTIATE_TEST_SUITE_P(Schedule, Groups, testing::ValuesIn(kGroups), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace toroid::schedule
