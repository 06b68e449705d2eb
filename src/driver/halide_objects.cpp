#include "driver/halide_objects.h"

#include <optional>

#include "base/error.h"
#include "toolchain/halide/script.h"

namespace toroid {
namespace {

constexpr int kHalideKeyVersion = 1;

}  // namespace

CompileHalide cached_halide(Cache& cache, int jobs) {
  return [&cache, jobs](std::span<const std::string> pipelines, const std::string& target) {
    const std::string version = halide_version();
    std::vector<CacheKey> keys;
    std::vector<std::optional<std::string>> found;
    std::vector<std::string> missing;
    for (const std::string& pipeline : pipelines) {
      keys.push_back(KeyBuilder("halide", kHalideKeyVersion)
                         .add_source("pipeline", pipeline)
                         .add("target", target)
                         .add("compiler", version)
                         .add_source("script", kHalideScript)
                         .finish());
      found.push_back(cache.get(keys.back()));
      if (!found.back()) missing.push_back(pipeline);
    }
    std::vector<std::string> made;
    if (!missing.empty()) made = compile_halide(missing, target, jobs);
    std::vector<std::string> all;
    for (size_t i = 0, next = 0; i < found.size(); ++i) {
      if (!found[i]) {
        found[i] = std::move(made[next++]);
        cache.put(keys[i], *found[i]);
      }
      all.push_back(std::move(*found[i]));
    }
    return all;
  };
}

std::string halide_part(bool may_take) {
  if (!may_take) return "";
  try {
    return halide_version();
  } catch (const Error&) {  // it matters only where a pipeline is compiled, and then it is an error
    return "none";
  }
}

}  // namespace toroid
