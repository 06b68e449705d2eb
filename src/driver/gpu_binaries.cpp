#include "driver/gpu_binaries.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "driver/compile_options.h"

namespace toroid {

std::vector<std::string> parse_architectures(std::string_view list) {
  std::vector<std::string> result;
  for (std::string_view rest = list; !rest.empty();) {
    const std::string_view each = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), each.size() + 1));
    const bool is_ptx = each.starts_with("compute_"), is_code = each.starts_with("sm_");
    std::string_view digits = each.substr(std::min(each.size(), is_ptx ? size_t{8} : size_t{3}));
    if (is_code && digits.ends_with('a')) digits.remove_suffix(1);
    const bool is_number =
        digits.size() >= 2 && digits.size() <= 3 && std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!(is_ptx || is_code) || !is_number)
      throw Error(ErrorKind::InvalidOption, fmt::format("'{}' is no architecture", each))
          .help("write --arch sm_80,sm_90a for code, and compute_80 for text that later GPUs' drivers compile");
    if (std::find(result.begin(), result.end(), each) == result.end()) result.emplace_back(each);
  }
  return result;
}

std::vector<std::string> architectures_of(const CompileModelOptions& options) {
  return options.architectures.empty() ? std::vector{cuda_architecture(options.gpu)} : options.architectures;
}

schedule::TensorCores tensor_cores(const CompileModelOptions& options) {
  using schedule::TensorCores;
  constexpr int kLeastArchitecture = 80;  // whose tensor cores take bfloat16
  if (options.target == codegen::Target::EmulatedCuda && options.architectures.empty()) return TensorCores::Hopper;
  TensorCores cores = TensorCores::Hopper;
  for (const std::string& each : architectures_of(options)) {
    if (capability_of(each) < kLeastArchitecture) return TensorCores::None;
    if (each != "sm_90a") cores = TensorCores::Warps;
  }
  return cores;
}

std::vector<codegen::GpuBinary> binaries_of(size_t units, size_t triton_units, std::span<const std::string> architectures) {
  std::vector<codegen::GpuBinary> result;
  for (size_t unit = 0; unit < units + triton_units; ++unit) {
    for (const std::string& architecture : architectures) result.push_back({unit, architecture, unit >= units});
  }
  return result;
}

std::vector<std::string> complaints_of(const KernelResources& kernel) {
  std::vector<std::string> result;
  if (kernel.spilled_bytes > 0)
    result.push_back(fmt::format("the kernel {} spills {} bytes of registers", kernel.kernel, kernel.spilled_bytes));
  for (const std::string& warning : kernel.warnings) result.push_back(fmt::format("the kernel {}: {}", kernel.kernel, warning));
  return result;
}

}  // namespace toroid
