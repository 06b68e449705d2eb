#include "lower/attention/visible_scores.h"

#include <gtest/gtest.h>

#include <limits>

namespace toroid {
namespace {

class VisibleScores : public testing::Test {
 protected:
  loop::ExprId number(double value) { return exprs.literal(Scalar(value), DType::F32); }
  loop::ExprId where(loop::ExprId condition, loop::ExprId a, loop::ExprId b) { return exprs.compute(ScalarOp::Where, {condition, a, b}); }
  loop::ExprId below(sym::Expr a, sym::Expr b) { return exprs.compute(ScalarOp::Lt, {exprs.index(a), exprs.index(b)}); }

  sym::Context symbols;
  loop::LoopProgram program{symbols};
  loop::ExprTable& exprs = program.exprs;
  std::vector<sym::Expr> axes = {symbols.axis(2, "i"), symbols.axis(3, "i"), symbols.axis(40, "i"), symbols.axis(40, "i")};
  loop::ExprId product = exprs.add(loop::Accumulated{loop::AccumulatorId{0}}, DType::F32);
  const double lowest = std::numeric_limits<float>::lowest();
};

TEST_F(VisibleScores, AreThoseThatWhereDoesNotHide) {
  const loop::ExprId past = below(axes[3], axes[2]);
  const loop::Scores scores = visible_scores(exprs, axes, where(past, product, number(-HUGE_VAL)));
  EXPECT_EQ(scores.value, product);
  EXPECT_EQ(scores.visible, past);
}
TEST_F(VisibleScores, AreThoseToWhichNothingIsAdded) {
  const loop::ExprId past = below(axes[3], axes[2]);
  const loop::ExprId mask = where(past, number(0), number(-HUGE_VAL));
  const loop::Scores scores = visible_scores(exprs, axes, exprs.compute(ScalarOp::Add, {product, mask}));
  EXPECT_EQ(scores.value, product);
  EXPECT_EQ(scores.visible, past);
}
TEST_F(VisibleScores, SatisfyAllConditions) {
  const loop::ExprId past = below(axes[3], axes[2]), near = below(axes[2] - 7, axes[3]);
  const loop::Scores scores = visible_scores(exprs, axes, where(past, where(near, product, number(-HUGE_VAL)), number(-HUGE_VAL)));
  EXPECT_EQ(scores.value, product);
  EXPECT_EQ(scores.visible, exprs.compute(ScalarOp::BitAnd, {past, near}));
}
// A query that sees nothing has the same weight for all its keys then.
TEST_F(VisibleScores, OfFiniteOnesCountUnlessEachQuerySeesItsOwnPlace) {
  const loop::ExprId past = below(axes[3], axes[2]), with_own = below(axes[3], axes[2] + 1);
  const loop::ExprId kept = where(past, product, number(lowest));
  EXPECT_EQ(visible_scores(exprs, axes, kept).value, kept);
  EXPECT_FALSE(visible_scores(exprs, axes, kept).visible.has_value());
  EXPECT_EQ(visible_scores(exprs, axes, where(with_own, product, number(lowest))).visible, with_own);
}
TEST_F(VisibleScores, MayDependOnTheProduct) {
  const loop::ExprId high = exprs.compute(ScalarOp::Lt, {number(0), product});
  const loop::ExprId value = where(high, product, number(-HUGE_VAL));
  EXPECT_EQ(visible_scores(exprs, axes, value).value, value);
}

}  // namespace
}  // namespace toroid
