// For tests: compiles programs in text form with implementations of the test's choice.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "driver/end_to_end/compiled_for_test.h"
#include "runtime/kernels/registry/registry.h"
#include "tune/choice_hash.h"

namespace toroid {

struct LockedModel {
  CompiledModel model;
  std::vector<std::string> choices;  // in the order in which they were asked for
};

// `takes`: whether this choice is taken of those that may compete; where none is, the first that may. The program is compiled with a lock,
// whose errors say what it lacks yet.
inline LockedModel compiled_with(const std::string& text, const std::function<bool(const Problem&, const Choice&)>& takes) {
  LockedModel result;
  std::string lock = "toroid choices 1\n";
  for (;;) {
    CompileModelOptions options;
    options.keep_program = true;
    options.optimization = test_optimisation();
    options.choose.lock = tune::ChoiceLock::parse(lock, "model.lock");
    try {
      result.model = TestSession::get().compile(parse_text(text), options);
      return result;
    } catch (const Error& error) {
      constexpr std::string_view kMissing = "model.lock has no choice for ";
      TOROID_CHECK(error.message().starts_with(kMissing), "{}", error.message());
      const Problem problem = parse_problem(error.message().substr(kMissing.size()));
      const std::vector<Choice> choices = runtime_choices().list_choices(problem, model_of_this_machine(2));
      auto may = [](const Choice& each) { return !each.gate; };
      auto found = std::find_if(choices.begin(), choices.end(), [&](const Choice& each) { return may(each) && takes(problem, each); });
      if (found == choices.end()) found = std::find_if(choices.begin(), choices.end(), may);
      lock += fmt::format("{} = {} {}\n", to_string(problem), found->name, tune::choice_hash(problem.family, *found));
      result.choices.push_back(found->name);
    }
  }
}

}  // namespace toroid
