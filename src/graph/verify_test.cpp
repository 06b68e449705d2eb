#include "graph/verify.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/text/text.h"

namespace toroid {
namespace {

std::string error_of(const Program& program, Level level = Level::Core) {
  try {
    verify(program, level);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Internal);
    return error.message();
  }
  return "no error";
}

Program toy() {
  return parse_text(R"(sym s0 in [1, 64]
graph(x: f32[s0, 4]) {
  y = exp(x)
  z: f32[4, s0] = remap(y, axes=[a, b], index=[b, a])
  return z
})");
}

TEST(Verify, AcceptsGoodPrograms) { EXPECT_EQ(error_of(toy()), "no error"); }

TEST(Verify, TypesFollowFromOperations) {
  Program program = toy();
  program.graph.value(ValueId{1}).type.dtype = DType::F64;
  EXPECT_EQ(error_of(program), "broken graph: the operation gives f32[s0, 4]\n  in y: f64[s0, 4] = exp(x)");
}

TEST(Verify, ValuesAreDefinedBeforeUse) {
  Program program = toy();
  program.graph.node(NodeId{1}).inputs[0] = ValueId{2};
  EXPECT_EQ(error_of(program), "broken graph: 'z' is used before it is defined\n  in y: f32[s0, 4] = exp(z)");
}

TEST(Verify, NamesAreUnique) {
  Program program = toy();
  program.graph.value(ValueId{2}).name = "x";
  EXPECT_EQ(error_of(program), "broken graph: two values are called 'x'");
}

TEST(Verify, AxesAreBoundWhereTheyAreUsed) {
  Program program = toy();
  const sym::Expr stray = program.symbols->axis(4);
  std::get<Remap>(program.graph.node(NodeId{2}).op).index[1] = stray;
  EXPECT_EQ(error_of(program).substr(0, 62), "broken graph: remap(axes=[a0, a1], index=[a1, i0]): axis i0 is");
}

TEST(Verify, IndicesStayWithinBounds) {
  Program program = toy();
  std::get<Remap>(program.graph.node(NodeId{2}).op).index[1] = 4;
  EXPECT_EQ(error_of(program),
            "broken graph: remap(axes=[a0, a1], index=[a1, 4]): index 4 is out of bounds for dim 1 of size 4\n"
            "  in z: f32[4, s0] = remap(y, axes=[a0, a1], index=[a1, 4])");
}

TEST(Verify, SizesAreSizes) {
  Program program = toy();
  program.graph.value(ValueId{0}).type.sizes[1] = program.symbols->axis(4);
  EXPECT_EQ(error_of(program), "broken graph: the size i0 of 'x' depends on 'i0', which is no size");
}

TEST(Verify, CoreLevelHasNoImportLevelNodes) {
  const Program program = parse_text("graph(x: f32[2]) { y: f32[2] = aten::relu(x) return y }");
  EXPECT_EQ(error_of(program, Level::Import), "no error");
  EXPECT_EQ(error_of(program), "broken graph: an import-level operator at core level\n  in y: f32[2] = aten::relu(x)");
}

TEST(Verify, SignatureFitsTheGraph) {
  Program program = toy();
  program.inputs.clear();
  EXPECT_EQ(error_of(program), "broken graph: the program has 0 inputs, its graph 1");
}

}  // namespace
}  // namespace toroid
