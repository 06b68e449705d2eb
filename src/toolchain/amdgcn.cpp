#include "toolchain/amdgcn.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "base/file/kept_files.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/images.h"
#include "support/process/subprocess.h"
#include "toolchain/compiler_environment.h"

namespace toroid {
namespace fs = std::filesystem;
namespace {

constexpr int kNewest = 29, kOldest = 14;

struct AmdCompiler {
  fs::path path;
  std::string version;  // the first line that it says
};

constexpr const char* kHelp = "install clang and lld (on Debian 12: clang-19 lld-19) or ROCm, or name the compiler in TOROID_AMD_CLANG";

// Its linker is in its own folder, or where programs are.
bool has_linker(const fs::path& clang) {
  std::error_code none;
  const fs::path real = fs::canonical(clang, none);
  return (!none && fs::exists(real.parent_path() / "lld")) || find_program("lld").has_value();
}

std::optional<fs::path> find_clang() {
  std::vector<std::string> names;
  if (const char* rocm = std::getenv("ROCM_PATH"); rocm != nullptr && *rocm != '\0')
    names.push_back(fmt::format("{}/llvm/bin/clang", rocm));
  names.emplace_back("/opt/rocm/llvm/bin/clang");
  for (int version = kNewest; version >= kOldest; --version) names.push_back(fmt::format("clang-{}", version));
  names.emplace_back("clang");
  for (const std::string& name : names) {
    const std::optional<fs::path> path = find_program(name);
    if (path && has_linker(*path)) return path;
  }
  return std::nullopt;
}

AmdCompiler find_amd_compiler() {
  const char* named = std::getenv("TOROID_AMD_CLANG");
  const bool is_named = named != nullptr && *named != '\0';
  const std::optional<fs::path> path = is_named ? find_program(named) : find_clang();
  if (!path) {
    throw Error(ErrorKind::Environment, is_named ? fmt::format("TOROID_AMD_CLANG is '{}', which is no program", named)
                                                 : "no compiler for AMD's GPUs: neither ROCm's clang nor one of PATH with lld beside it")
        .help(kHelp);
  }
  const ProcessResult said = run_process(compiler_process({path->string(), "--version"}));
  const std::string first = said.output.substr(0, said.output.find('\n'));
  if (!said.ok() || first.find("clang") == std::string::npos)
    throw Error(ErrorKind::Environment, fmt::format("{} is no clang: '--version' {}", path->string(), said.outcome())).help(kHelp);
  return {*path, first};
}

const AmdCompiler& amd_compiler() {
  static const AmdCompiler compiler = find_amd_compiler();
  return compiler;
}

int number_behind(std::string_view line, std::string_view word) {
  const size_t at = line.find(word);
  int number = 0;
  if (at != std::string_view::npos) std::from_chars(line.data() + at + word.size(), line.data() + line.size(), number);
  return number;
}

// Of remarks: a line for each thing that a kernel takes, behind one with its name.
std::vector<KernelResources> remarks_in(std::string_view log) {
  std::vector<KernelResources> result;
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (line.find("remark:") == std::string_view::npos) continue;
    constexpr std::string_view kName = "Function Name: ";
    if (const size_t at = line.find(kName); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + kName.size());
      result.push_back({.kernel = std::string(rest.substr(0, rest.find(' ')))});
    } else if (!result.empty()) {
      KernelResources& its = result.back();
      if (line.find(" VGPRs: ") != std::string_view::npos) its.registers = number_behind(line, " VGPRs: ");
      its.spilled_bytes += 4 * (number_behind(line, "SGPRs Spill: ") + number_behind(line, "VGPRs Spill: "));
      its.shared_bytes += number_behind(line, "LDS Size [bytes/block]: ");
    }
  }
  return result;
}

