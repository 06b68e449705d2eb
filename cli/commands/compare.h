// Tensors beside the ones that are expected: what `toroid compare` and `toroid run --expect` print.
#pragma once

#include <optional>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "arrays.h"
#include "flags/flags.h"
#include "interp/compare.h"

namespace toroid::cli {

// What was asked for; else the tolerances that `toroid conform` has for each dtype, relative to the row's scale (interp/compare.h).
struct AskedTolerance {
  double relative = -1, absolute = -1;  // below 0: not asked for
  void add_flags(Flags& flags);         // --rtol and --atol; one of them alone leaves the other 0
};

struct Comparison {
  std::string text;             // a line a tensor and one in all
  nlohmann::ordered_json json;  // {"equal": …, "tensors": [{"name": …, "elements": …, "differing": …, …}]}
  bool is_equal = true;
};
// Each expected tensor beside the one of its name; one that is missing differs. Those that nothing is expected of are named. Throws
// Error{InvalidInput} where nothing can be compared.
Comparison compare_tensors(std::span<const NamedTensor> actual, std::span<const NamedTensor> expected, const AskedTolerance& asked);

}  // namespace toroid::cli
