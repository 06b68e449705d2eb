#include "symbolic/symbol_map.h"

#include <gtest/gtest.h>

namespace toroid::sym {
namespace {

TEST(SymbolMap, KeepsNamesRangesHintsAndOrder) {
  Context from, to;
  const Expr s = from.symbol("s", SymbolKind::Size, {2, 64}, 16), u = from.symbol("u", SymbolKind::DataDependent, {0, 9});
  const SymbolMap map(from, to);
  const Expr moved = map.moved(s * 3 + u);
  EXPECT_EQ(to_string(moved), to_string(s * 3 + u));
  EXPECT_EQ(moved.context(), &to);
  ASSERT_EQ(to.symbols().size(), 2u);
  EXPECT_EQ(to.symbols()[0].range(), (Range{2, 64}));
  EXPECT_EQ(to.symbols()[0].node()->hint, 16);
  EXPECT_EQ(to.symbols()[1].node()->symbol_kind, SymbolKind::DataDependent);
  EXPECT_EQ(map.moved(Expr(7)), Expr(7));
}

TEST(SymbolMap, NumbersInTheirPlaceSimplify) {
  Context from, to;
  const Expr s = from.symbol("s", SymbolKind::Size, {1, 64}), t = from.symbol("t", SymbolKind::Size, {1, 64});
  const SymbolMap map(from, to, {{s, 8}});
  EXPECT_EQ(map.moved({s, floor_div(s * t, 4), max(s, 3)}), (std::vector<Expr>{8, *to.find_symbol("t") * 2, 8}));
  EXPECT_FALSE(to.find_symbol("s"));
}

// The copy outlives what it was made from.
TEST(SymbolMap, ResultsNeedOnlyTheirOwnContext) {
  Context to;
  Expr moved;
  {
    Context from;
    const Expr s = from.symbol("s", SymbolKind::Size, {1, 64});
    moved = SymbolMap(from, to).moved(mod(s + 1, 4));
  }
  EXPECT_EQ(to_string(moved), "Mod(s + 1, 4)");
}

}  // namespace
}  // namespace toroid::sym
