// Where temporaries lie in a program's arena (feature C7).
#pragma once

#include <cstdint>
#include <vector>

#include "base/span.h"

namespace toroid {

struct ArenaRequest {
  int64_t bytes = 0;
  int64_t first_step = 0;  // alive from here …
  int64_t last_step = 0;   // … to here, both included
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  // one per request, multiples of 64
  int64_t bytes = 0;             // of the whole arena
  int64_t lower_bound = 0;       // the most bytes alive in any one step
};

// Throws Error{InvalidInput} where the requests have more bytes than 63 bits count.
// Best fit, in the best of several orders; two requests that are alive in a common step never overlap.
ArenaPlan plan_arena(Span<const ArenaRequest> requests);

}  // namespace toroid
