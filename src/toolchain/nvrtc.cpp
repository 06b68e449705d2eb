#include "toolchain/nvrtc.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/kept_files.h"
#include "base/file/system_library.h"
#include "runtime/cuda/device.h"
#include "toolchain/random_delays.h"

namespace toroid {
namespace {

using Result = int;
using Compilation = struct CompilationOpaque*;

// clang-format off
#define TOROID_NVRTC_FUNCTIONS(F)                                                                                              \
  F(version, "nvrtcVersion", Result(int*, int*))                                                                               \
  F(error_text, "nvrtcGetErrorString", const char*(Result))                                                                    \
  F(create, "nvrtcCreateProgram", Result(Compilation*, const char*, const char*, int, const char* const*, const char* const*)) \
  F(destroy, "nvrtcDestroyProgram", Result(Compilation*))                                                                      \
  F(compile, "nvrtcCompileProgram", Result(Compilation, int, const char* const*))                                              \
  F(log_size, "nvrtcGetProgramLogSize", Result(Compilation, size_t*))                                                          \
  F(log, "nvrtcGetProgramLog", Result(Compilation, char*))                                                                     \
  F(cubin_size, "nvrtcGetCUBINSize", Result(Compilation, size_t*))                                                             \
  F(cubin, "nvrtcGetCUBIN", Result(Compilation, char*))                                                                        \
  F(ptx_size, "nvrtcGetPTXSize", Result(Compilation, size_t*))                                                                 \
  F(ptx, "nvrtcGetPTX", Result(Compilation, char*))
// clang-format on

struct Functions {
  TOROID_LIBRARY_FUNCTIONS(TOROID_NVRTC_FUNCTIONS)
};

Functions look_up() {
  static const SystemLibrary library("NVRTC", "TOROID_NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"});
  library.require("kernels for a GPU are compiled by it: install CUDA's NVRTC, or name the file in TOROID_NVRTC");
  Functions functions;
  functions.look_up(library);
  return functions;
}

const Functions& nvrtc() {
  static const Functions functions = look_up();
  return functions;
}

void check(Result result, const char* what) {
  if (result != 0) throw Error(ErrorKind::ToolFailed, fmt::format("NVRTC fails to {}: {}", what, nvrtc().error_text(result)));
}

class OneCompilation {
 public:
  OneCompilation(const std::string& source, const std::string& name) {
    check(nvrtc().create(&handle_, source.c_str(), name.c_str(), 0, nullptr, nullptr), "start");
  }
  ~OneCompilation() { nvrtc().destroy(&handle_); }
  OneCompilation(const OneCompilation&) = delete;
  OneCompilation& operator=(const OneCompilation&) = delete;

  Result compile(const std::vector<std::string>& options) const {
    std::vector<const char*> list;
    for (const std::string& option : options) list.push_back(option.c_str());
    return nvrtc().compile(handle_, static_cast<int>(list.size()), list.data());
  }
  std::string log() const {
    size_t size = 0;
    check(nvrtc().log_size(handle_, &size), "give its messages");
    std::string text(size, '\0');
    check(nvrtc().log(handle_, text.data()), "give its messages");
    text.resize(text.find('\0') == std::string::npos ? size : text.find('\0'));
    return text;
  }
  std::string code(bool ptx) const {
    size_t size = 0;
    check((ptx ? nvrtc().ptx_size : nvrtc().cubin_size)(handle_, &size), "give its code");
    std::string bytes(size, '\0');
    check((ptx ? nvrtc().ptx : nvrtc().cubin)(handle_, bytes.data()), "give its code");
    return bytes;
  }

 private:
  Compilation handle_ = nullptr;
};

// The number before a word of a line: "Used 32 registers, 1024 bytes smem".
int number_before(std::string_view line, std::string_view word) {
  const size_t end = line.find(word);
  if (end == std::string_view::npos) return 0;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int number = 0;
  std::from_chars(line.data() + begin, line.data() + end, number);
  return number;
}

std::vector<KernelResources> resources_in(std::string_view log) {
  std::vector<KernelResources> result;
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    constexpr std::string_view kEntry = "Compiling entry function '";
    if (const size_t at = line.find(kEntry); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + kEntry.size());
      result.push_back({.kernel = std::string(rest.substr(0, rest.find('\'')))});
    } else if (!result.empty()) {
      result.back().registers += number_before(line, " registers");
      result.back().shared_bytes += number_before(line, " bytes smem");
      result.back().spilled_bytes += number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
      // Registers that a warpgroup cannot set, and products that wait for each other.
      for (std::string_view code : {"(C7508)", "(C7510)", "(C7511)"}) {
        if (const size_t at = line.find(code); at != std::string_view::npos) result.back().warnings.emplace_back(line.substr(at));
      }
    }
  }
  return result;
}

std::string beginning_of(const std::string& text, int lines) {
  size_t end = 0;
  for (int i = 0; i < lines && end != std::string::npos; ++i) end = text.find('\n', end == 0 ? 0 : end + 1);
  return text.substr(0, end);
}

}  // namespace

std::string nvrtc_version() {
  int major = 0, minor = 0;
  check(nvrtc().version(&major, &minor), "say its version");
  return fmt::format("NVRTC {}.{}", major, minor);
}

std::string cuda_architecture(int gpu) {
  if (const char* named = std::getenv("TOROID_CUDA_ARCH"); named != nullptr && *named != '\0') return named;
  if (const auto absence = cuda::absence()) {
    throw Error(ErrorKind::Environment, fmt::format("it is not known what to compile for: {}", *absence))
        .help("name the GPU's architecture in TOROID_CUDA_ARCH, as sm_90a");
  }
  const int capability = cuda::Device::get(gpu).compute_capability();
  return fmt::format("sm_{}{}", capability, capability >= 90 ? "a" : "");  // with what only this architecture has
}

int capability_of(std::string_view architecture) {
  int number = 0;
  for (const char c : architecture) {
    if (c >= '0' && c <= '9') number = 10 * number + (c - '0');
  }
  return number;
}

CudaBinary compile_cuda(std::string_view source, std::string_view architecture, std::string_view name) {
  constexpr int kLines = 12;
  const OneCompilation compilation(has_random_delays() ? with_random_delays(source) : std::string(source), fmt::format("{}.cu", name));
  const std::vector<std::string> options = {fmt::format("--gpu-architecture={}", architecture),
                                            "--std=c++17",
                                            "--minimal",
                                            "--device-as-default-execution-space",
                                            "--ptxas-options=-v",
                                            "--diag-suppress=177,550"};
  const Result result = compilation.compile(options);
  const std::string log = compilation.log();
  if (result != 0) {
    if (const auto folder = kept_files_folder()) keep_file(*folder, name, "cu", source);
    throw Error(ErrorKind::ToolFailed, fmt::format("NVRTC does not compile {}: {}", name, nvrtc().error_text(result)))
        .at(beginning_of(log, kLines))
        .help("this is a bug in toroid: report it with the model; TOROID_KEEP_FILES names a folder for the source");
  }
  return {compilation.code(architecture.starts_with("compute_")), resources_in(log)};
}

}  // namespace toroid
