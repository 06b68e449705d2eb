#include "program/text.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "program/made_for_test.h"
#include "support/golden_for_test.h"

namespace toroid::program {
namespace {

struct ModuleCase {
  std::string name, program;
};
const ModuleCase kModules[] = {
    {"linear_and_softmax", R"(
sym s0 in [2, 512]
graph(x: f32[s0, 128], w: f32[64, 128], b: f32[64]) {
  y: f32[s0, 64] = aten::linear(x, w, b)
  z: f32[s0, 64] = aten::softmax.int(y, 1)
  v: f32[s0, 64] = aten::cumsum(z, 1)
  return v
})"},
    {"rows_that_are_not_zero", R"(
sym u0 in [0, 8] from data
graph(x: f32[8]) {
  i: i64[u0, 1] = aten::nonzero(x)
  d: i64[u0, 1] = aten::add.Tensor(i, i)
  return d
})"},
    {"branch", R"(
subgraph 0(x: f32[4]) {
  y: f32[4] = aten::sin(x)
  return y
}
subgraph 1(x: f32[4]) {
  y: f32[4] = aten::cos(x)
  return y
}
graph(p: bool[], x: f32[4]) {
  y: f32[4] = higher_order::cond(p, @0, @1, [x])
  return y
})"},
};

class Modules : public testing::TestWithParam<ModuleCase> {};
TEST_P(Modules, AreTheGoldens) {
  const Made each = made(GetParam().program);
  expect_golden(fmt::format("program/testdata/{}.program", GetParam().name), to_string(each.module, each.graphs));
}
INSTANTIATE_TEST_SUITE_P(Rows, Modules, testing::ValuesIn(kModules), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace toroid::program
