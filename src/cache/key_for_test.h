// For tests: keys of entries that no compilation makes.
#pragma once

#include <string>

#include "cache/key.h"

namespace toroid {

inline CacheKey key_of(const std::string& source) { return KeyBuilder("kernel", 1).add_source("source", source).finish(); }

}  // namespace toroid
