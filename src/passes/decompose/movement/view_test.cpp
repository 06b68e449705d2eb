// Creation, views, joining, padding and diagonals.
#include <fmt/format.h>

#include "graph/text/text.h"
#include "graph/verify.h"
#include "interp/evaluate.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/engine/operator_cases.h"

namespace toroid {
namespace {

const OperatorCase kCreation[] = {
    {"aten::arange.start_step(1, 2, 0.25)", {}, {"f32[4] = [1, 1.25, 1.5, 1.75]"}},
    {"aten::arange.start_step(5, 0, -2)", {}, {"i64[3] = [5, 3, 1]"}},
    {"aten::linspace(0, 1, 5)", {}, {"f32[5] = [0, 0.25, 0.5, 0.75, 1]"}},
    {"aten::linspace.Tensor_Scalar(x0, 4, 3, dtype=dtype.i64)", {"f32[] = [0]"}, {"i64[3] = [0, 2, 4]"}},
    {"aten::logspace(0, 2, 3)", {}, {"f32[3] = [1, 10, 100]"}},
    {"aten::eye.m(2, 3)", {}, {"f32[2, 3] = [1, 0, 0, 0, 1, 0]"}},
    {"aten::tril_indices(2, 2)", {}, {"i64[2, 3] = [0, 1, 1, 0, 0, 1]"}},
    {"aten::full([2], true)", {}, {"bool[2] = [true, true]"}},
    {"aten::full_like(x0, 3)", {"f32[2] = [0, 0]"}, {"f32[2] = [3, 3]"}},
    {"aten::vander(x0, 3)", {"i64[2] = [2, 3]"}, {"i64[2, 3] = [4, 2, 1, 9, 3, 1]"}},
    {"aten::hann_window(4)", {}, {"f32[4] = [0, 0.5, 1, 0.5]"}},
    {"aten::to.dtype(x0, dtype.i64)", {"f32[2] = [1.9, -1.9]"}, {"i64[2] = [1, -1]"}},
};

const OperatorCase kViews[] = {
    {"aten::slice.Tensor(x0, 0, -3, 100, 2)", {"i64[5] = [0, 1, 2, 3, 4]"}, {"i64[2] = [2, 4]"}},
    {"aten::slice.Tensor(x0, 0, 4, 2)", {"i64[5] = [0, 1, 2, 3, 4]"}, {"i64[0] = []"}},
    {"aten::select.int(x0, 1, -1)", {"i64[2, 2] = [0, 1, 2, 3]"}, {"i64[2] = [1, 3]"}},
    {"aten::movedim.intlist(x0, [0, 1], [2, 0])", {"i64[1, 2, 3] = [0, 1, 2, 3, 4, 5]"}, {"i64[2, 3, 1] = [0, 1, 2, 3, 4, 5]"}},
    {"aten::unfold(x0, 0, 3, 2)", {"i64[5] = [0, 1, 2, 3, 4]"}, {"i64[2, 3] = [0, 1, 2, 2, 3, 4]"}},
    {"aten::as_strided(x0, [2, 2], [1, 2], 1)", {"i64[5] = [0, 1, 2, 3, 4]"}, {"i64[2, 2] = [1, 3, 2, 4]"}},
    {"aten::rot90(x0, 1, [0, 1])", {"i64[2, 2] = [0, 1, 2, 3]"}, {"i64[2, 2] = [1, 3, 0, 2]"}},
    {"aten::diagonal(x0, 1)", {"i64[2, 3] = [0, 1, 2, 3, 4, 5]"}, {"i64[2] = [1, 5]"}},
    {"aten::diagonal(x0, 5)", {"i64[2, 3] = [0, 1, 2, 3, 4, 5]"}, {"i64[0] = []"}},
    {"aten::diagonal(x0, -9223372036854775808)", {"i64[2, 3] = [0, 1, 2, 3, 4, 5]"}, {"i64[0] = []"}},
    {"aten::squeeze.dims(x0, [0, 1])", {"i64[1, 2, 1] = [0, 1]"}, {"i64[2, 1] = [0, 1]"}},
    {"aten::unflatten.int(x0, 0, [-1, 2])", {"i64[4] = [0, 1, 2, 3]"}, {"i64[2, 2] = [0, 1, 2, 3]"}},
};

const OperatorCase kJoining[] = {
    // A tensor of no elements and rank 1 joins anything.
    {"aten::cat([x0, x1])", {"f32[0] = []", "f32[1, 2] = [1, 2]"}, {"f32[1, 2] = [1, 2]"}},
    {"aten::cat([x0, x1])", {"i64[1] = [1]", "f32[1] = [0.5]"}, {"f32[2] = [1, 0.5]"}},
    {"aten::block_diag([x0, x1])", {"f32[1, 1] = [1]", "f32[2] = [2, 3]"}, {"f32[2, 3] = [1, 0, 0, 0, 2, 3]"}},
    {"aten::chunk(x0, 3)", {"i64[5] = [0, 1, 2, 3, 4]"}, {"i64[2] = [0, 1]", "i64[2] = [2, 3]", "i64[1] = [4]"}},
    {"aten::tensor_split.sections(x0, 2)", {"i64[5] = [0, 1, 2, 3, 4]"}, {"i64[3] = [0, 1, 2]", "i64[2] = [3, 4]"}},
    {"aten::tensor_split.indices(x0, [1, -1])", {"i64[4] = [0, 1, 2, 3]"}, {"i64[1] = [0]", "i64[2] = [1, 2]", "i64[1] = [3]"}},
    {"aten::meshgrid.indexing([x0, x1], indexing=\"xy\")",
     {"i64[2] = [0, 1]", "i64[1] = [5]"},
     {"i64[1, 2] = [0, 1]", "i64[1, 2] = [5, 5]"}},
    {"aten::combinations(x0)", {"i64[3] = [7, 8, 9]"}, {"i64[3, 2] = [7, 8, 7, 9, 8, 9]"}},
    {"aten::cartesian_prod([x0, x1])", {"i64[2] = [1, 2]", "i64[1] = [3]"}, {"i64[2, 2] = [1, 3, 2, 3]"}},
};

const OperatorCase kPadding[] = {
    {"aten::pad(x0, [2, 1], \"reflect\")", {"i64[1, 3] = [0, 1, 2]"}, {"i64[1, 6] = [2, 1, 0, 1, 2, 1]"}},
    {"aten::pad(x0, [2, 1], \"replicate\")", {"i64[1, 3] = [0, 1, 2]"}, {"i64[1, 6] = [0, 0, 0, 1, 2, 2]"}},
    {"aten::pad(x0, [2, 1], \"circular\")", {"i64[1, 3] = [0, 1, 2]"}, {"i64[1, 6] = [1, 2, 0, 1, 2, 0]"}},
    {"aten::constant_pad_nd(x0, [-1, 2], 9)", {"i64[3] = [0, 1, 2]"}, {"i64[4] = [1, 2, 9, 9]"}},
    {"aten::roll(x0, [1])", {"i64[2, 2] = [0, 1, 2, 3]"}, {"i64[2, 2] = [3, 0, 1, 2]"}},
    {"aten::roll(x0, [1], [0])", {"i64[2, 2] = [0, 1, 2, 3]"}, {"i64[2, 2] = [2, 3, 0, 1]"}},
    {"aten::repeat(x0, [2, 2])", {"i64[2] = [0, 1]"}, {"i64[2, 4] = [0, 1, 0, 1, 0, 1, 0, 1]"}},
    {"aten::repeat_interleave.self_int(x0, 2)", {"i64[2] = [0, 1]"}, {"i64[4] = [0, 0, 1, 1]"}},
    {"aten::repeat_interleave.self_Tensor(x0, x1, output_size=3)", {"i64[2] = [7, 8]", "i64[2] = [1, 2]"}, {"i64[3] = [7, 8, 8]"}},
    {"aten::pixel_shuffle(x0, 2)", {"i64[4, 1, 1] = [0, 1, 2, 3]"}, {"i64[1, 2, 2] = [0, 1, 2, 3]"}},
};

const OperatorCase kJagged[] = {
    {"aten::_jagged_to_padded_dense_forward(x0, [x1], [3], -1.0)",
     {"f32[5] = [1, 2, 3, 4, 5]", "i64[4] = [1, 3, 3, 5]"},
     {"f32[3, 3] = [2, 3, -1, -1, -1, -1, 4, 5, -1]"}},
    {"aten::_jagged_to_padded_dense_forward(x0, [x1], [2])",  // a longer sequence is cut off
     {"i64[4, 2] = [1, 2, 3, 4, 5, 6, 7, 8]", "i32[3] = [0, 3, 4]"},
     {"i64[2, 2, 2] = [1, 2, 3, 4, 7, 8, 0, 0]"}},
    {"aten::_jagged_to_padded_dense_forward(x0, [x1], [2], 1.5)", {"f32[0] = []", "i64[2] = [0, 0]"}, {"f32[1, 2] = [1.5, 1.5]"}},
    {"aten::_padded_dense_to_jagged_forward(x0, [x1], 3)",
     {"f32[3, 2] = [1, 2, 3, 4, 5, 6]", "i64[4] = [0, 1, 1, 3]"},
     {"f32[3] = [1, 5, 6]"}},
    {"aten::_padded_dense_to_jagged_forward(x0, [x1])",  // the last offset gives the size
     {"i64[2, 2, 2] = [1, 2, 3, 4, 5, 6, 7, 8]", "i32[3] = [0, 2, 3]"},
     {"i64[3, 2] = [1, 2, 3, 4, 5, 6]"}},
};

const OperatorCase kDiagonals[] = {
    {"aten::tril(x0, -1)", {"i64[2, 2] = [1, 2, 3, 4]"}, {"i64[2, 2] = [0, 0, 3, 0]"}},
    {"aten::triu(x0)", {"bool[2, 2] = [true, true, true, true]"}, {"bool[2, 2] = [true, true, false, true]"}},
    {"aten::diag_embed(x0, 1, 1, 0)", {"i64[1] = [5]"}, {"i64[2, 2] = [0, 0, 5, 0]"}},
    {"aten::trace(x0)", {"i64[2, 2] = [1, 2, 3, 4]"}, {"i64[] = [5]"}},
    {"aten::select_scatter(x0, x1, 0, 1)", {"i64[2, 2] = [1, 2, 3, 4]", "i64[2] = [7, 8]"}, {"i64[2, 2] = [1, 2, 7, 8]"}},
    {"aten::slice_scatter(x0, x1, 0, 1, step=2)", {"i64[4] = [0, 1, 2, 3]", "i64[2] = [7, 8]"}, {"i64[4] = [0, 7, 2, 8]"}},
    {"aten::diagonal_scatter(x0, x1)", {"i64[2, 2] = [1, 2, 3, 4]", "i64[2] = [7, 8]"}, {"i64[2, 2] = [7, 2, 3, 8]"}},
    {"aten::as_strided_scatter(x0, x1, [2], [2], 1)", {"i64[4] = [0, 1, 2, 3]", "i64[2] = [7, 8]"}, {"i64[4] = [0, 7, 2, 8]"}},
};

class Views : public testing::TestWithParam<OperatorCase> {};
TEST_P(Views, ArePyTorchs) { check(GetParam()); }

// What the caller's sizes decide is checked at each call.
TEST(Views, PositionsThatSizesTellAreGuarded) {
  const auto guards = [](std::string_view call) {
    Program program = parse_text(
        fmt::format("sym s0 in [2, 1000]\ngraph(x: f32[64, 3], y: f32[s0], z: f32[3], w: f32[s0 - 2]) {{ r: {} return r }}", call));
    decompose(program);
    std::string text;
    for (sym::Expr guard : program.guards) text += sym::to_string(guard) + "; ";
    return text;
  };
  EXPECT_EQ(guards("f32[5] = aten::_padded_dense_to_jagged_forward(x, [z], 5)"), "Eq(total_L_that_is_not_the_last_offset_0, 0); ");
  EXPECT_EQ(guards("f32[3] = aten::select.int(x, 0, s0)"), "s0 <= 63; ");
  EXPECT_EQ(guards("f32[3] = aten::select.int(x, 0, 5)"), "");
  EXPECT_EQ(guards("f32[2, 3] = aten::narrow(x, 0, s0, 2)"), "s0 <= 62; ");
  EXPECT_EQ(guards("f32[64, 3] = aten::select_scatter(x, z, 0, s0)"), "s0 <= 63; ");
  EXPECT_EQ(guards("f32[64, s0 + 3] = aten::reflection_pad1d(x, [s0, 0])"), "s0 <= 2; s0 <= 4; ");
  EXPECT_EQ(guards("f32[s0] = aten::slice_scatter(y, w, 0, 2)"), "");  // which may write nothing
  EXPECT_EQ(guards("f32[s0 + 1] = aten::pad(y, [0, 1], \"circular\")"), "");
  EXPECT_EQ(guards("f32[s0 + 5] = aten::pad(y, [5, 0], \"circular\")"), "5 <= s0; ");
  EXPECT_EQ(guards("f32[3*s0 - 12] = aten::constant_pad_nd(y, [s0 - 4, s0 - 8])"), "Max(0, 4 - s0) + Max(0, 8 - s0) <= s0; 4 <= s0; ");
  EXPECT_EQ(guards("f32[4 - s0, s0] = aten::unfold(z, 0, s0, 1)"), "s0 <= 3; s0 <= 4; ");
  // Of an index as long as the caller says the source has as many elements.
  Program program =
      parse_text("sym s0 in [1, 512]\ngraph(x: f32[1], i: i64[s0], y: f32[3]) { r: f32[1] = aten::scatter_add(x, 0, i, y) return r }");
  decompose(program);
  ASSERT_EQ(program.guards.size(), 1u);
  EXPECT_EQ(sym::to_string(program.guards[0]), "s0 <= 3");
}
INSTANTIATE_TEST_SUITE_P(Creation, Views, testing::ValuesIn(kCreation));
INSTANTIATE_TEST_SUITE_P(Rows, Views, testing::ValuesIn(kViews));
INSTANTIATE_TEST_SUITE_P(Joining, Views, testing::ValuesIn(kJoining));
INSTANTIATE_TEST_SUITE_P(Padding, Views, testing::ValuesIn(kPadding));
INSTANTIATE_TEST_SUITE_P(Jagged, Views, testing::ValuesIn(kJagged));
INSTANTIATE_TEST_SUITE_P(Diagonals, Views, testing::ValuesIn(kDiagonals));

TEST(Views, ASymbolicSliceKeepsTheSizeThatTheExporterKnew) {
  Program program = parse_text(
      "program \"case\"\nsym s0 in [2, 512]\nsym s1 in [2, 512]\n"
      "graph(x: f32[s0], y: f32[s1]) {\n  z: f32[s1] = aten::slice.Tensor(x, 0, 0, s1)\n  return z\n}\n");
  decompose(program);
  verify(program, Level::Core);
  EXPECT_EQ(to_string(program.graph.type(program.graph.outputs[0])), "f32[s1]");
  ASSERT_EQ(program.guards.size(), 2u);  // the length is as recorded, and lies within x
}

TEST(Views, ChunksOfASymbolicSizeCanBeWritten) {
  Program program = parse_text(
      "program \"case\"\nsym s0 in [3, 512]\n"
      "graph(x: f32[s0]) {\n  a: f32[(s0 + 1)//2], b: f32[s0 - (s0 + 1)//2] = aten::chunk(x, 2)\n"
      "  w: f32[(s0 + 1)//2] = aten::neg_(a)\n  y: f32[s0] = aten::clone(x)\n  return y\n}\n");
  decompose(program);
  verify(program, Level::Core);
  const std::vector<double> numbers = {1, 2, 3, 4, 5};
  const std::vector<HostTensor> inputs = {HostTensor::from_doubles(DType::F32, {5}, numbers)};
  const HostTensor written = evaluate(program, inputs)[0];
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(written.double_at(i), i < 3 ? -(i + 1.0) : i + 1.0) << i;
}

// The rank of what follows depends on it.
TEST(Views, SqueezingASizeThatMayBeOneIsGuarded) {
  Program program = parse_text(
      "program \"case\"\nsym s0 in [1, 512]\nsym s1 in [2, 512]\n"
      "graph(x: f32[s0, s1, 1]) {\n  z: f32[s0, s1] = aten::squeeze(x)\n  return z\n}\n");
  decompose(program);
  EXPECT_EQ(to_string(program.graph.type(program.graph.outputs[0])), "f32[s0, s1]");
  ASSERT_EQ(program.guards.size(), 1u);
  EXPECT_EQ(sym::to_string(program.guards[0]), "Ne(s0, 1)");
}

}  // namespace
}  // namespace toroid
