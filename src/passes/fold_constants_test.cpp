#include "passes/fold_constants.h"

#include <gtest/gtest.h>

#include "graph/text/text.h"
#include "graph/verify.h"
#include "passes/dead_code.h"

namespace toroid {
namespace {

std::string folded(std::string_view text) {
  Program program = parse_text(text);
  fold_constants(program);
  verify(program, Level::Core);
  return to_text(program);
}

TEST(FoldConstants, EqualElementsStayOneNumber) {
  EXPECT_EQ(folded(R"(sym s0 in [1, 64]
graph(x: f32[s0]) {
  one: f32[s0] = full(value=1.0)
  two: f32[s0] = full(value=2.0)
  half = div(one, two)
  wide: f64[s0] = cast(half)
  y: f32[s0] = cast(wide)
  out = mul(x, y)
  return out
})"),
            R"(sym s0 in [1, 64]
graph(x: f32[s0]) {
  y: f32[s0] = full(value=0.5)
  out: f32[s0] = mul(x, y)
  return out
}
)");
}

TEST(FoldConstants, WorkIsDoneOnce) {
  EXPECT_EQ(folded(R"(graph(x: f32[4]) {
  n: i64[4] = iota(dim=0)
  p = scan.sum(n, dim=0)
  q = reduce.max(p, dims=[0])
  r: i64[4] = reshape(p)
  s: f32[4] = cast(r)
  t: f32[] = cast(q)
  u: f32[1] = reshape(t)
  v: f32[4] = expand(u)
  w = div(s, v)
  y = add(x, w)
  return y
})"),
            R"(constant 0 "": f32[4] = [0.0, 0.16666667, 0.5, 1.0]
graph(x: f32[4]) {
  w: f32[4] = constant(0)
  y: f32[4] = add(x, w)
  return y
}
)");
}

TEST(FoldConstants, CheapArithmeticStaysInTheKernel) {
  const std::string text = R"(graph(x: f32[4]) {
  n: i64[4] = iota(dim=0)
  one: i64[4] = full(value=1)
  m: i64[4] = add(n, one)
  f: f32[4] = cast(m)
  y: f32[4] = add(x, f)
  return y
}
)";
  EXPECT_EQ(folded(text), text);
}

TEST(FoldConstants, WeightsAndLargeResultsAreLeftAlone) {
  const std::string text = R"(constant 0 "w": f32[4] = [1.0, 2.0, 3.0, 4.0]
graph(x: f32[4]) {
  w: f32[4] = constant(0)
  e: f32[4] = exp(w)
  n: f32[1000, 1000] = iota(dim=1)
  s: f32[1000, 1000] = sin(n)
  return e, s
}
)";
  EXPECT_EQ(folded(text), text);
}

TEST(FoldConstants, ASingleNumberIsNoConstantInMemory) {
  EXPECT_EQ(folded(R"(graph() {
  n: i64[10] = iota(dim=0)
  s = reduce.sum(n, dims=[0])
  return s
})"),
            R"(graph() {
  s: i64[] = full(value=45)
  return s
}
)");
}

TEST(DeadCode, RemovesWhatNobodyUses) {
  Program program = parse_text(R"(sym u0 in [0, 9] from data
graph(x: f32[2], n: i64[], unused: f32[3]) {
  t = exp(x)
  u = neg(x)
  w = neg(u)
  m = neg(n)
  sym u0 = m
  return t
})");
  EXPECT_TRUE(remove_dead_code(program));
  EXPECT_EQ(to_text(program), R"(sym u0 in [0, 9] from data
graph(x: f32[2], n: i64[], unused: f32[3]) {
  t: f32[2] = exp(x)
  m: i64[] = neg(n)
  sym u0 = m
  return t
}
)");
  EXPECT_FALSE(remove_dead_code(program));
}

}  // namespace
}  // namespace toroid
