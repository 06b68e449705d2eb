// Remembers what was learnt by running a tool: a compiler's version and fingerprint, the instructions that work here.
// Keys hold everything that the result depends on, so an entry never goes stale; losing one costs 0.1 s.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace toroid {

// Both functions may be empty: then every process probes anew.
struct ProbeCache {
  std::function<std::optional<std::string>(const std::string& key)> get;
  std::function<void(const std::string& key, const std::string& value)> put;
};

}  // namespace toroid
