// The command with --device rocm where there is no GPU: libraries play HIP, hipBLASLt and the compiler (fake_hip.c).
#include <gtest/gtest.h>

#include "base/environment_for_test.h"
#include "base/file/file.h"
#include "support/process/subprocess.h"

namespace toroid {
namespace {

class RocmCommand : public testing::Test {
 protected:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  RocmCommand() {
    write_file_atomically(folder_.path() / "softmax.txt",
                          std::string_view("graph(x: f32[64, 48]) {\n  y: f32[64, 48] = aten::softmax.int(x, 1)\n  return y\n}\n"));
    write_file_atomically(folder_.path() / "mm.txt",
                          std::string_view("graph(x: f32[8, 16], y: f32[16, 4]) {\n  z: f32[8, 4] = aten::mm(x, y)\n  return z\n}\n"));
  }

  ProcessResult toroid(std::vector<std::string> arguments, Environment environment) const {
    arguments.insert(arguments.begin(), TOROID_COMMAND);
    for (const char* name : {"TOROID_AMD_ARCH", "TOROID_CUDA_ARCH"}) environment.push_back({name, ""});  // not the caller's
    environment.push_back({"TOROID_CACHE_DIR", (folder_.path() / "cache").string()});
    return run_process({.argv = arguments, .folder = folder_.path(), .environment = environment, .timeout = std::chrono::minutes(2)});
  }
  ProcessResult bench(const std::string& program, Environment environment) const {
    return toroid({"bench", program, "--device", "rocm", "--seconds", "0.01"}, std::move(environment));
  }
  static Environment fake(std::string how = "", std::string products = FAKE_HIP) {
    return {{"TOROID_HIP", FAKE_HIP},
            {"TOROID_HIPBLASLT", std::move(products)},
            {"TOROID_AMD_CLANG", FAKE_CLANG},
            {"FAKE_GPU", std::move(how)}};
  }

  TempFolder folder_{"toroid-rocm-test"};
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

TEST_F(RocmCommand, RunsAProgramAndTimesItOnTheDevice) {
  const ProcessResult result = bench("softmax.txt", fake());
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("1.0000 ms a call"), std::string::npos) << result.output;  // as the fake's events say
  EXPECT_NE(result.output.find("graph of 1 nodes"), std::string::npos) << result.output;
}

TEST_F(RocmCommand, MultipliesByTheLibraryWhereItIsThere) {
  const ProcessResult by_library = bench("mm.txt", fake());
  EXPECT_EQ(by_library.exit_code, 0) << by_library.errors;
  EXPECT_NE(by_library.output.find("2.0000 ms a call"), std::string::npos) << by_library.output;  // the quickest that it suggests
  const ProcessResult by_kernel = bench("mm.txt", fake("", "/nowhere/libhipblaslt.so"));
  EXPECT_EQ(by_kernel.exit_code, 0) << by_kernel.errors;
  EXPECT_NE(by_kernel.output.find("1.0000 ms a call"), std::string::npos) << by_kernel.output;
}

TEST_F(RocmCommand, SaysWhatIsMissing) {
  Environment environment = fake();
  environment[0].second = "/nowhere/libamdhip64.so";
  const ProcessResult result = bench("softmax.txt", environment);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(first_line(result.errors), "error: it is not known what to compile for: no ROCm: /nowhere/libamdhip64.so cannot be opened");
  EXPECT_NE(result.errors.find("help: name the GPU's architecture with --arch or in TOROID_AMD_ARCH, as gfx90a"), std::string::npos);
  EXPECT_EQ(first_line(bench("softmax.txt", fake("absent")).errors),
            "error: it is not known what to compile for: no AMD GPU: HIP is there, and sees none");
  environment = fake();
  environment[2].second = "/nowhere/clang";
  EXPECT_EQ(first_line(bench("softmax.txt", environment).errors), "error: TOROID_AMD_CLANG is '/nowhere/clang', which is no program");
}

TEST_F(RocmCommand, SaysWhatGoesWrongOnTheDevice) {
  EXPECT_EQ(first_line(bench("softmax.txt", fake("full")).errors),
            "error: asking the GPU for 12288 bytes fails: hipErrorOutOfMemory (out of memory)");
  const ProcessResult fault = bench("softmax.txt", fake("fault"));
  EXPECT_NE(fault.errors.find("hipErrorIllegalAddress"), std::string::npos) << fault.errors;
  EXPECT_NE(fault.errors.find("the HIP context is lost"), std::string::npos) << fault.errors;
}

TEST_F(RocmCommand, CompilesForGpusThatAreNotHere) {
  Environment environment = fake("absent");
  const ProcessResult result =
      toroid({"compile", "softmax.txt", "-o", "softmax.so", "--device", "rocm", "--arch", "gfx90a,gfx942"}, environment);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const ProcessResult unknown =
      toroid({"compile", "softmax.txt", "-o", "softmax.so", "--device", "rocm", "--arch", "gfx1250"}, environment);
  EXPECT_EQ(first_line(unknown.errors), "error: fake clang version 19.0.0 does not know the GPU gfx1250");
  const ProcessResult wrong = toroid({"compile", "softmax.txt", "-o", "softmax.so", "--device", "rocm", "--arch", "sm_90a"}, environment);
  EXPECT_EQ(first_line(wrong.errors), "error: 'sm_90a' is no architecture of AMD's");
  const ProcessResult measured =
      toroid({"compile", "softmax.txt", "-o", "softmax.so", "--device", "rocm", "--arch", "gfx90a", "--mode", "max"}, environment);
  EXPECT_EQ(first_line(measured.errors), "error: nothing is measured on AMD's GPUs yet");
}

TEST_F(RocmCommand, RecordedProgramsAreOnlyCompiledForGpus) {
  const auto refusal = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"conform", "."});
    return first_line(toroid(flags, fake()).errors);
  };
  EXPECT_EQ(refusal({"--compile-only"}), "error: --compile-only is for programs on GPUs");
  EXPECT_EQ(refusal({"--device", "rocm", "--arch", "gfx90a"}),
            "error: --arch is for --compile-only: else the GPU that is here runs the programs");
  EXPECT_EQ(refusal({"--device", "rocm", "--compile-only", "--arch", "sm_90"}), "error: 'sm_90' is no architecture of AMD's");
}

// A program for other GPUs of AMD's than the one that is here, which is a gfx90a.
TEST_F(RocmCommand, RefusesKernelsForOtherGpus) {
  ASSERT_EQ(toroid({"compile", "softmax.txt", "-o", "other.so", "--device", "rocm", "--arch", "gfx1100"}, fake()).exit_code, 0);
  const ProcessResult result = toroid({"bench", "other.so", "--seconds", "0.01"}, fake());
  EXPECT_EQ(first_line(result.errors), "error: the program's kernels are for gfx1100, and the GPU is gfx90a");
}

}  // namespace
}  // namespace toroid
