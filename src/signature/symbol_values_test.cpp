#include "signature/symbol_values.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace toroid {
namespace {

// x0: f32[s0, 4]   x1: i64[2*s1 + 1]   x2: f32[s0 + s1]
class BindSymbols : public testing::Test {
 protected:
  BindSymbols() {
    s0_ = program_.symbols->symbol("s0", sym::SymbolKind::Size, {2, 100});
    s1_ = program_.symbols->symbol("s1", sym::SymbolKind::Size, {0, sym::kPosInf});
    const TensorType types[] = {{.dtype = DType::F32, .sizes = {s0_, 4}},
                                {.dtype = DType::I64, .sizes = {s1_ * 2 + 1}},
                                {.dtype = DType::F32, .sizes = {s0_ + s1_}}};
    for (uint32_t i = 0; i < 3; ++i) {
      const NodeId node = program_.graph.add_node(Input{i}, {}, {types[i]});
      program_.graph.inputs.push_back(program_.graph.node(node).outputs[0]);
      program_.inputs.push_back({std::string(1, static_cast<char>('x' + i))});
    }
    program_.guards = {sym::lt(s1_, s0_)};
  }

  SymbolValues bind(const std::vector<std::vector<int64_t>>& sizes, DType first = DType::F32) {
    std::vector<InputShape> shapes;
    for (size_t i = 0; i < sizes.size(); ++i) shapes.push_back({i == 0 ? first : i == 1 ? DType::I64 : DType::F32, sizes[i]});
    return bind_symbols(program_, plan_bindings(program_), shapes);
  }
  std::string refusal(const std::vector<std::vector<int64_t>>& sizes, DType first = DType::F32) {
    try {
      bind(sizes, first);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::InvalidInput);
      return error.message();
    }
    return "accepted";
  }

  Program program_;
  sym::Expr s0_, s1_;
};

TEST_F(BindSymbols, SolvesPlainAndLinearSizes) {
  const SymbolValues values = bind({{5, 4}, {7}, {8}});
  EXPECT_EQ(values.find(s0_), 5);
  EXPECT_EQ(values.find(s1_), 3);
  EXPECT_EQ(values.evaluate(s0_ * s1_ + 1), 16);
}

TEST_F(BindSymbols, NamesTheViolatedFact) {
  EXPECT_EQ(refusal({{5, 4}, {7}}), "the program takes 3 inputs, 2 were given");
  EXPECT_EQ(refusal({{5, 3}, {7}, {8}}), "input 'x' has size 3 in dimension 1, the program needs 4");
  EXPECT_EQ(refusal({{5, 4, 1}, {7}, {8}}), "input 'x' has 3 dimensions, the program needs 2");
  EXPECT_EQ(refusal({{5, 4}, {7}, {8}}, DType::F64), "input 'x' has dtype f64, the program needs f32");
  EXPECT_EQ(refusal({{5, 4}, {7}, {9}}), "input 'z' has size 9 in dimension 0, the program needs 8 (s0 + s1, with s0 = 5, s1 = 3)");
  EXPECT_EQ(refusal({{1, 4}, {7}, {8}}), "input 'x' has size 1 in dimension 0, the program needs at least 2");
  EXPECT_EQ(refusal({{101, 4}, {7}, {8}}), "input 'x' has size 101 in dimension 0, the program needs at most 100");
  EXPECT_EQ(refusal({{5, 4}, {6}, {8}}), "input 'y' has size 6 in dimension 0, the program needs a size of the form 2*s1 + 1");
  EXPECT_EQ(refusal({{3, 4}, {7}, {6}}),
            "the inputs' sizes violate s1 < s0 (s0 = 3 from size 0 of input 'x', s1 = 3 from size "
            "0 of input 'y'), which the program relies on");
}

TEST_F(BindSymbols, TheNextStepIsTheSignature) {
  try {
    bind({{5, 3}, {7}, {8}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.help_text(), "the program takes x: f32[s0, 4], y: i64[2*s1 + 1] and z: f32[s0 + s1]");
  }
}

TEST_F(BindSymbols, StridesAreKnownFromTheShapes) {
  const sym::Expr unknown = program_.symbols->symbol("s9", sym::SymbolKind::Size, {1, 64});
  program_.graph.value(program_.graph.inputs[0]).type.strides = {unknown, 1};
  try {
    plan_bindings(program_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "the stride 's9' of input 'x' cannot be found from the inputs' shapes");
  }
}

TEST_F(BindSymbols, GuardsOverDataDependentSizesWait) {
  program_.guards.push_back(sym::le(program_.symbols->symbol("u0", sym::SymbolKind::DataDependent, {0, 9}), s0_));
  const BindingPlan plan = plan_bindings(program_);
  EXPECT_EQ(plan.guards.size(), 1u);
  EXPECT_EQ(plan.later_guards.size(), 1u);
}

TEST_F(BindSymbols, NumbersThatTellNoSymbolAreRefused) {
  const sym::Expr u0 = program_.symbols->symbol("u0", sym::SymbolKind::DataDependent, {0, 9});
  program_.graph.rename(program_.graph.inputs[1], "count");
  const auto words_for = [&](sym::Expr number) -> std::string {
    program_.graph.bindings = {{number, program_.graph.inputs[1]}};
    try {
      plan_bindings(program_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
      return error.message();
    }
    return "accepted";
  };
  EXPECT_EQ(words_for(u0), "accepted");
  EXPECT_EQ(words_for(u0 + s0_ * 2 - 1), "accepted");
  EXPECT_EQ(words_for(s0_ * s0_), "accepted");  // known, so it is compared
  EXPECT_EQ(words_for(u0 * u0), "the number in 'count' is 'u0*u0', which does not tell 'u0'");
  EXPECT_EQ(words_for(u0 * 2), "the number in 'count' is '2*u0', which does not tell 'u0'");
}

}  // namespace
}  // namespace toroid
