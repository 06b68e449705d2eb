#include "tune/decision.h"

#include <gtest/gtest.h>

#include "frontend/json_reader.h"
#include "tune/identity.h"

namespace toroid::tune {
namespace {

Decision example() {
  Decision decision{
      .problem = "matmul.f32(f32[1, 8], f32[8, 4]) -> f32[1, 4]", .choice = "few", .hash = "12ab", .source = Source::Measured};
  decision.outcomes = {
      {.choice = "packed",
       .hash = "34cd",
       .cost_s = 3e-4,
       .standing = Standing::Timed,
       .median_s = 4.125e-4,
       .fastest_s = 4e-4,
       .slowest_s = 5e-4,
       .rounds = 2},
      {.choice = "columns", .hash = "56ef", .standing = Standing::GateClosed, .reason = "the \"right\" side's columns are not contiguous"},
      {.choice = "later", .hash = "78aa", .cost_s = 9e-4},
      {.choice = "few",
       .hash = "12ab",
       .cost_s = 2e-4,
       .standing = Standing::Timed,
       .median_s = 2.5e-4,
       .fastest_s = 2.4e-4,
       .slowest_s = 2.6e-4,
       .rounds = 7}};
  sort_by_standing(decision.outcomes);
  return decision;
}

TEST(Decision, PrintsAsATableWithShares) {
  EXPECT_EQ(table_text(example()),
            "matmul.f32(f32[1, 8], f32[8, 4]) -> f32[1, 4]: few (measured)\n"
            "  few                         0.2500 ms   100 %  0.2400 to 0.2600 in 7 rounds, estimated 0.2\n"
            "  packed                      0.4125 ms    61 %  0.4000 to 0.5000 in 2 rounds, estimated 0.3\n"
            "  later                    not tried, estimated 0.9 ms\n"
            "  columns                  gate closed: the \"right\" side's columns are not contiguous\n");
}

TEST(Decision, WhatMeasuringChangedIsSaidWithItsGain) {
  Decision same = example();  // `few` has the best estimate too
  EXPECT_EQ(changes_text({same}), "0 of 1 problems changed: the estimates of mode default choose the same\n");
  Decision changed = example();
  for (Outcome& each : changed.outcomes) {
    if (each.choice == "packed") each.cost_s = 1e-4;
  }
  EXPECT_EQ(changes_text({same, changed}),
            "1 of 2 problems changed, 0.2500 ms instead of 0.4125 in all\n"
            "  matmul.f32(f32[1, 8], f32[8, 4]) -> f32[1, 4]: few instead of packed, 0.2500 ms instead of 0.4125\n");
}

TEST(Decision, OutcomesReadBack) {
  const std::vector<Outcome> outcomes = example().outcomes;
  const std::string bytes = outcomes_to_bytes(outcomes);
  EXPECT_EQ(outcomes_of(bytes), outcomes);
  for (size_t size = 1; size < bytes.size(); ++size) {
    const auto part = outcomes_of(std::string_view(bytes).substr(0, size));
    EXPECT_TRUE(!part || part->size() < outcomes.size()) << size;
  }
  EXPECT_FALSE(outcomes_of("nonsense"));
}

TEST(Decision, TheLogIsJsonWithEveryFact) {
  const JsonDocument log = parse_json(json_log({example()}, {.machine = "a machine", .isa = "avx2", .toolchain = "toroid 1"}), "log");
  EXPECT_EQ(log.root().at("format").as_integer(), 1);
  EXPECT_EQ(log.root().at("machine").as_string(), "a machine");
  const JsonValue& problem = log.root().at("problems").elements()[0];
  EXPECT_EQ(problem.at("problem").as_string(), "matmul.f32(f32[1, 8], f32[8, 4]) -> f32[1, 4]");
  EXPECT_EQ(problem.at("choice").as_string(), "few");
  EXPECT_EQ(problem.at("source").as_string(), "measured");
  const auto choices = problem.at("choices").elements();
  ASSERT_EQ(choices.size(), 4u);
  EXPECT_EQ(choices[0].at("median_s").as_real(), 2.5e-4);
  EXPECT_EQ(choices[0].at("rounds").as_integer(), 7);
  EXPECT_EQ(choices[3].at("standing").as_string(), "gate closed");
  EXPECT_EQ(choices[3].at("reason").as_string(), "the \"right\" side's columns are not contiguous");
  EXPECT_EQ(choices[3].find("median_s"), nullptr);
}

TEST(Identity, NamesTheProcessor) {
  EXPECT_EQ(processor_in("processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nstepping\t: 1\n\nprocessor\t: "
                         "1\nmodel\t: 99\n"),
            "AMD EPYC, family 25, model 17, stepping 1");
  EXPECT_EQ(processor_in("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"), "implementer 0x41, part 0xd40");
  EXPECT_EQ(processor_in(""), "unknown processor");
}

TEST(Decision, TheReferenceStaysWhereLittleIsGained) {
  const std::vector<Choice> choices = {
      {.name = "closed", .description = "", .gate = "no"}, {.name = "plain", .description = ""}, {.name = "other", .description = ""}};
  auto best = [&](double plain_s, double other_s, double least_gain) {
    std::vector<Outcome> outcomes = {{.choice = "plain", .standing = Standing::Timed, .median_s = plain_s},
                                     {.choice = "other", .standing = Standing::Timed, .median_s = other_s}};
    sort_by_standing(outcomes);
    return best_of(outcomes, choices, least_gain)->choice;
  };
  EXPECT_EQ(best(1.00, 0.99, 1.02), "plain");
  EXPECT_EQ(best(1.00, 0.97, 1.02), "other");
  EXPECT_EQ(best(1.00, 0.99, 1), "other");
}

TEST(Decision, AnEpilogueStaysWhereItIsWhenLittleIsGained) {
  const std::vector<Choice> choices = {{.name = "plain", .description = ""}, {.name = "after", .description = "", .then_epilogue = true}};
  auto best = [&](double plain_s, double after_s) {
    std::vector<Outcome> outcomes = {{.choice = "plain", .standing = Standing::Timed, .median_s = plain_s},
                                     {.choice = "after", .standing = Standing::Timed, .median_s = after_s}};
    sort_by_standing(outcomes);
    return best_of(outcomes, choices)->choice;
  };
  EXPECT_EQ(best(1.00, 0.98), "plain");
  EXPECT_EQ(best(1.00, 0.96), "after");
  EXPECT_EQ(best(1.00, 1.01), "plain");
  EXPECT_EQ(best_of({{.choice = "after", .standing = Standing::Timed, .median_s = 1}}, choices)->choice, "after");
  EXPECT_EQ(best_of({{.choice = "plain", .standing = Standing::Wrong}}, choices), nullptr);
}

}  // namespace
}  // namespace toroid::tune
