// Which choice a problem got, and what is known of the others.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/kernels/registry/registry.h"
#include "tune/identity.h"
#include "tune/measure/measure.h"

namespace toroid::tune {

enum class Source {
  Lock,        // the lock file says so
  OnlyOne,     // no other may compete
  Estimate,    // the cost model ranked; nothing was measured
  Measured,    // now
  Remembered,  // measured before: by this process, or found in the cache
};
std::string_view to_string(Source source);  // "lock", "only one", …

struct Decision {
  std::string problem;  // as of Question
  std::string choice;
  std::string hash;
  Source source = Source::Estimate;
  // One a choice of the family, the best first: those that were timed, then by their estimates, then those that are out.
  std::vector<Outcome> outcomes = {};
  double tuning_s = 0;  // that measuring took, when it was done

  const Outcome* find(std::string_view name) const;
  // Of one run of the choice: the median if it was timed, else the estimate.
  double run_s() const;
};

// The measured part, as it is cached; nullopt for bytes that are none.
std::string outcomes_to_bytes(const std::vector<Outcome>& outcomes);
std::optional<std::vector<Outcome>> outcomes_of(std::string_view bytes);

// The order that Decision::outcomes has.
void sort_by_standing(std::vector<Outcome>& outcomes);

// Was its result right?
bool is_usable(const Outcome& outcome);
// The quickest of those that are usable; where it is so by little, the reference (`least_gain`: Question), or an implementation that needs
// no memory for its whole result (Choice::then_epilogue). `outcomes`: sorted by standing. Null: there is none.
const Outcome* best_of(const std::vector<Outcome>& outcomes, const std::vector<Choice>& choices, double least_gain = 1);

// For people:
//
//   matmul.f32(f32[1, 2048], f32[2048, 1000]) -> f32[1, 1000]: few-rows-by-rows (measured)
//     few-rows-by-rows         0.2514 ms   100 %  0.2498 to 0.2611 in 7 rounds, estimated 0.2
//     packed                   0.4125 ms    61 %  …
//     few-rows-by-columns      gate closed: the right side's columns are not contiguous
std::string table_text(const Decision& decision);

// What measuring changed, for people: how many problems got another choice than the one with the best estimate, which mode default takes,
// and what each of them gained. A line, and one more for each change.
// `late`: of them those that there was no time to measure.
std::string changes_text(const std::vector<Decision>& decisions, uint64_t late = 0);

// All of them with every fact, as one JSON document: {"format": 1, "machine": …, "problems": [{"problem": …, "choices": [{"name":
// …}]}]}. Times in seconds.
std::string json_log(const std::vector<Decision>& decisions, const Identity& identity);

}  // namespace toroid::tune
