#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/environment_for_test.h"
#include "base/error_for_test.h"
#include "graph/text/text.h"
#include "passes/graph_copy.h"

namespace toroid {
namespace {

constexpr std::string_view kText = R"(graph(x: f32[4], n: f32[2]) {
  t = exp(x)
  u = neg(x)
  return t
})";

// Errors of a list of one pass.
Error error_of_pass(const Pass& pass, const PassOptions& options = {}) {
  return error_of([&] {
    Program program = parse_text(kText);
    run_passes(program, options, {&pass, 1});
  });
}

TEST(Passes, APassThatBreaksTheProgramIsNamed) {
  const Pass bad = {"swap-inputs", "", true, [](Program& program, const PassCosts&) {
                      std::swap(program.graph.inputs[0], program.graph.inputs[1]);
                      return true;
                    }};
  const Error error = error_of_pass(bad);
  EXPECT_EQ(error.kind(), ErrorKind::Internal);
  EXPECT_EQ(error.message(), "the pass 'swap-inputs' broke the program: broken graph: 'n' is listed as input 0, but its node is not");
  EXPECT_EQ(error.help_text(), "please report this together with the model; --without-pass swap-inputs compiles it without this pass");
}

TEST(Passes, AWrongTypeShowsTheNode) {
  const Pass bad = {"other-op", "", false, [](Program& program, const PassCosts&) {
                      program.graph.node(program.graph.value(program.graph.outputs[0]).producer).op = Permute{{1, 0}};
                      return true;
                    }};
  const Error error = error_of_pass(bad);
  EXPECT_TRUE(error.message().starts_with("the pass 'other-op' broke the program: broken graph: ")) << error.message();
  EXPECT_NE(error.message().find("\n  in t: f32[4] = permute(x, "), std::string::npos) << error.message();
  EXPECT_EQ(error.help_text(), "please report this together with the model");  // it cannot be left out
}

TEST(Passes, APassThatDeniesItsChangeIsNamed) {
  const Pass silent = {"silent", "", true, [](Program& program, const PassCosts&) {
                         program.graph.node(NodeId{2}).op = Pointwise{ScalarOp::Sin};
                         return false;
                       }};
  EXPECT_EQ(error_of_pass(silent).message(), "the pass 'silent' changed the program and says that it did not");
  EXPECT_EQ(error_of_pass(silent, {.check = false}).message(), "no error");
}

TEST(Passes, APassThatClaimsAChangeIsNamed) {
  const Pass idle = {"idle", "", true, [](Program&, const PassCosts&) { return true; }};
  EXPECT_EQ(error_of_pass(idle).message(), "the pass 'idle' says that it changed the program, which is as it was");
}

TEST(Passes, TestsAreChecked) {
  EXPECT_TRUE(passes_are_checked());
#ifdef NDEBUG
  const ScopedVariable scope("TOROID_VERIFY", "0");
  EXPECT_FALSE(passes_are_checked());
#endif
}

TEST(Passes, EachIsTimedAndItsChangesAreSeen) {
  std::string timed, changed;
  Program program = parse_text(kText);
  run_passes(program,
             {.changed = [&](const Pass& pass, const Program& now) { changed += fmt::format("{} {} ", pass.name, now.graph.num_nodes()); },
              .timed =
                  [&](const Pass& pass, double seconds) {
                    EXPECT_GE(seconds, 0);
                    timed += fmt::format("{}, ", pass.name);
                  }});
  EXPECT_EQ(timed, pass_names() + ", ");
  EXPECT_EQ(changed, "decompose 3 ");  // which leaves no dead node
}

TEST(Passes, SomeCanBeLeftOut) {
  const std::string text =
      "graph(x: f32[4]) {\n  one: f32[4] = full(value=1.0)\n  two: f32[4] = full(value=2.0)\n  t = add(one, two)\n"
      "  y: f32[4] = mul(x, t)\n  return y\n}";
  auto nodes = [&](const PassOptions& options) {
    Program program = parse_text(text);
    run_passes(program, options);
    return program.graph.num_nodes();
  };
  EXPECT_EQ(nodes({}), 3u);
  EXPECT_EQ(nodes({.without = {"fold-constants"}}), 5u);
  EXPECT_EQ(nodes({.optimise = false}), 5u);
}

TEST(Passes, OthersCannotBeLeftOut) {
  const Error needed = error_of([] { check_left_out(std::vector<std::string>{"decompose"}); });
  EXPECT_EQ(needed.kind(), ErrorKind::InvalidOption);
  EXPECT_EQ(needed.message(), "every program needs the pass 'decompose'");
  EXPECT_EQ(needed.help_text(), "passes that can be left out: " + optional_pass_names());
  EXPECT_EQ(error_of([] { check_left_out(std::vector<std::string>{"fold"}); }).message(), "there is no pass 'fold'");
}

}  // namespace
}  // namespace toroid
