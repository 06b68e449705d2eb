#include "runtime/program/form_choice.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/clock.h"

namespace toroid {
namespace {

constexpr int32_t kBeingTimed = -2;
constexpr double kEnoughSeconds = 10e-3;  // no round begins after this, but for the first three: in the first, memory comes into caches
constexpr int kLeastRounds = 3, kMostRounds = 12;
constexpr double kNearlySame = 0.98;

// Until it is settled, others may begin anew.
class Claim {
 public:
  explicit Claim(int32_t& form) : form_(form) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim() { __atomic_store_n(&form_, settled_, __ATOMIC_RELAXED); }
  void settle(int32_t form) { settled_ = form; }

 private:
  int32_t& form_;
  int32_t settled_ = kUnknownForm;
};

}  // namespace

void choose_form(int32_t& form, int32_t count, void (*run)(void* argument, int32_t form), void* argument) {
  int32_t known = kUnknownForm;
  if (!__atomic_compare_exchange_n(&form, &known, kBeingTimed, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    return run(argument, std::max(known, 0));
  Claim claim(form);
  std::vector<double> least(static_cast<size_t>(count), std::numeric_limits<double>::infinity());
  const Stopwatch all;
  for (int round = 0; round < kLeastRounds || (round < kMostRounds && all.seconds() < kEnoughSeconds); ++round) {
    for (int32_t i = 0; i < count; ++i) {
      const int32_t each = round % 2 == 0 ? i : count - 1 - i;
      const Stopwatch watch;
      run(argument, each);
      least[static_cast<size_t>(each)] = std::min(least[static_cast<size_t>(each)], watch.seconds());
    }
  }
  size_t best = 0;
  for (size_t i = 1; i < least.size(); ++i) {
    if (least[i] < kNearlySame * least[best]) best = i;
  }
  claim.settle(static_cast<int32_t>(best));
}

}  // namespace toroid
