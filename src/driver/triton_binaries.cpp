#include "driver/triton_binaries.h"

#include <optional>

#include "base/error.h"
#include "driver/compiled_in_python.h"
#include "support/log.h"
#include "toolchain/triton/script.h"

namespace toroid {
namespace {

constexpr int kTritonKeyVersion = 1;

std::optional<TritonBinary> read_triton(const std::string& bytes) {
  try {
    return triton_binary_of(bytes);
  } catch (const Error& error) {
    log_debug("{}", error.message());
    return std::nullopt;
  }
}

}  // namespace

CompileTriton cached_triton(Cache& cache, int jobs) {
  return [&cache, jobs](std::span<const std::string> kernels, std::string_view architecture) {
    const auto key_of = [&, version = triton_version()](const std::string& kernel) {
      return KeyBuilder("triton", kTritonKeyVersion)
          .add_source("kernel", kernel)
          .add("architecture", std::string(architecture))
          .add("compiler", version)
          .add_source("script", kTritonScript)
          .finish();
    };
    const auto write = [](const TritonBinary& binary) { return to_bytes(binary); };
    return kept_or_made<TritonBinary>(cache, kernels, key_of, read_triton, write,
                                      [&](std::span<const std::string> missing) { return compile_triton(missing, architecture, jobs); });
  };
}

std::string triton_part(bool may_take) { return version_for_key(may_take, triton_version); }

}  // namespace toroid
