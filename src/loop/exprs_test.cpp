#include <gtest/gtest.h>

#include "loop/loop.h"

namespace toroid::loop {
namespace {

class Exprs : public testing::Test {
 protected:
  BufferId buffer(std::string name, std::vector<sym::Expr> sizes, DType dtype = DType::F32) {
    return program.add_buffer({.name = std::move(name), .dtype = dtype, .sizes = sizes, .strides = contiguous_strides(sizes)});
  }

  sym::Context symbols;
  LoopProgram program{symbols};
  ExprTable& exprs = program.exprs;
  sym::Expr i = symbols.axis(8, "i");
  sym::Expr j = symbols.axis(8, "j");
  BufferId x = buffer("x", {8});
};

TEST_F(Exprs, EqualExpressionsAreOneNode) {
  const ExprId a = exprs.compute(ScalarOp::Exp, {exprs.load(x, {i}, DType::F32)});
  const size_t before = exprs.size();
  const ExprId b = exprs.compute(ScalarOp::Exp, {exprs.load(x, {i}, DType::F32)});
  EXPECT_EQ(a, b);
  EXPECT_EQ(exprs.size(), before);
  EXPECT_NE(a, exprs.compute(ScalarOp::Exp, {exprs.load(x, {j}, DType::F32)}));
}

TEST_F(Exprs, LiteralsThatDifferInSignOrDtypeAreApart) {
  EXPECT_NE(exprs.literal(0.0, DType::F32), exprs.literal(-0.0, DType::F32));
  EXPECT_NE(exprs.literal(1.0, DType::F32), exprs.literal(1.0, DType::F64));
  EXPECT_EQ(exprs.literal(1.0, DType::F32), exprs.literal(1.0, DType::F32));
}

TEST_F(Exprs, ReducedFloatsAreComputedInF32) {
  const BufferId h = buffer("h", {8}, DType::BF16);
  EXPECT_EQ(exprs.dtype(exprs.load(h, {i}, DType::BF16)), DType::F32);
}

TEST_F(Exprs, AMaskThatIsKnownIsNoMask) {
  const ExprId a = exprs.load(x, {i}, DType::F32);
  const ExprId b = exprs.literal(2.0, DType::F32);
  EXPECT_EQ(exprs.masked(exprs.literal(true, DType::Bool), a, b), a);
  EXPECT_EQ(exprs.masked(exprs.literal(false, DType::Bool), a, b), b);
}

TEST_F(Exprs, AConditionThatIsKnownIsNoArithmetic) {
  const ExprId yes = exprs.literal(true, DType::Bool), no = exprs.literal(false, DType::Bool);
  const ExprId a = exprs.load(buffer("a", {8}, DType::Bool), {i}, DType::Bool);
  auto both = [&](ScalarOp op, ExprId x, ExprId y) { return exprs.compute(op, {x, y}); };
  EXPECT_EQ(both(ScalarOp::BitAnd, yes, yes), yes);
  EXPECT_EQ(both(ScalarOp::BitAnd, yes, a), a);
  EXPECT_EQ(both(ScalarOp::BitAnd, a, no), no);
  EXPECT_EQ(both(ScalarOp::BitOr, a, yes), yes);
  EXPECT_EQ(both(ScalarOp::BitOr, no, a), a);
  EXPECT_EQ(both(ScalarOp::BitXor, a, no), a);
  EXPECT_EQ(both(ScalarOp::BitXor, yes, a), exprs.compute(ScalarOp::BitNot, {a}));
  EXPECT_EQ(exprs.compute(ScalarOp::BitNot, {yes}), no);
  const ExprId x_i = exprs.load(x, {i}, DType::F32), two = exprs.literal(2.0, DType::F32);
  EXPECT_EQ(exprs.compute(ScalarOp::Where, {yes, x_i, two}), x_i);
  EXPECT_EQ(exprs.compute(ScalarOp::Where, {no, x_i, two}), two);
  // Of integers, bits are combined.
  const ExprId one = exprs.literal(sym::Expr(1), DType::I64), n = exprs.load(buffer("n", {8}, DType::I64), {i}, DType::I64);
  EXPECT_NE(both(ScalarOp::BitAnd, one, n), n);
}

TEST_F(Exprs, SubstitutionReachesLoadsAndIndices) {
  const ExprId value = exprs.compute(ScalarOp::Add, {exprs.load(x, {i}, DType::F32), exprs.convert(exprs.index(i), DType::F32)});
  EXPECT_EQ(to_string(program, exprs.substitute(value, {{i, j}})), "add(x[j0], f32(index(j0)))");
  EXPECT_EQ(exprs.substitute(value, {{j, i}}), value);
}

TEST_F(Exprs, AnIndexFromATensorIsTheSameSymbolEachTime) {
  const BufferId ids = buffer("ids", {8}, DType::I64);
  const ExprId id = exprs.load(ids, {i}, DType::I64);
  const sym::Expr first = exprs.as_index(id, 100);
  EXPECT_EQ(first, exprs.as_index(id, 100));
  const ValueSymbol* value = exprs.value_symbol(first);
  ASSERT_NE(value, nullptr);
  EXPECT_EQ(value->index, id);
  EXPECT_EQ(value->size, sym::Expr(100));
  // What is an integer expression already needs no symbol.
  EXPECT_EQ(exprs.as_index(exprs.index(i), 8), i);
}

// Tensors' integers wrap at 64 bits.
TEST_F(Exprs, ArithmeticThatMayWrapIsOfTensors) {
  const sym::Expr n = symbols.symbol("n", sym::SymbolKind::Size, {2, sym::kPosInf}), k = symbols.axis(n, "k");
  const auto times = [&](ExprId a, int64_t b) { return exprs.compute(ScalarOp::Mul, {a, exprs.literal(sym::Expr(b), DType::I64)}); };
  const auto as_mod = [&](ExprId a) {
    return exprs.as_index(exprs.compute(ScalarOp::Mod, {a, exprs.literal(sym::Expr(1000), DType::I64)}), 1000);
  };
  EXPECT_EQ(exprs.value_symbol(as_mod(times(exprs.index(k), 12345))), nullptr);
  EXPECT_NE(exprs.value_symbol(as_mod(times(exprs.index(k), 6364136223846793005))), nullptr);
  EXPECT_NE(exprs.value_symbol(as_mod(times(times(exprs.index(k), 1 << 20), 1 << 20))), nullptr);
}

TEST_F(Exprs, ReadsAndSymbolsFollowIndicesIntoOtherTensors) {
  const sym::Expr n = symbols.symbol("n", sym::SymbolKind::Size, {0, 100});
  const sym::Expr u = symbols.symbol("u", sym::SymbolKind::DataDependent, {0, 100});
  const BufferId ids = buffer("ids", {n}, DType::I64);
  const BufferId out = buffer("out", {n});
  const sym::Expr k = symbols.axis(n, "k");
  const sym::Expr v = exprs.as_index(exprs.load(ids, {k}, DType::I64), u);
  const Computation computation{Map{{k}, exprs.load(x, {v}, DType::F32)}, {out}, "gather", {}};
  EXPECT_EQ(reads(program, computation), (std::vector<BufferId>{ids, x}));
  std::vector<sym::Expr> used = size_symbols(program, computation);
  EXPECT_EQ(used.size(), 2u);
  EXPECT_NE(std::find(used.begin(), used.end(), n), used.end());
  EXPECT_NE(std::find(used.begin(), used.end(), u), used.end());
}

TEST_F(Exprs, ReachableListsOperandsFirst) {
  const ExprId a = exprs.load(x, {i}, DType::F32);
  const ExprId b = exprs.compute(ScalarOp::Exp, {a});
  const ExprId c = exprs.compute(ScalarOp::Mul, {b, a});
  EXPECT_EQ(reachable(exprs, {c}), (std::vector<ExprId>{a, b, c}));
}

}  // namespace
}  // namespace toroid::loop
