// oneDNN beside the reference, on tensors between guard pages as a tuning worker makes them.
#include "runtime/kernels/onednn/onednn.h"

#include <gtest/gtest.h>

#include "runtime/kernels/registry/registry.h"
#include "tune/measure/kernel_trial.h"

namespace toroid::tune {
namespace {

std::optional<std::string> gate_of_onednn(const Problem& problem) {
  for (const Choice& choice : runtime_choices().list_choices(problem, model_of_this_machine(2))) {
    if (choice.name == "onednn") return choice.gate;
  }
  return "there is no such choice";
}

TEST(OneDnn, AgreesWithTheReference) {
  if (const auto absence = onednn_absence()) GTEST_SKIP() << *absence;
  for (const char* text : {
           "matmul.f32(f32[64, 40], f32[40, 96]) -> f32[64, 96]",
           "matmul.f32(f32[1, 40], constant f32[40, 200]/[1, 40]) -> f32[1, 200]",
           "matmul.f32(f32[5, 1], f32[1, 7]) -> f32[5, 7]",
           "matmul.f32(f32[700, 33]/[1, 700], constant f32[33, 17]) -> f32[700, 17]",
           "matmul.f32(f32[700, 33], constant f32[33, 17]) -> f32[700, 17]; epilogue",
           "matmul.f32(f32[3, 40], constant f32[40, 150]) -> f32[3, 150]; epilogue",
           "matmul.f32(f32[2, 3, 50, 16], f32[2, 3, 16, 50]/[2400, 800, 1, 16]) -> f32[2, 3, 50, 50]",
           "matmul.f32(f32[2, 3, 50, 16]/[0, 800, 16, 1], f32[2, 3, 16, 50]) -> f32[2, 3, 50, 50]; epilogue",
           "matmul.f32(f32[4, 9, 16], constant f32[4, 16, 24]/[0, 24, 1]) -> f32[4, 9, 24]",
           "matmul.bf16(bf16[100, 64], constant bf16[64, 80]/[1, 64]) -> bf16[100, 80]",
           "matmul.bf16(bf16[100, 64], constant bf16[64, 80]/[1, 64]) -> bf16[100, 80]; epilogue",
           // Bands of rows: padded at either end, with a stride, a dilation, groups, several images, one dim.
           "convolution.f32(f32[1, 16, 9, 10]/[1440, 1, 160, 16], constant f32[24, 16, 3, 3]) -> f32[1, 24, 9, 10]/[2160, 1, 240, 24]; "
           "integers 0 1 1 1 1 1 1 1 0 0; epilogue",
           "convolution.f32(f32[2, 16, 11, 10]/[1760, 1, 160, 16], f32[24, 16, 3, 3]) -> f32[2, 24, 5, 4]/[480, 1, 96, 24]; "
           "integers 0 1 2 2 0 0 1 1 0 0",
           "convolution.f32(f32[1, 16, 11, 12]/[2112, 1, 192, 16], constant f32[8, 8, 3, 2]) -> f32[1, 8, 11, 6]/[528, 1, 48, 8]; "
           "integers 0 2 1 2 2 0 2 1 0 0; epilogue",
           "convolution.f32(f32[3, 16, 12, 12]/[2304, 1, 192, 16], constant f32[16, 1, 3, 3]) -> f32[3, 16, 6, 6]/[576, 1, 96, 16]; "
           "integers 0 16 2 2 1 1 1 1 0 0",
           "convolution.f32(f32[1, 8, 40]/[320, 1, 8], f32[8, 8, 5]) -> f32[1, 8, 40]/[320, 1, 8]; integers 0 1 1 2 1 0",
           // Bands that would see nothing but padding.
           "convolution.f32(f32[1, 4, 2, 2]/[16, 1, 8, 4], f32[4, 4, 1, 1]) -> f32[1, 4, 8, 8]/[256, 1, 32, 4]; integers 0 1 1 1 3 3 1 1 0 "
           "0",
       }) {
    const Problem problem = parse_problem(text);
    ASSERT_EQ(gate_of_onednn(problem), std::nullopt) << text;
    std::string reference;
    for (const Choice& choice : runtime_choices().list_choices(problem, model_of_this_machine(2))) {
      if (!choice.gate && reference.empty()) reference = choice.name;
    }
    ASSERT_NE(reference, "onednn") << text;
    for (const int threads : {1, 2, 3}) {
      KernelTrial trial(runtime_choices(), problem, reference, threads, 7);
      EXPECT_EQ(trial.check("onednn").fault, std::nullopt) << text << " with " << threads << " threads";
    }
  }
}

TEST(OneDnn, GatesSayWhy) {
  if (const auto absence = onednn_absence()) GTEST_SKIP() << *absence;
  const std::pair<const char*, const char*> rows[] = {
      {"matmul.f32(f32[4, 0], f32[0, 6]) -> f32[4, 6]", "an input has no elements"},
      {"matmul.f32(f32[4, 8]/[0, 1], f32[8, 6]) -> f32[4, 6]", "input 0 repeats its elements"},
      {"matmul.f32(f32[4, 8], f32[8, 6]/[20, 2]) -> f32[4, 6]", "neither rows nor columns of input 1 are contiguous"},
      {"convolution.f32(f32[1, 4, 9], f32[4, 4, 3]) -> f32[1, 4, 7]/[28, 1, 4]; integers 0 1 1 0 1 0",
       "the image's channels are not next to each other"},
      {"convolution.f32(f32[1, 4, 9]/[36, 1, 4], f32[4, 4, 3]) -> f32[1, 4, 7]; integers 0 1 1 0 1 0",
       "the output's channels are not next to each other"},
      {"convolution.f32(f32[1, 4, 9]/[36, 1, 4], f32[4, 4, 3], f32[4]) -> f32[1, 4, 7]/[28, 1, 4]; integers 0 1 1 0 1 0",
       "it adds no bias"},
      {"convolution.f32(f32[1, 4, 9], f32[4, 4, 3]) -> f32[1, 4, 11]; integers 1 1 1 0 1 0", "it is not for transposed convolutions"},
  };
  for (const auto& [problem, reason] : rows) EXPECT_EQ(gate_of_onednn(parse_problem(problem)), reason) << problem;
}

}  // namespace
}  // namespace toroid::tune
