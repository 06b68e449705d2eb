// One problem with tensors, on which choices are tried: the worker's side of tuning. What a choice is, a kernel of the runtime or a program
// in a library, only the trial knows.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tune/measure/message.h"

namespace toroid::tune {

class Trial {
 public:
  virtual ~Trial() = default;

  struct Check {
    std::optional<std::string> fault = {};  // "output 0: element 17 is 3.5, expected 3.4 …"; nullopt when the result is right
    double seconds = 0;                     // of the second run: the first also pays for what is set up once
  };
  // Compares the choice's result with the reference's, twice. All throw what the choice throws.
  virtual Check check(std::string_view choice) = 0;
  // Makes what only time_s needs, so that it takes nobody's time. When all choices were checked that will be.
  virtual void provide(std::string_view /*choice*/) {}
  // Seconds of one run. `cold`: before each run the caches are emptied.
  virtual double time_s(std::string_view choice, uint64_t repetitions, bool cold) = 0;
};

// Makes the tensors that a request of Action::Prepare asks for, and computes the result that others are compared with. Throws Error: of
// memory, of a problem or choice that there is not, or what the reference throws.
using TrialMaker = std::function<std::unique_ptr<Trial>(const Request& request)>;

}  // namespace toroid::tune
