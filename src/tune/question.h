// What is to be computed, and the ways to do it, of which one is to be chosen. Who asks knows what they are: kernels of the runtime for a
// library call, or programs for a step of a GPU's.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/kernels/registry/registry.h"

namespace toroid::tune {

struct Question {
  std::string problem;          // its name: in caches, in locks, for people
  std::string family;           // faults of a choice count for all problems of its family
  std::vector<Choice> choices;  // the first that may compete is the reference
  std::string trial = {};       // what workers are told to try (Request::problem); empty: the problem
  double needed_bytes = 0;      // of memory, while it is tried
  // Makes what workers try; called when something is to be measured. The choices that cannot be had, by name, with the reason.
  std::function<std::map<std::string, std::string>()> prepare = {};
  // So many times as quick as the reference another choice must be: what gains nothing need not change a program.
  double least_gain = 1;
};

// Of a library call. Throws as ChoiceRegistry::list_choices.
Question question_of(const ChoiceRegistry& registry, const Problem& problem, const MachineModel& machine);

}  // namespace toroid::tune
