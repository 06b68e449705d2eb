// From problem to choice, with kernels that do what no kernel should.
#include "tune/tuner.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error_for_test.h"
#include "cache/scratch_cache_for_test.h"
#include "cache/transfer.h"
#include "planted_choices.h"

namespace toroid::tune {
namespace {
using namespace std::chrono_literals;

// A problem for which only these choices may compete; none: all.
Problem problem_for(std::initializer_list<std::string_view> choices, int64_t size = 1000) {
  Problem problem = parse_problem(fmt::format("double.f32(f32[{0}]) -> f32[{0}]", size));
  for (std::string_view choice : choices) problem.integers.push_back(place_of(choice));
  return problem;
}

class TunerTest : public testing::Test {
 protected:
  TunerOptions options(Mode mode = Mode::Max) {
    TunerOptions options;
    options.mode = mode;
    options.worker = {.argv = {"/proc/self/exe", "tuning-worker"}, .graceful = 200ms, .terminate = 100ms};
    options.measure = {.result_timeout = 20s, .rounds = {.rounds = 3, .round_s = 1e-3}};  // a busy machine is slow
    return options;
  }
  Cache& cache() {
    if (!cache_) cache_.emplace();
    return *cache_;
  }
  // As a new process would: nothing is left but what is on disk.
  void reopen() { cache_.reset(); }

