// How a cache key fared, for people and as JSON: whether there is an entry, and if not, how the nearest one differs.
#pragma once

#include <nlohmann/json.hpp>

#include "driver/compile.h"

namespace toroid::cli {

// {"key": …, "result": "hit" | "miss", "parts": {label: text}, "differs": [{"part": …, "here": …, "nearest": …}]}; "differs" after a miss.
nlohmann::ordered_json explanation(const CacheLookup& lookup);
// On `out`, a few lines.
void print_explanation(std::FILE* out, const CacheLookup& lookup);

}  // namespace toroid::cli
