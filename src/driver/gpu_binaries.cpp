#include "driver/gpu_binaries.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "driver/compile_options.h"
#include "toolchain/amdgcn.h"

namespace toroid {

namespace {

void check_architecture(std::string_view name, bool is_amd) {
  if (is_amd) {
    if (amd_number_of(name) == 0)
      throw Error(ErrorKind::InvalidOption, fmt::format("'{}' is no architecture of AMD's", name))
          .help("write gfx90a, gfx942, gfx1100 or another one of gfx9 to gfx12, as in --arch gfx90a,gfx942");
    return;
  }
  const bool is_ptx = name.starts_with("compute_"), is_code = name.starts_with("sm_");
  std::string_view digits = name.substr(std::min(name.size(), is_ptx ? size_t{8} : size_t{3}));
  if (is_code && digits.ends_with('a')) digits.remove_suffix(1);
  const bool is_number =
      digits.size() >= 2 && digits.size() <= 3 && std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!(is_ptx || is_code) || !is_number)
    throw Error(ErrorKind::InvalidOption, fmt::format("'{}' is no architecture", name))
        .help("write --arch sm_80,sm_90a for code, and compute_80 for text that later GPUs' drivers compile");
}

}  // namespace

std::vector<std::string> parse_architectures(std::string_view list, codegen::Target target) {
  std::vector<std::string> result;
  for (std::string_view rest = list; !rest.empty();) {
    const std::string_view each = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), each.size() + 1));
    check_architecture(each, is_amd(target));
    if (std::find(result.begin(), result.end(), each) == result.end()) result.emplace_back(each);
  }
  return result;
}

std::vector<std::string> architectures_of(const CompileModelOptions& options) {
  if (!options.architectures.empty()) return options.architectures;
  return {is_amd(options.target) ? amd_architecture(options.gpu) : cuda_architecture(options.gpu)};
}

cuda::Vendor vendor_of(const CompileModelOptions& options) { return is_amd(options.target) ? cuda::Vendor::Amd : cuda::Vendor::Nvidia; }

int wave_of(const CompileModelOptions& options) {
  if (!is_amd(options.target)) return 32;
  if (is_emulated(options.target) && options.architectures.empty()) return 64;
  int wave = 32;
  for (const std::string& each : architectures_of(options)) wave = std::max(wave, wave_of(each));
  return wave;
}

schedule::GpuLimits limits_of(const CompileModelOptions& options) {
  if (!is_amd(options.target)) return {};
  constexpr int64_t kLocalMemory = 64 << 10;
  return {.wave = wave_of(options), .shared_bytes = kLocalMemory};
}

schedule::TensorCores tensor_cores(const CompileModelOptions& options) {
  using schedule::TensorCores;
  if (is_amd(options.target)) return TensorCores::None;
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
