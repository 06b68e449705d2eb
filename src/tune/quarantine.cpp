#include "tune/quarantine.h"

#include <fmt/format.h>

namespace toroid::tune {

CacheKey Quarantine::key_of(const std::string& family, const std::string& choice, const std::string& hash) const {
  KeyBuilder key("tuning-fault", 1);
  key.add("family", family).add("choice", choice).add("choice hash", hash);
  identity_.add_to(key);
  return key.finish();
}

std::optional<std::string> Quarantine::reason(const std::string& family, const std::string& choice, const std::string& hash) {
  const CacheKey key = key_of(family, choice, hash);
  const auto known = known_.find(key.hex);
  if (known != known_.end()) return known->second;
  return known_[key.hex] = cache_.get(key, Tier::Local);
}

void Quarantine::add(const std::string& problem, const std::string& family, const std::string& choice, const std::string& hash,
                     const std::string& fault) {
  const CacheKey key = key_of(family, choice, hash);
  const std::string text = fmt::format("{}, for {}", fault, problem);
  known_[key.hex] = text;
  cache_.store().put(key, text);
}

}  // namespace toroid::tune
