// Choices that did harm: they crashed, hung or computed something else. They are not tried again, nor taken untried for another
// problem, on this machine and with these kernels.
//
// Kept in the local store alone, as entries of the kind "tuning-fault": what goes wrong here may go well elsewhere. 'toroid cache
// clear' ends it, and so does a new version of the kernel or a new build.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "cache/cache.h"
#include "tune/identity.h"

namespace toroid::tune {

class Quarantine {
 public:
  Quarantine(Cache& cache, Identity identity) : cache_(cache), identity_(std::move(identity)) {}

  // What it did, with the problem: "was killed by signal 11 … for matmul.f32(…)"; nullopt when nothing is known against it.
  std::optional<std::string> reason(const std::string& family, const std::string& choice, const std::string& hash);
  void add(const std::string& problem, const std::string& family, const std::string& choice, const std::string& hash,
           const std::string& fault);

 private:
  CacheKey key_of(const std::string& family, const std::string& choice, const std::string& hash) const;

  Cache& cache_;
  Identity identity_;
  std::map<std::string, std::optional<std::string>> known_;  // by the key's hex: also where there is no store
};

}  // namespace toroid::tune
