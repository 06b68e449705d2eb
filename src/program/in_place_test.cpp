#include "program/in_place.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "program/made_for_test.h"
#include "program/text.h"

namespace toroid::program {
namespace {

struct UpdateCase {
  std::string name, body;      // of a graph that updates buffers b and c
  std::vector<bool> in_place;  // by output
  std::string subgraphs = {};
};
const UpdateCase kUpdates[] = {
    {"elements", "n: f32[6, 4] = aten::add.Tensor(b, x)\n return n -> buffer \"b\"", {true}},
    {"rows", "n: f32[6, 4] = aten::index_copy(b, 0, i, r)\n return n -> buffer \"b\"", {true}},
    {"sums_of_rows", "n: f32[6, 4] = aten::index_add(b, 0, i, r)\n return n -> buffer \"b\"", {true}},
    {"elements_that_are_elsewhere",
     "f: f32[6, 4] = aten::flip(b, [0])\n n: f32[6, 4] = aten::add.Tensor(f, x)\n return n -> buffer \"b\"",
     {false}},
    {"elements_and_their_neighbours",
     "f: f32[6, 4] = aten::flip(b, [0])\n n: f32[6, 4] = aten::add.Tensor(f, b)\n return n -> buffer \"b\"",
     {false}},
    {"rows_of_the_old_value",
     "s: f32[2, 4] = aten::index_select(b, 0, i)\n n: f32[6, 4] = aten::index_copy(b, 0, i, s)\n return n -> buffer \"b\"",
     {false}},
    {"the_old_value_is_read_before",
     "s: f32[6, 6] = aten::matmul(b, y)\n t: f32[6] = aten::sum.dim_IntList(s, [1])\n u: f32[6, 1] = aten::unsqueeze(t, 1)\n"
     " n: f32[6, 4] = aten::add.Tensor(b, u)\n return n -> buffer \"b\"",
     {true}},
    {"the_old_value_is_read_after",
     "n: f32[6, 4] = aten::add.Tensor(b, x)\n s: f32[6, 6] = aten::matmul(n, y)\n t: f32[6, 4] = aten::matmul(s, b)\n"
     " return n -> buffer \"b\", t",
     {false, false}},
    {"the_new_value_is_returned_too", "n: f32[6, 4] = aten::index_copy(b, 0, i, r)\n return n, n -> buffer \"b\"", {false, true}},
    {"two_buffers",
     "m: f32[6, 4] = aten::add.Tensor(c, x)\n n: f32[6, 4] = aten::sub.Tensor(b, m)\n return m -> buffer \"c\", n -> buffer \"b\"",
     {true, true}},
    {"two_values_of_one_buffer",
     "m: f32[6, 4] = aten::add.Tensor(b, x)\n n: f32[6, 4] = aten::sub.Tensor(b, x)\n return m -> buffer \"b\", n -> buffer \"b\"",
     {false, false}},
    {"nothing_of_the_old_value", "n: f32[6, 4] = aten::sin(x)\n return n -> buffer \"b\"", {false}},
    {"a_branch_that_reads_it",
     "n: f32[6, 4] = higher_order::cond(p, @0, @1, [b])\n return n -> buffer \"b\"",
     {false},
     "subgraph 0(x: f32[6, 4]) { y: f32[6, 4] = aten::sin(x) return y }\nsubgraph 1(x: f32[6, 4]) { y: f32[6, 4] = aten::cos(x) return y "
     "}\n"},
};

std::string text_of(const UpdateCase& row) {
  return fmt::format(R"(buffer 0 "b": f32[6, 4] = external
buffer 1 "c": f32[6, 4] = external
{}graph(x: f32[6, 4], r: f32[2, 4], y: f32[4, 6], i: i64[2], p: bool[]) {{
  b: f32[6, 4] = constant(0)
  c: f32[6, 4] = constant(1)
  {}
}})",
                     row.subgraphs, row.body);
}

class Updates : public testing::TestWithParam<UpdateCase> {};
TEST_P(Updates, AreInPlaceWhereTheOldValueHasBeenRead) {
  const Made each = made(text_of(GetParam()));
  std::vector<bool> in_place;
  for (const OutputInfo& output : each.module.outputs) in_place.push_back(output.is_in_place);
  const std::string text = to_string(each.module, each.graphs);
  EXPECT_EQ(in_place, GetParam().in_place) << module_text(each.program, each.graphs, each.module);
}
TEST_P(Updates, ReadBack) {
  const Made each = made(text_of(GetParam()));
  const std::string text = module_text(each.program, each.graphs, each.module);
  const ParsedModule read = parse_module(text);
  EXPECT_EQ(module_text(read.program, read.graphs, read.module), text);
}
TEST_P(Updates, AreRefusedElsewhere) {
  const Made each = made(text_of(GetParam()));
  for (size_t i = 0; i < each.module.outputs.size(); ++i) {
    if (each.module.outputs[i].is_in_place) continue;
    Module wrong = each.module;
    wrong.outputs[i].is_in_place = true;
    const Error error = error_of([&] { parse_module(module_text(each.program, each.graphs, wrong)); });
    EXPECT_NE(error.message().find(fmt::format("output {} cannot be in the place of a constant", i)), std::string::npos) << error.report();
  }
}
// One of 1024 rows is read and written, and its index read.
TEST(UpdatesInPlace, MoveWhatTheyWrite) {
  const Made each = made(R"(buffer 0 "keys": f32[1024, 64] = external
graph(k: f32[1, 64], i: i64[1]) {
  keys: f32[1024, 64] = constant(0)
  n: f32[1024, 64] = aten::index_copy(keys, 0, i, k)
  return n -> buffer "keys"
})",
                         {.profile = true});
  ASSERT_EQ(each.module.step_work.size(), 1u);
  EXPECT_EQ(each.module.step_work[0].bytes.value(), 3 * 64 * 4 + 8);
}

INSTANTIATE_TEST_SUITE_P(Rows, Updates, testing::ValuesIn(kUpdates), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace toroid::program