  ScratchCache scratch_;
  std::optional<Cache> cache_;
};

struct Expected {
  const char* choice;
  Standing standing;
  const char* reason;  // how it begins
};

TEST_F(TunerTest, EachBadCandidateCostsItselfAlone) {
  const Expected expected[] = {
      {"plain", Standing::Timed, ""},
      {"quick", Standing::Timed, ""},
      {"slow", Standing::Timed, ""},
      {"crashes", Standing::Faulty, "was killed by signal 11 (Segmentation fault)"},
      {"aborts", Standing::Faulty, "was killed by signal 6 (Aborted): terrible happened"},
      {"hangs", Standing::Faulty, "did not end within 0.7 s"},
      {"ignores-sigterm", Standing::Faulty, "did not end within 0.7 s"},
      {"stops", Standing::Faulty, "did not end within 0.7 s"},
      {"reads-beyond", Standing::Faulty,
       "was killed by signal 11 (Segmentation fault): accessed memory 128 bytes beyond the end of input 0"},
      {"reads-before", Standing::Faulty, "was killed by signal 11 (Segmentation fault): accessed memory 5000 bytes before input 0"},
      {"writes-beyond", Standing::Wrong, "wrote beyond the end of output 0"},
      {"writes-far-beyond", Standing::Faulty,
       "was killed by signal 11 (Segmentation fault): accessed memory 128 bytes beyond the end of output 0"},
      {"writes-before", Standing::Wrong, "wrote before output 0"},
      {"writes-input", Standing::Faulty, "was killed by signal 11 (Segmentation fault): wrote to input 0"},
      {"wrong", Standing::Wrong, "output 0: element 7 is "},
      {"leaves-out", Standing::Wrong, "output 0: element 999 is nan, expected "},
      {"right-only-once", Standing::Wrong, "output 0: element 0 is 0, expected "},
      {"exits", Standing::Faulty, "exited with status 0 instead of returning"},
      {"exits-with-status", Standing::Faulty, "exited with status 3"},
      {"prints-without-end", Standing::Faulty, "printed more than 1048576 bytes: "},
      {"closes-everything", Standing::Faulty, ""},  // its end may be seen before its time is up
      {"throws", Standing::Refused, "no workspace is left"},
      {"throws-something-else", Standing::Refused, "vector of nothing"},
      {"leaves-a-child", Standing::Faulty, "exited with status 1"},
      {"is-killed", Standing::Refused, "was killed by signal 9 (Killed)"},  // as the machine does when memory runs out
      {"last", Standing::Timed, ""},
      {"quick-if-warm", Standing::Timed, ""},
  };
  {
    TunerOptions impatient = options();
    impatient.measure.result_timeout = 700ms;
    Tuner tuner(planted_choices(), cache(), impatient);
    const Decision& decision = tuner.choose(problem_for({}));
    EXPECT_TRUE(decision.choice == "quick" || decision.choice == "quick-if-warm") << decision.choice << ": these two do the same here";
    EXPECT_EQ(decision.source, Source::Measured);
    ASSERT_EQ(decision.outcomes.size(), std::size(expected));
    for (const Expected& row : expected) {
      const Outcome* outcome = decision.find(row.choice);
      ASSERT_NE(outcome, nullptr) << row.choice;
      EXPECT_EQ(to_string(outcome->standing), to_string(row.standing)) << row.choice << ": " << outcome->reason;
      EXPECT_TRUE(outcome->reason.starts_with(row.reason)) << row.choice << ": " << outcome->reason;
    }
    EXPECT_EQ(tuner.counters().candidates_tried, std::size(expected));
    EXPECT_EQ(tuner.counters().candidates_quarantined, 19u);
    EXPECT_GE(decision.find("plain")->median_s, 1e-3);
    EXPECT_GE(decision.find("slow")->fastest_s, 4e-3);
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "no worker is left";
}

TEST_F(TunerTest, TheSecondRunTunesNothing) {
  const Problem problem = problem_for({"plain", "quick", "slow"});
  Tuner(planted_choices(), cache(), options()).choose(problem);
  reopen();
  Tuner tuner(planted_choices(), cache(), options());
  const Decision& decision = tuner.choose(problem);
  EXPECT_EQ(decision.choice, "quick");
  EXPECT_EQ(decision.source, Source::Remembered);
  EXPECT_EQ(decision.find("plain")->rounds, 2) << "with its times";
  EXPECT_EQ(tuner.counters().remembered, 1u);
  EXPECT_EQ(tuner.counters().candidates_tried, 0u);
  EXPECT_EQ(tuner.counters().workers_started, 0u);
  EXPECT_EQ(&tuner.choose(problem), &decision) << "and within a process nothing is even looked up";
  EXPECT_EQ(tuner.counters().remembered, 1u);
  EXPECT_EQ(cache().store().counters().at("problems tuned"), 1);
  EXPECT_EQ(cache().store().counters().at("tuning results found"), 1);
}

TEST_F(TunerTest, ResultsHoldForTheMachineTheKernelsAndTheExactProblem) {
  const Problem problem = problem_for({"plain", "quick"});
  Tuner(planted_choices(), cache(), options()).choose(problem);
  auto source_with = [&](const std::function<void(TunerOptions&)>& change, const Problem& asked) {
    TunerOptions changed = options();
    change(changed);
    return to_string(Tuner(planted_choices(), cache(), changed).choose(asked).source);
  };
  EXPECT_EQ(source_with([](TunerOptions&) {}, problem), "remembered");
  EXPECT_EQ(source_with([](TunerOptions& o) { o.identity.machine = "another"; }, problem), "measured");
  EXPECT_EQ(source_with([](TunerOptions& o) { o.identity.isa = "another"; }, problem), "measured");
  EXPECT_EQ(source_with([](TunerOptions& o) { o.identity.toolchain = "another"; }, problem), "measured");
  EXPECT_EQ(source_with([](TunerOptions& o) { o.measure.threads = 2; }, problem), "measured");
  auto cold = [](TunerOptions& o) {
    o.measure.cold = true;
    o.measure.rounds.rounds = 1;
  };
  EXPECT_EQ(source_with(cold, problem), "measured");
  EXPECT_EQ(source_with([](TunerOptions&) {}, problem_for({"plain", "quick"}, 1001)), "measured");
  EXPECT_EQ(source_with([](TunerOptions&) {}, problem_for({"plain", "quick", "slow"})), "measured");
}

TEST_F(TunerTest, ResultsComeFromTheReadOnlyBase) {
  const std::filesystem::path base = scratch_.files() / "base";
  Tuner(planted_choices(), cache(), options()).choose(problem_for({"plain", "quick"}));
  EXPECT_EQ(export_entries(cache().store(), base, "tuning"), 1u);
  Cache elsewhere({.store = {.folder = scratch_.files() / "elsewhere"}, .remote = {}, .base = base});
  Tuner tuner(planted_choices(), elsewhere, options());
  EXPECT_EQ(tuner.choose(problem_for({"plain", "quick"})).source, Source::Remembered);
}

TEST_F(TunerTest, OffendersStayInQuarantine) {
  Tuner(planted_choices(), cache(), options()).choose(problem_for({"plain", "quick", "crashes", "wrong"}));
  reopen();
  // Another problem: what crashes there may crash here, and what computes wrongly must not be taken untried.
  const Problem other = problem_for({"plain", "quick", "crashes", "wrong"}, 2000);
  Tuner tuner(planted_choices(), cache(), options());
  const Decision& decision = tuner.choose(other);
  EXPECT_EQ(decision.choice, "quick");
  EXPECT_EQ(decision.find("crashes")->standing, Standing::Quarantined);
  const std::string& reason = decision.find("crashes")->reason;  // between these a sanitizer's last words
  EXPECT_TRUE(reason.starts_with("was killed by signal 11 (Segmentation fault)")) << reason;
  EXPECT_TRUE(reason.ends_with(", for double.f32(f32[1000]) -> f32[1000]; integers 0 1 3 14")) << reason;
  EXPECT_EQ(decision.find("wrong")->standing, Standing::Quarantined);
  EXPECT_EQ(tuner.counters().candidates_tried, 2u);
  EXPECT_EQ(tuner.counters().workers_started, 1u);

  TunerOptions elsewhere = options();
  elsewhere.identity.machine = "another";
  Tuner there(planted_choices(), cache(), elsewhere);
  EXPECT_EQ(there.choose(other).find("crashes")->standing, Standing::Faulty) << "another machine finds out by itself";
}

TEST_F(TunerTest, AFaultThatShowsLaterOverrulesWhatIsRemembered) {
  const Problem problem = problem_for({"plain", "quick", "slow"});
  Tuner first(planted_choices(), cache(), options());
  const Decision& before = first.choose(problem);
  // Which of them was quickest, and which came next, is the machine's matter.
  const Outcome &best = before.outcomes[0], &next = before.outcomes[1];
  ASSERT_EQ(best.choice, before.choice);
  ASSERT_EQ(next.standing, Standing::Timed);
  Quarantine(cache(), options().identity).add(to_string(problem_for({})), "double.f32", best.choice, best.hash, "did harm");
  Tuner second(planted_choices(), cache(), options());
  EXPECT_EQ(second.choose(problem).choice, next.choice) << table_text(before);
  EXPECT_EQ(second.choose(problem).source, Source::Remembered);
}

// In a network the layers between have driven a call's constants out of the caches.
TEST_F(TunerTest, ConstantsComeFromMemoryOtherInputsMayBeWarm) {
  const auto choice_for = [&](std::string_view input) {
    Problem problem = parse_problem(fmt::format("double.f32({}) -> f32[1000]", input));
    for (const char* choice : {"plain", "quick-if-warm"}) problem.integers.push_back(place_of(choice));
    return Tuner(planted_choices(), cache(), options()).choose(problem).choice;
  };
  EXPECT_EQ(choice_for("f32[1000]"), "quick-if-warm");
  EXPECT_EQ(choice_for("constant f32[1000]"), "plain");
}

TEST_F(TunerTest, OneChoiceNeedsNoBenchmark) {
  Tuner tuner(planted_choices(), cache(), options());
  const Decision& decision = tuner.choose(problem_for({"slow"}));
  EXPECT_EQ(decision.choice, "slow");
  EXPECT_EQ(decision.source, Source::OnlyOne);
  EXPECT_EQ(decision.find("quick")->reason, "this test does not want it");
  EXPECT_EQ(tuner.counters().workers_started, 0u);
}

TEST_F(TunerTest, NoUsableChoiceIsAnErrorWithReasons) {
  Tuner tuner(planted_choices(), cache(), options());
  const std::string report = error_of([&] { tuner.choose(problem_for({"crashes", "throws"})); }).report();
  EXPECT_TRUE(report.starts_with("error: no implementation of double.f32(f32[1000]) -> f32[1000]; integers 3 21 can be used\n")) << report;
  for (const char* line :
       {"\n  crashes: faulty: was killed by signal 11 (Segmentation fault)", "\n  throws: refused: no workspace is left\n",
        "\n  plain: gate closed: this test does not want it\n", "\n  while choosing an implementation of double.f32\n",
        "\n  help: choices in quarantine are tried again after 'toroid cache clear'; otherwise please report it"}) {
    EXPECT_NE(report.find(line), std::string::npos) << line << "in:\n" << report;
  }
}

TEST_F(TunerTest, AReferenceThatFailsGivesWayToTheNext) {
  Tuner tuner(planted_choices(), cache(), options());
  // In the order of the table the first of these is the reference.
  const Decision& decision = tuner.choose(problem_for({"crashes", "throws", "last"}));
  EXPECT_EQ(decision.find("crashes")->standing, Standing::Faulty);
  EXPECT_EQ(decision.find("throws")->standing, Standing::Refused);
  EXPECT_EQ(decision.choice, "last");
  EXPECT_EQ(tuner.counters().candidates_quarantined, 1u) << "an error is no harm";
}

TEST_F(TunerTest, OneWorkerServesAllProblems) {
  Tuner tuner(planted_choices(), cache(), options());
  for (int64_t size : {10, 100, 1000}) tuner.choose(problem_for({"plain", "quick"}, size));
  EXPECT_EQ(tuner.counters().measured, 3u);
  EXPECT_EQ(tuner.counters().workers_started, 1u);
}

TEST_F(TunerTest, TheDefaultModeMeasuresWhatIsCloseWhileItsBudgetLasts) {
  TunerOptions some = options(Mode::Default);
  some.close = 1.15;  // of "plain", the cheapest by its estimate, "quick" is within 10 %, "slow" is not
  Tuner tuner(planted_choices(), cache(), some);
  const Decision& decision = tuner.choose(problem_for({"plain", "quick", "slow"}));
  EXPECT_EQ(decision.choice, "quick");
  EXPECT_EQ(decision.find("slow")->standing, Standing::NotTried);
  EXPECT_EQ(tuner.choose(problem_for({"plain", "slow"})).source, Source::Estimate);
  EXPECT_EQ(tuner.choose(problem_for({"plain", "slow"})).choice, "plain");

  Tuner again(planted_choices(), cache(), some);
  EXPECT_EQ(again.choose(problem_for({"plain", "quick", "slow"})).source, Source::Remembered);
  Tuner thorough(planted_choices(), cache(), options(Mode::Max));
  EXPECT_EQ(thorough.choose(problem_for({"plain", "quick", "slow"})).source, Source::Measured) << "not all were tried";
  EXPECT_EQ(thorough.choose(problem_for({"plain", "quick", "slow"})).find("slow")->standing, Standing::Timed);

  some.budget_s = 0;
  Tuner poor(planted_choices(), cache(), some);
  EXPECT_EQ(poor.choose(problem_for({"plain", "quick"}, 5)).source, Source::Estimate);
  EXPECT_EQ(poor.counters().workers_started, 0u);
}

// With an epilogue, for these implementations.
Problem copy_for(std::initializer_list<std::string_view> implementations, int64_t rows = 100) {
  Problem problem = parse_problem(fmt::format("copy.f32(f32[{0}, 10]) -> f32[{0}, 10]; epilogue", rows));
  for (std::string_view each : implementations) problem.integers.push_back(place_of(each));
  return problem;
}

TEST_F(TunerTest, AnEpilogueComesAfterwardsWhereThatIsQuicker) {
  Tuner tuner(planted_choices(), cache(), options());
  EXPECT_EQ(tuner.choose(copy_for({"slow-with"})).choice, "slow-with-then-epilogue");
  EXPECT_EQ(tuner.choose(copy_for({"slow-alone"})).choice, "slow-alone");
  EXPECT_EQ(tuner.choose(copy_for({"slow-with", "slow-alone"})).find("slow-alone-then-epilogue")->standing, Standing::Timed);

  const Decision& cannot = tuner.choose(copy_for({"slow-with", "only-alone"}));
  EXPECT_TRUE(cannot.choice == "only-alone-then-epilogue" || cannot.choice == "slow-with-then-epilogue") << table_text(cannot);
  EXPECT_EQ(cannot.find("only-alone")->reason, "it gives its result to no epilogue");
  EXPECT_EQ(cannot.find("only-alone-then-epilogue")->standing, Standing::Timed);
  EXPECT_EQ(tuner.choose(copy_for({"only-alone"})).source, Source::OnlyOne);
  EXPECT_EQ(tuner.choose(copy_for({"only-alone"})).choice, "only-alone-then-epilogue");
  EXPECT_EQ(tuner.counters().candidates_quarantined, 0u);
}

TEST_F(TunerTest, FaultsOfOneFormAreNotTheOthers) {
  Tuner tuner(planted_choices(), cache(), options());
  const Decision& decision = tuner.choose(copy_for({"wrong-alone"}));
  EXPECT_EQ(decision.choice, "wrong-alone");
  EXPECT_EQ(decision.find("wrong-alone-then-epilogue")->standing, Standing::Wrong);
  EXPECT_EQ(tuner.choose(copy_for({"wrong-alone"}, 101)).find("wrong-alone-then-epilogue")->standing, Standing::Quarantined);
}

// Writing and reading 16 MB takes by the estimate nearly as long again as planted kernels say that they take.
TEST_F(TunerTest, AnEpilogueThatIsEstimatedToBeFarBehindIsNotTried) {
  const Problem problem = copy_for({"slow-with", "slow-alone"}, 400'000);
  Tuner tuner(planted_choices(), cache(), options());
  const Decision& decision = tuner.choose(problem);
  EXPECT_EQ(decision.source, Source::Measured);
  EXPECT_EQ(decision.find("slow-with-then-epilogue")->standing, Standing::NotTried);
  reopen();
  EXPECT_EQ(Tuner(planted_choices(), cache(), options()).choose(problem).source, Source::Remembered) << "it would not be tried now either";
}

TEST_F(TunerTest, ALockKnowsWhenTheEpilogueComes) {
  Tuner first(planted_choices(), cache(), options());
  first.choose(copy_for({"slow-with"}));
  TunerOptions locked = options();
  locked.lock = ChoiceLock::parse(first.as_lock().text(), "model.lock");
  Tuner replay(planted_choices(), cache(), locked);
  EXPECT_EQ(replay.choose(copy_for({"slow-with"})).choice, "slow-with-then-epilogue");
  EXPECT_EQ(replay.choose(copy_for({"slow-with"})).source, Source::Lock);
}

TEST_F(TunerTest, WhatTheMachineHasNoMemoryForIsEstimated) {
  Tuner tuner(planted_choices(), cache(), options());
  EXPECT_EQ(tuner.choose(problem_for({"plain", "quick"}, int64_t{1} << 50)).source, Source::Estimate);
  EXPECT_EQ(tuner.counters().workers_started, 0u);
}

TEST_F(TunerTest, AKernelThatTheMachineKillsIsNotQuarantined) {
  Tuner tuner(planted_choices(), cache(), options());
  const Decision& decision = tuner.choose(problem_for({"plain", "is-killed"}));
  EXPECT_EQ(decision.choice, "plain");
  EXPECT_EQ(decision.find("is-killed")->standing, Standing::Refused);
  EXPECT_EQ(decision.find("is-killed")->reason, "was killed by signal 9 (Killed)");
  EXPECT_EQ(tuner.counters().candidates_quarantined, 0u);
}

TEST_F(TunerTest, WithoutAWorkerTheDefaultModeEstimatesAndMaxIsAnError) {
  TunerOptions lost = options(Mode::Default);
  lost.worker.argv = {"no-such-program-here"};
  Tuner tuner(planted_choices(), cache(), lost);
  EXPECT_EQ(tuner.choose(problem_for({"plain", "quick"})).source, Source::Estimate);
  lost.mode = Mode::Max;
  Tuner thorough(planted_choices(), cache(), lost);
  EXPECT_EQ(error_of([&] {
              thorough.choose(problem_for({"plain", "quick"}));
            }).message(),
            "cannot run 'no-such-program-here': no such program");
}

TEST_F(TunerTest, ALockReplaysChoicesExactly) {
  Tuner first(planted_choices(), cache(), options());
  first.choose(problem_for({"plain", "quick"}));
  first.choose(problem_for({"slow"}));
  const std::string text = first.as_lock().text();
  auto tuner_with = [&](const std::string& lock) {
    TunerOptions locked = options();
    locked.lock = ChoiceLock::parse(lock, "model.lock");
    return locked;
  };
  Tuner replay(planted_choices(), cache(), tuner_with(text));
  EXPECT_EQ(replay.choose(problem_for({"plain", "quick"})).choice, "quick");
  EXPECT_EQ(replay.choose(problem_for({"slow"})).source, Source::Lock);
  EXPECT_EQ(replay.counters().locked, 2u);
  EXPECT_EQ(replay.counters().workers_started, 0u);
  EXPECT_EQ(replay.as_lock().text(), text);

  EXPECT_EQ(error_of([&] { replay.choose(problem_for({"quick"}, 3)); }).report(),
            "error: model.lock has no choice for double.f32(f32[3]) -> f32[3]; integers 1\n"
            "  while choosing an implementation of double.f32\n"
            "  help: write the lock anew for this model, or compile without it");
  const std::string problem = to_string(problem_for({"quick"}));
  auto refusal = [&](const std::string& choice) {
    Tuner tuner(planted_choices(), cache(), tuner_with("toroid choices 1\n" + problem + " = " + choice + "\n"));
    return error_of([&] { tuner.choose(problem_for({"quick"})); }).message();
  };
  const std::string hash = first.choose(problem_for({"plain", "quick"})).hash;
  EXPECT_EQ(refusal("brilliant 0123"), "model.lock takes 'brilliant' for " + problem + ", which this version of toroid does not have");
  EXPECT_EQ(refusal("quick 0123"), "model.lock takes 'quick' for " + problem + ", which has changed since");
  EXPECT_EQ(refusal("slow " + first.choose(problem_for({"slow"})).hash),
            "model.lock takes 'slow' for " + problem + ", which may not be taken here: this test does not want it");
  EXPECT_EQ(refusal("quick " + hash), "no error");
}

std::vector<Question> questions_about(std::initializer_list<std::string_view> choices) {
  std::vector<Question> questions;
  for (int64_t size : {10, 100, 1000, 2000, 100})
    questions.push_back(question_of(planted_choices(), problem_for(choices, size), model_of_this_machine(1)));
  return questions;
}

TEST_F(TunerTest, SeveralWorkersShareTheProblems) {
  TunerOptions two = options();
  two.others = {two.worker};
  Tuner tuner(planted_choices(), cache(), two);
  std::vector<size_t> measured;
  const auto decisions = tuner.choose_all(questions_about({"plain", "quick", "crashes"}), 60,
                                          [&](const std::vector<size_t>& positions) { measured = positions; });
  EXPECT_EQ(measured, (std::vector<size_t>{0, 1, 2, 3})) << "the last is the second once more";
  ASSERT_EQ(decisions.size(), 5u);
  EXPECT_EQ(decisions[1], decisions[4]);
  for (const Decision* decision : decisions) EXPECT_EQ(decision->choice, "quick") << table_text(*decision);
  EXPECT_EQ(tuner.counters().measured, 4u);
  EXPECT_GE(tuner.counters().workers_started, 2u);
}

// Of two processes one is killed in the middle of its second problem: the other measures that one and those that were not begun.
TEST_F(TunerTest, APartThatDiesCostsWhatItHadBegun) {
  const auto of_part = [&](int number) {
    TunerOptions part = options();
    part.part = {number, 2};
    return part;
  };
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<Question> questions = questions_about({"plain", "quick"});
    questions[3].prepare = []() -> std::map<std::string, std::string> {
      ::raise(SIGKILL);
      return {};
    };
    Cache own;
    Tuner(planted_choices(), own, of_part(2)).choose_all(questions, 60);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  Tuner tuner(planted_choices(), cache(), of_part(1));
  for (const Decision* decision : tuner.choose_all(questions_about({"plain", "quick"}), 60)) EXPECT_EQ(decision->choice, "quick");
  EXPECT_EQ(tuner.counters().remembered, 1u);
  EXPECT_EQ(tuner.counters().measured, 3u);
}

TEST_F(TunerTest, WhatThereIsNoTimeForIsEstimatedAndMeasuredTheNextTime) {
  const std::vector<Question> questions = questions_about({"plain", "quick"});
  Tuner late(planted_choices(), cache(), options());
  for (const Decision* decision : late.choose_all(questions, 0)) {
    EXPECT_EQ(decision->source, Source::Estimate);
    EXPECT_EQ(decision->choice, "plain");
  }
  EXPECT_EQ(late.counters().late, 4u);
  EXPECT_EQ(late.counters().workers_started, 0u);
  EXPECT_EQ(late.counters().summary(), "4 problems: 4 by estimate, of these 4 for want of time");
  Tuner again(planted_choices(), cache(), options());
  for (const Decision* decision : again.choose_all(questions, 60)) EXPECT_EQ(decision->source, Source::Measured);
}

TEST_F(TunerTest, WhatCannotBeMadeIsLeftOut) {
  Question question = questions_about({"plain", "quick", "slow"})[0];
  question.prepare = [] { return std::map<std::string, std::string>{{"quick", "its kernel spills 8 bytes of registers"}}; };
  Tuner tuner(planted_choices(), cache(), options());
  const Decision& decision = tuner.choose(question);
  EXPECT_EQ(decision.choice, "plain");
  EXPECT_EQ(decision.find("quick")->standing, Standing::Refused);
  EXPECT_EQ(decision.find("quick")->reason, "its kernel spills 8 bytes of registers");
  EXPECT_EQ(tuner.counters().candidates_tried, 2u);
  EXPECT_EQ(tuner.counters().candidates_quarantined, 0u);
}

TEST_F(TunerTest, ALittleQuickerIsNotEnoughWhereAQuestionSaysSo) {
  Question question = questions_about({"plain", "quick"})[0];
  question.least_gain = 1e9;
  EXPECT_EQ(Tuner(planted_choices(), cache(), options()).choose(question).choice, "plain");
  question.least_gain = 1;
  EXPECT_EQ(Tuner(planted_choices(), cache(), options()).choose(question).choice, "quick") << "the times are remembered, not the choice";
}

// The kernels of the runtime go the same way.
TEST_F(TunerTest, RuntimeKernelsAreTimed) {
  TunerOptions real = options();
  real.worker.argv = {"/proc/self/exe", "runtime-tuning-worker"};
  real.measure.threads = 2;
  Tuner tuner(runtime_choices(), cache(), real);
  int measured = 0;
  for (const char* problem :
       {"matmul.f32(f32[3, 300]@4, f32[300, 200]) -> f32[3, 200]",
        "matmul.f32(f32[2, 40, 30], f32[2, 30, 50]/[1500, 1, 30]) -> f32[2, 40, 50]",
        "convolution.f32(f32[1, 8, 20, 20], f32[8, 1, 3, 3], f32[8]) -> f32[1, 8, 20, 20]; integers 0 8 1 1 1 1 1 1 0 0",
        "convolution.f32(f32[1, 16, 9, 9]/[1296, 1, 144, 16], constant f32[16, 1, 3, 3]) -> f32[1, 16, 9, 9]/[1296, 1, 144, 16]; "
        "integers 0 16 1 1 1 1 1 1 0 0",
        "matmul.f32(f32[3, 5, 60], constant f32[3, 60, 70]/[0, 70, 1]) -> f32[3, 5, 70]; epilogue",
        "matmul.f32(f32[4, 60], f32[60, 1]) -> f32[4, 1]; epilogue",
        "matmul.bf16(bf16[33, 60], constant bf16[60, 70]/[1, 60]) -> bf16[33, 70]; epilogue",
        "matmul.f16(f16[1, 60], f16[60, 5001]) -> f16[1, 5001]; epilogue",
        "matmul.int8(f32[5, 64], constant i8[64, 70]) -> f32[5, 70]; epilogue",
        "matmul.int4(bf16[7, 64], constant u8[70, 32], constant f32[2, 70], constant f32[2, 70]) -> bf16[7, 70]; epilogue",
        "convolution.bf16(bf16[1, 32, 9, 9]/[2592, 1, 288, 32], constant bf16[48, 32, 3, 3]) -> bf16[1, 48, 9, 9]/[3888, 1, 432, 48]; "
        "integers 0 1 1 1 1 1 1 1 0 0; epilogue",
        "convolution.f32(f32[2, 12, 1, 1], constant f32[18, 12, 1, 1]) -> f32[2, 18, 1, 1]/[18, 1, 1, 1]; integers 0 1 1 1 0 0 1 1 0 0; "
        "epilogue",
        "convolution.f32(f32[1, 32, 14, 14]/[6272, 1, 448, 32], constant f32[48, 32, 3, 3]) -> f32[1, 48, 14, 14]/[9408, 1, 672, "
        "48]; "
        "integers 0 1 1 1 1 1 1 1 0 0; epilogue",
        "convolution.f32(f32[1, 32, 14, 14]/[6272, 1, 448, 32], constant f32[48, 32, 3, 3]) -> f32[1, 48, 14, 14]/[9408, 1, 672, "
        "48]; "
        "integers 0 1 1 1 1 1 1 1 0 0",
        "chain.f32{convolution.f32(f32[1, 12, 20, 20]/[4800, 1, 240, 12]@4, constant f32[48, 12, 1, 1]) -> f32[1, 48, 20, 20]/[19200, 1, "
        "960, 48]; "
        "integers 0 1 1 1 0 0 1 1 0 0; epilogue | convolution.f32(f32[1, 48, 20, 20]/[19200, 1, 960, 48], constant f32[48, 1, 3, 3]) -> "
        "f32[1, 48, 20, 20]/[19200, 1, 960, 48]; integers 0 48 1 1 1 1 1 1 0 0}"}) {
    const Decision& decision = tuner.choose(parse_problem(problem));
    // Those that are not the same implementation with its epilogue afterwards. Without AMX or oneDNN some problems have one, and nothing to
    // compare it with.
    int own = 0, timed = 0;
    for (const Outcome& outcome : decision.outcomes) {
      own += outcome.standing != Standing::GateClosed && !outcome.choice.ends_with("-then-epilogue") ? 1 : 0;
      timed += outcome.standing == Standing::Timed ? 1 : 0;
    }
    ASSERT_GE(own, 1) << table_text(decision);
    if (own < 2) continue;
    ++measured;
    EXPECT_EQ(decision.source, Source::Measured) << table_text(decision);
    EXPECT_GE(timed, 2) << table_text(decision);
  }
  EXPECT_GE(measured, 8) << "whatever the machine has";
  EXPECT_EQ(tuner.counters().candidates_quarantined, 0u);
}

}  // namespace
}  // namespace toroid::tune