std::string first_errors(std::string_view log) {
  constexpr int kLines = 12;
  std::string text;
  int lines = 0;
  while (!log.empty() && lines < kLines) {
    const size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (line.find("remark:") != std::string_view::npos || (text.empty() && line.find("error") == std::string_view::npos)) continue;
    text += std::string(line) + "\n";
    ++lines;
  }
  return text;
}

}  // namespace

bool is_amd_architecture(std::string_view architecture) { return architecture.starts_with("gfx"); }

int amd_number_of(std::string_view architecture) {
  if (!is_amd_architecture(architecture)) return 0;
  const std::string_view digits = architecture.substr(3);
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) return 0;
  const bool is_gfx9 = digits.size() == 3 && digits[0] == '9';
  const bool is_later = digits.size() == 4 && digits[0] == '1' && digits[1] >= '0' && digits[1] <= '2';
  return is_gfx9 || is_later ? number : 0;
}

std::string amd_architecture(int gpu) {
  if (const char* named = std::getenv("TOROID_AMD_ARCH"); named != nullptr && *named != '\0') return named;
  if (const auto absence = cuda::absence(cuda::Vendor::Amd)) {
    throw Error(ErrorKind::Environment, fmt::format("it is not known what to compile for: {}", *absence))
        .help("name the GPU's architecture with --arch or in TOROID_AMD_ARCH, as gfx90a");
  }
  cuda::use(cuda::Vendor::Amd);
  return cuda::architecture_of(cuda::Device::get(gpu).compute_capability());
}

int wave_of(std::string_view architecture) { return amd_number_of(architecture) < 0x1000 ? 64 : 32; }

std::string amd_compiler_version() { return fmt::format("{} ({})", amd_compiler().version, amd_compiler().path.string()); }

CudaBinary compile_amd(std::string_view source, std::string_view architecture, std::string_view name) {
  const AmdCompiler& compiler = amd_compiler();
  const TempFolder folder("toroid-amd");
  const fs::path object = folder.path() / "kernels.hsaco";
  // Numbers: as HIP has them, which are those of IEEE 754 with contraction inside of expressions and statements.
  ProcessOptions process =
      compiler_process({compiler.path.string(), "-x", "hip", "-", "-o", object.string(), "--cuda-device-only", "--no-gpu-bundle-output",
                        fmt::format("--offload-arch={}", architecture), "-nogpuinc", "-nogpulib", "-std=c++17", "-O3", "-w",
                        fmt::format("-DTOROID_WAVE={}", wave_of(architecture)), "-Rpass-analysis=kernel-resource-usage"},
                       folder.path());
  process.input = source;
  process.timeout = std::chrono::minutes(3);
  const ProcessResult result = run_process(process);
  if (result.ok()) return {read_file(object), remarks_in(result.errors)};
  const bool is_unknown = result.errors.find("unsupported HIP gpu architecture") != std::string::npos ||
                          result.errors.find("invalid target ID") != std::string::npos ||
                          result.errors.find("is not a recognized processor") != std::string::npos;
  if (is_unknown) {
    throw Error(ErrorKind::Environment, fmt::format("{} does not know the GPU {}", compiler.version, architecture))
        .help("gfx942 needs clang 17, gfx1100 clang 15, gfx90a clang 14: install a later one, or name it in TOROID_AMD_CLANG");
  }
  if (const auto kept = kept_files_folder()) keep_file(*kept, name, "hip", source);
  throw Error(ErrorKind::ToolFailed, fmt::format("clang does not compile {} for {}: it {}", name, architecture, result.outcome()))
      .at(first_errors(result.errors))
      .help("this is a bug in toroid: report it with the model; TOROID_KEEP_FILES names a folder for the source");
}

CudaBinary compile_for_gpu(std::string_view source, std::string_view architecture, std::string_view name) {
  return is_amd_architecture(architecture) ? compile_amd(source, architecture, name) : compile_cuda(source, architecture, name);
}

std::string gpu_compiler_version(bool is_amd) { return is_amd ? amd_compiler_version() : nvrtc_version(); }

}  // namespace toroid
