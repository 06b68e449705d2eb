#include "driver/triton_binaries.h"

#include <optional>

#include "base/error.h"
#include "support/log.h"
#include "toolchain/triton/script.h"

namespace toroid {
namespace {

constexpr int kTritonKeyVersion = 1;

std::optional<TritonBinary> kept(Cache& cache, const CacheKey& key) {
  const std::optional<std::string> bytes = cache.get(key);
  if (!bytes) return std::nullopt;
  try {
    return triton_binary_of(*bytes);
  } catch (const Error& error) {
    log_debug("{}", error.message());
    return std::nullopt;
  }
}

}  // namespace

CompileTriton cached_triton(Cache& cache, int jobs) {
  return [&cache, jobs](std::span<const std::string> kernels, std::string_view architecture) {
    const std::string version = triton_version();
    std::vector<CacheKey> keys;
    std::vector<std::optional<TritonBinary>> found;
    std::vector<std::string> missing;
    for (const std::string& kernel : kernels) {
      keys.push_back(KeyBuilder("triton", kTritonKeyVersion)
                         .add_source("kernel", kernel)
                         .add("architecture", std::string(architecture))
                         .add("compiler", version)
                         .add_source("script", kTritonScript)
                         .finish());
      found.push_back(kept(cache, keys.back()));
      if (!found.back()) missing.push_back(kernel);
    }
    std::vector<TritonBinary> made;
    if (!missing.empty()) made = compile_triton(missing, architecture, jobs);
    std::vector<TritonBinary> all;
    for (size_t i = 0, next = 0; i < found.size(); ++i) {
      if (!found[i]) {
        found[i] = std::move(made[next++]);
        cache.put(keys[i], to_bytes(*found[i]));
      }
      all.push_back(std::move(*found[i]));
    }
    return all;
  };
}

std::string triton_part(bool may_take) {
  if (!may_take) return "";
  try {
    return triton_version();
  } catch (const Error&) {  // it matters only where a kernel is compiled, and then it is an error
    return "none";
  }
}

}  // namespace toroid
