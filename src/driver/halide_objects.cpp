#include "driver/halide_objects.h"

#include "driver/compiled_in_python.h"
#include "toolchain/halide/script.h"

namespace toroid {
namespace {

constexpr int kHalideKeyVersion = 1;

}  // namespace

CompileHalide cached_halide(Cache& cache, int jobs) {
  return [&cache, jobs](std::span<const std::string> pipelines, const std::string& target) {
    const auto key_of = [&, version = halide_version()](const std::string& pipeline) {
      return KeyBuilder("halide", kHalideKeyVersion)
          .add_source("pipeline", pipeline)
          .add("target", target)
          .add("compiler", version)
          .add_source("script", kHalideScript)
          .finish();
    };
    const auto read = [](const std::string& bytes) { return std::optional(bytes); };
    const auto write = [](const std::string& object) -> const std::string& { return object; };
    return kept_or_made<std::string>(cache, pipelines, key_of, read, write,
                                     [&](std::span<const std::string> missing) { return compile_halide(missing, target, jobs); });
  };
}

std::string halide_part(bool may_take) { return version_for_key(may_take, halide_version); }

}  // namespace toroid
