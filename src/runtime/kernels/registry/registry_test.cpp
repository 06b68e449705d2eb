#include "runtime/kernels/registry/registry.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "base/format.h"
#include "runtime/kernels/gemm/bf16x3/split.h"
#include "runtime/kernels/gemm/half/microkernel_bf16.h"
#include "runtime/kernels/gemm/int8/microkernel.h"
#include "runtime/kernels/isa/amx.h"

namespace toroid {
namespace {

constexpr MachineModel kMachine = {.threads = 2, .flops_per_s = 2e11, .bytes_per_s = 2e10, .cache_bytes = 3e7};

// "packed 1.2e-06, few-rows-by-rows: the right side's rows are not contiguous": names, and gates where they are closed. Without oneDNN,
// which a machine may lack: tune/onednn_test.cpp.
std::string gates(std::string_view problem) {
  std::string text;
  for (const Choice& choice : runtime_choices().list_choices(parse_problem(problem), kMachine)) {
    if (choice.name.starts_with("onednn")) continue;
    text += choice.name + (choice.gate ? ": " + *choice.gate : "") + "\n";
  }
  return text;
}

std::string cheapest(std::string_view problem) {
  return runtime_choices().cheapest_choice(parse_problem(problem), kMachine).value_or("none");
}

TEST(Choices, GatesSayWhy) {
  const std::string product =
      std::string("packed\nparts") + (has_amx_bf16x3() ? "" : ": the machine has no AMX, or does not let this process use it") + "\n";
  EXPECT_EQ(gates("matmul.f32(f32[4, 8], f32[8, 16]) -> f32[4, 16]"),
            product + "few-rows-by-rows\nfew-rows-by-columns: the right side's columns are not contiguous\n");
  EXPECT_EQ(gates("matmul.f32(f32[65, 8]/[1, 65], f32[8, 16]/[1, 8]) -> f32[65, 16]"),
            product +
                "few-rows-by-rows: the right side's rows are not contiguous\n"
                "few-rows-by-columns: the left side's rows are not contiguous\n");
  EXPECT_EQ(gates("matmul.f32(f32[5, 13, 8], f32[5, 8, 16]/[0, 1, 8]) -> f32[5, 13, 16]"),
            product +
                "few-rows-by-rows: the right side's rows are not contiguous\n"
                "few-rows-by-columns: it is for at most 64 rows, these are 65\n");
  EXPECT_EQ(gates("convolution.f32(f32[1, 4, 9], f32[6, 2, 3]) -> f32[1, 6, 7]; integers 0 2 1 0 1 0"),
            "image-columns\nimage-rows: the output's channels are not next to each other\n"
            "matrix-product: the output's channels are not next to each other\n"
            "adjoint-columns: it is for transposed convolutions\nplanes: a group has 2 input channels, not one\n"
            "winograd-4: the filters are not 3x3\nwinograd-2: the filters are not 3x3\n"
            "channel-vectors: a group has not one channel, nor as many as divide a vector or fill a few\n");
  EXPECT_EQ(gates("convolution.f32(f32[1, 4, 9], f32[4, 1, 3]) -> f32[1, 4, 11]; integers 1 4 1 0 1 0"),
            "image-columns: it is not for transposed convolutions\nimage-rows: the output's channels are not next to each other\n"
            "matrix-product: the output's channels are not next to each other\n"
            "adjoint-columns\nplanes: it is not for transposed convolutions\n"
            "winograd-4: the filters are not 3x3\nwinograd-2: the filters are not 3x3\n"
            "channel-vectors: the image's channels are not next to each other\n");
  EXPECT_EQ(gates("convolution.f32(f32[1, 4, 9]/[36, 1, 4], f32[4, 1, 3]) -> f32[1, 4, 7]/[28, 1, 4]; integers 0 4 1 0 1 0"),
            "image-columns: the output is not contiguous\nimage-rows\nmatrix-product: it is no matrix product\n"
            "adjoint-columns: it is for transposed convolutions\nplanes: the output is not contiguous\nwinograd-4: the filters are not "
            "3x3\nwinograd-2: the filters are not "
            "3x3\nchannel-vectors\n");
  EXPECT_EQ(gates("attention.f32(f32[2, 17, 64], f32[2, 40, 64], f32[2, 40, 64]) -> f32[2, 17, 64]; integers 0; numbers 1"),
            "query-blocks\nfew-queries: many queries, or short rows\n");
  EXPECT_EQ(gates("attention.f32(f32[6, 1, 64], f32[2, 40, 64]/[2560, 1, 40], f32[2, 40, 64]) -> f32[6, 1, 64]; integers 0; numbers 1"),
            "query-blocks\nfew-queries: rows of keys or values are not contiguous\n");
}

TEST(Choices, WithAnEpilogueEachIsThereTwice) {
  const std::string parts = has_amx_bf16x3() ? "" : ": the machine has no AMX, or does not let this process use it";
  EXPECT_EQ(gates("matmul.f32(f32[4, 8], f32[8, 16]) -> f32[4, 16]; epilogue"),
            "packed\nparts" + parts +
                "\nfew-rows-by-rows\nfew-rows-by-columns: the right side's columns are not contiguous\n"
                "packed-then-epilogue\nparts-then-epilogue" +
                parts +
                "\nfew-rows-by-rows-then-epilogue\n"
                "few-rows-by-columns-then-epilogue: the right side's columns are not contiguous\n");
  // An image of one pixel has its channels next to each other and is contiguous besides.
  EXPECT_EQ(
      gates("convolution.f32(f32[1, 8, 1, 1], f32[8, 1, 1, 1]) -> f32[1, 8, 1, 1]/[8, 1, 1, 1]; integers 0 8 1 1 0 0 1 1 0 0; epilogue"),
      "image-columns: it gives its result to no epilogue\nimage-rows\nmatrix-product: it is no matrix product\n"
      "adjoint-columns: it is for transposed convolutions\n"
      "planes: it gives its result to no epilogue\nwinograd-4: the filters are not 3x3\nwinograd-2: the filters are not 3x3\n"
      "channel-vectors\nimage-columns-then-epilogue\nimage-rows-then-epilogue\nmatrix-product-then-epilogue: it is no matrix product\n"
      "adjoint-columns-then-epilogue: it is for transposed convolutions\nplanes-then-epilogue\n"
      "winograd-4-then-epilogue: the filters are not 3x3\nwinograd-2-then-epilogue: the filters are not 3x3\n"
      "channel-vectors-then-epilogue\n");
}

// Writing the result and reading it again comes on top, so by the estimates alone an epilogue stays where it is.
TEST(Choices, AnEpilogueAfterwardsIsEstimatedToCostMore) {
  const Problem problem = parse_problem("matmul.f32(f32[512, 64], f32[64, 512]) -> f32[512, 512]; epilogue");
  std::map<std::string, double> costs;
  for (const Choice& choice : runtime_choices().list_choices(problem, kMachine)) costs[choice.name] = choice.cost_s;
  const double bytes_s = 2 * 4.0 * 512 * 512 / (4 * kMachine.bytes_per_s);
  EXPECT_NEAR(costs.at("packed-then-epilogue") - costs.at("packed"), bytes_s + kMachine.start_s, 1e-9);
}

// An expansion, a filter and a projection, of an image of so many rows and columns.
struct Bottleneck {
  int64_t size, narrow = 12, wide = 48;
  std::string_view filters = "constant f32";
  bool of_each_channel = true;
};
std::string text_of(const Bottleneck& b) {
  auto image = [&](int64_t channels) {
    return fmt::format("f32[1, {0}, {1}, {1}]/[{2}, 1, {3}, {0}]", channels, b.size, channels * b.size * b.size, channels * b.size);
  };
  return fmt::format(
      "chain.f32{{convolution.f32({0}, constant f32[{2}, {3}, 1, 1]) -> {1}; integers 0 1 1 1 0 0 1 1 0 0; epilogue | "
      "convolution.f32({1}, {4}[{2}, {5}, 3, 3]) -> {1}; integers 0 {6} 1 1 1 1 1 1 0 0; epilogue | "
      "convolution.f32({1}, constant f32[{3}, {2}, 1, 1]) -> {0}; integers 0 1 1 1 0 0 1 1 0 0}}",
      image(b.narrow), image(b.wide), b.wide, b.narrow, b.filters, b.of_each_channel ? 1 : b.wide, b.of_each_channel ? b.wide : 1);
}

TEST(Choices, ChainsGoInBandsOrApart) {
  EXPECT_EQ(gates(text_of({.size = 20})), "apart\nbands\n");
  EXPECT_EQ(gates(text_of({.size = 0})), "apart\nbands: the result of stage 0 has no elements\n");
  EXPECT_EQ(gates(text_of({.size = 20, .filters = "f32"})), "apart\nbands: the filters of stage 1 are no constants\n");
  EXPECT_EQ(gates(text_of({.size = 20, .of_each_channel = false})),
            "apart\nbands: stage 1: Winograd's method, which makes tiles, may be quicker\n");
  EXPECT_EQ(cheapest(text_of({.size = 112})), "bands");
  EXPECT_EQ(cheapest(text_of({.size = 7, .narrow = 160, .wide = 960})), "apart");
}

TEST(Choices, BracesAreForChainsAlone) {
  const std::string stages = text_of({.size = 20}).substr(std::string_view("chain.f32").size());
  for (const KernelFamily& family : runtime_choices().families()) {
    const Error error = error_of([&] { gates(std::string(family.name) + stages); });
    EXPECT_EQ(error.message() == "no error", family.name == "chain.f32") << error.message();
  }
}

TEST(Choices, EstimatesRankTheClearCases) {
  const std::string of_many_rows = has_amx_bf16x3() ? "parts" : "packed";
  EXPECT_EQ(cheapest("matmul.f32(f32[512, 512], f32[512, 512]) -> f32[512, 512]"), of_many_rows);
  EXPECT_EQ(cheapest("matmul.f32(f32[64, 512], f32[512, 512]/[1, 512]) -> f32[64, 512]"), of_many_rows);
  EXPECT_EQ(cheapest("matmul.f32(f32[1, 2048], f32[2048, 1000]) -> f32[1, 1000]"), "few-rows-by-rows");
  EXPECT_EQ(cheapest("matmul.f32(f32[1, 2048], f32[2048, 1000]/[1, 2048]) -> f32[1, 1000]"), "few-rows-by-columns");
  // What is packed once is read in the order of the inner loop.
  for (const int rows : {1, 3, 8, 12}) {
    const std::string choice = cheapest(fmt::format("matmul.f32(f32[{0}, 768], constant f32[768, 768]/[1, 768]) -> f32[{0}, 768]", rows));
    EXPECT_TRUE(choice == "packed" || choice == of_many_rows) << rows << ": " << choice;
  }
  EXPECT_EQ(cheapest("convolution.f32(f32[1, 64, 56, 56], f32[64, 1, 3, 3]) -> f32[1, 64, 56, 56]; integers 0 64 1 1 1 1 1 1 0 0"),
            "planes");
  EXPECT_EQ(cheapest("attention.bf16(bf16[32, 1, 128], bf16[8, 1024, 128], bf16[8, 1024, 128]) -> bf16[32, 1, 128]; integers 0; numbers 1"),
            "few-queries");
  // 256 channels next to each other, 14x14, 3x3. In tiles the direct method is quick enough.
  EXPECT_TRUE(has_amx_bf16x3() || cheapest("convolution.f32(f32[1, 256, 14, 14]/[50176, 1, 3584, 256], constant f32[256, 256, 3, 3]) -> "
                                           "f32[1, 256, 14, 14]/[50176, 1, 3584, 256]; integers 0 1 1 1 1 1 1 1 0 0")
                                      .starts_with("winograd-"));
}

TEST(Choices, NarrowNumbersHaveTheirForms) {
  const std::string of_bytes = has_amx()                        ? "tiles"
                               : vnni_kernels() != nullptr      ? "fours"
                               : byte_pair_kernels() != nullptr ? "pairs"
                                                                : "widened";
  EXPECT_EQ(cheapest("matmul.i32(i8[128, 768], constant i8[768, 3072]/[1, 768]) -> i32[128, 3072]"), of_bytes);
  EXPECT_EQ(cheapest("matmul.int8(f32[128, 768], constant i8[768, 3072]) -> f32[128, 3072]"), has_amx() ? "tiles" : "kept");
  EXPECT_EQ(cheapest("matmul.int8(f32[1024, 2048], constant i8[2048, 2048]) -> f32[1024, 2048]"), has_amx() ? "tiles" : "kept");
  if (!has_amx()) {
    EXPECT_EQ(cheapest("matmul.int8(f32[1, 768], constant i8[768, 3072]) -> f32[1, 3072]"), "in-registers");
    EXPECT_EQ(cheapest("matmul.int8(f32[4, 768], constant i8[768, 3072]) -> f32[4, 3072]"), "in-registers");
    EXPECT_EQ(cheapest("matmul.int8(f32[13, 768], constant i8[768, 3072]) -> f32[13, 3072]"), "widened");
    EXPECT_EQ(cheapest("matmul.int8(f32[13, 768], constant i8[768, 768]) -> f32[13, 768]"), "kept");
    EXPECT_EQ(cheapest("matmul.int8(f32[63, 2048], constant i8[2048, 2048]) -> f32[63, 2048]"), "widened");
    EXPECT_EQ(cheapest("matmul.int8(f32[128, 768], i8[768, 3072]) -> f32[128, 3072]"),
              "widened");  // whose bytes may be others in each call
    const bool has_pairs = bf16_dot_microkernels() != nullptr;
    EXPECT_EQ(cheapest("matmul.int8(bf16[128, 768], constant i8[768, 3072]) -> bf16[128, 3072]"), has_pairs ? "pairs" : "widened");
  }
  auto int4 = [](std::string_view dtype, int rows) {
    return fmt::format(
        "matmul.int4({0}[{1}, 3072], constant u8[3072, 1536], constant f32[24, 3072], constant f32[24, 3072]) -> {0}[{1}, 3072]", dtype,
        rows);
  };
  EXPECT_EQ(cheapest(int4("f32", 1)), "few-rows");
  EXPECT_EQ(cheapest(int4("f32", 4)), "few-rows");
  EXPECT_EQ(cheapest(int4("f32", 128)), has_amx() ? "groups" : "panels");
  EXPECT_EQ(cheapest(int4("bf16", 128)), has_amx() ? "tiles" : "panels");
  EXPECT_EQ(cheapest("convolution.bf16(bf16[1, 96, 14, 14]/[18816, 1, 1344, 96], constant bf16[96, 1, 3, 3]) -> "
                     "bf16[1, 96, 14, 14]/[18816, 1, 1344, 96]; integers 0 96 1 1 1 1 1 1 0 0"),
            "channel-vectors");
  EXPECT_EQ(cheapest("convolution.bf16(bf16[1, 64, 14, 14]/[12544, 1, 896, 64], constant bf16[64, 64, 3, 3]) -> "
                     "bf16[1, 64, 14, 14]/[12544, 1, 896, 64]; integers 0 1 1 1 1 1 1 1 0 0"),
            has_amx() ? "tiles" : "widened");
}

TEST(Choices, WhatTheRegistryDoesNotKnowIsNamed) {
  RuntimePool pool(1);
  const KernelCall call{pool, {}, {}, {}, {}};
  EXPECT_EQ(
      error_of([&] { runtime_choices().plan("matmul.f128", "packed", call); }).report(),
      "error: no kernel has the family 'matmul.f128'\n  help: the families are matmul.f32, matmul.f64, matmul.bf16, matmul.f16, "
      "matmul.int8, matmul.int4, matmul.i32, convolution.f32, convolution.bf16, convolution.f16, convolution.i32, chain.f32, chain.bf16, "
      "attention.f32, "
      "attention.bf16, attention.f16");
  EXPECT_EQ(error_of([&] { runtime_choices().plan("matmul.f32", "slow", call); }).report(),
            "error: matmul.f32 has no choice 'slow'\n  help: its choices are packed, parts, few-rows-by-rows, few-rows-by-columns, onednn");
}

TEST(Choices, MalformedProblemsAreRefused) {
  const std::pair<const char*, const char*> rows[] = {
      {"matmul.f32(f32[2, 3]) -> f32[2, 3]", "1 inputs and 1 outputs, not 2 to 2 and 1"},
      {"matmul.f32(f32[2, 3], f64[3, 2]) -> f32[2, 2]", "input 1 is f64[3, 2], not f32 of rank 2 or more"},
      {"matmul.f32(f32[2, 3], f32[4, 2]) -> f32[2, 2]", "they are no matrices of one batch whose sizes meet"},
      {"matmul.f32(f32[2, 3], f32[3, 2]) -> f32[2, 2]/[1, 2]", "the output is not contiguous"},
      {"matmul.f32(f32[2, 3], f32[3, 2]) -> f32[2, 2]/[4, 1]", "the output is not dense"},
      {"matmul.i32(i8[2, 3], f32[3, 2]) -> i32[2, 2]", "the right side is not i8"},
      {"matmul.i32(f32[2, 3], i8[3, 2]) -> i32[2, 2]", "they are not i8 or u8 by i8 to i32"},
      {"matmul.int8(f32[2, 3], i8[4, 2]) -> f32[2, 2]", "they are no matrices of one batch whose sizes meet"},
      {"matmul.int8(i8[2, 3], i8[3, 2]) -> f32[2, 2]", "the left side and the output are not f32, bf16 or f16"},
      {"matmul.int4(f32[2, 32], u8[3, 16], f32[2, 3]) -> f32[2, 3]", "3 inputs and 1 outputs, not 4 and 1"},
      {"matmul.int4(f32[2, 32], u8[3, 32], f32[2, 3], f32[2, 3]) -> f32[2, 3]",
       "they are not rows [.., K], numbers u8 [N, K / 2] and an output [.., N]"},
      {"matmul.int4(f32[2, 32], u8[3, 16], f32[2, 3], f32[4, 3]) -> f32[2, 3]", "scales and zero points are not f32 [groups, N]"},
      {"matmul.int4(f32[2, 32], u8[3, 16], f32[8, 3], f32[8, 3]) -> f32[2, 3]", "a group is not a multiple of 8"},
      {"convolution.bf16(bf16[1, 4, 9], bf16[4, 4, 3]) -> bf16[1, 4, 7]; integers 0 1 1 0 1 0",
       "it is transposed, of three dims, with a bias, or its channels are not next to each other"},
      {"convolution.f32(f32[1, 4, 9], f32[4, 4, 3]) -> f32[1, 4, 7]", "0 integers, not 6"},
      {"convolution.f32(f32[1, 4, 9], f32[4, 4, 3]) -> f32[1, 4, 7]; integers 0 1 1 0 1 0; epilogue",
       "an epilogue takes channels that are next to each other"},
      {"convolution.f32(f32[1, 4, 9], f32[4, 4, 3]) -> f32[1, 4, 7]; integers 0 3 1 0 1 0", "the channels do not divide into the groups"},
      {"convolution.f32(f32[1, 4, 9], f32[4, 4, 3]) -> f32[1, 4, 7]; integers 0 1 0 0 1 0", "strides and dilations are at least 1"},
      {"chain.f32(f32[2]) -> f32[2]", "0 convolutions in braces, not 2 or more"},
      {"chain.f32{convolution.f32(f32[1, 4, 9], f32[4, 4, 3]) -> f32[1, 4, 7]; integers 0 1 1 0 1 0}",
       "1 convolutions in braces, not 2 or more"},
      {"chain.f32{matmul.f32(f32[2, 2], f32[2, 2]) -> f32[2, 2] | matmul.f32(f32[2, 2], f32[2, 2]) -> f32[2, 2]}",
       "stage 0 is matmul.f32, not convolution.f32"},
      {"chain.f32{convolution.f32(f32[1, 4, 9], f32[4, 4, 3]) -> f32[1, 4, 7]; integers 0 1 1 0 1 0 | "
       "convolution.f32(f32[1, 4, 7], f32[4, 4, 3]) -> f32[1, 4, 5]; integers 0 1 1 0 1 0}",
       "stage 0 has not two spatial dims"},
      {"chain.f32{convolution.f32(f32[1, 4, 3, 3], f32[4, 4, 1, 1]) -> f32[1, 4, 3, 3]; integers 0 1 1 1 0 0 1 1 0 0 | "
       "convolution.f32(f32[1, 4, 3, 3], f32[4, 4, 1, 1]) -> f32[1, 4, 3, 3]; integers 0 1 1 1 0 0 1 1 0 0}",
       "stage 1 does not read what stage 0 makes, channels next to each other"},
      {"chain.f32{convolution.f32(f32[1, 4, 3, 3], f32[4, 4, 1, 1]) -> f32[1, 4, 3, 3]/[36, 1, 12, 4]; integers 0 1 1 1 0 0 1 1 0 0 | "
       "convolution.f32(f32[1, 4, 2, 3]/[24, 1, 12, 4], f32[4, 4, 1, 1]) -> f32[1, 4, 2, 3]; integers 0 1 1 1 0 0 1 1 0 0}",
       "stage 1 does not read what stage 0 makes, channels next to each other"},
      {"attention.f32(f32[2, 3], f32[4, 3], f32[4, 3]) -> f32[2, 3]; integers 0; numbers 1; epilogue",
       "there is no epilogue of this kernel"},
      {"attention.f32(f32[5, 2, 3], f32[2, 4, 3], f32[2, 4, 3]) -> f32[5, 2, 3]; integers 0; numbers 1",
       "the heads of keys and values do not divide those of queries"},
      {"attention.f32(f32[2, 3], f32[4, 3], f32[5, 3]) -> f32[2, 3]; integers 0; numbers 1",
       "the sizes of queries, keys, values and result do not meet"},
      {"attention.f32(f32[2, 3], f32[4, 3], f32[4, 3], bool[3, 4]) -> f32[2, 3]; integers 0; numbers 1",
       "the mask's sizes are neither 1 nor those of the scores"},
  };
  for (const auto& [problem, reason] : rows) {
    const Error error = error_of([&] { gates(problem); });
    EXPECT_TRUE(error.message().ends_with(std::string(" cannot have these operands: ") + reason)) << error.message();
  }
}

// Whatever passes the gate computes the same.
TEST(Choices, AllThatMayCompeteAgree) {
  RuntimePool pool(2);
  for (const char* text :
       {"matmul.f32(f32[3, 5, 40], f32[3, 40, 24]) -> f32[3, 5, 24]", "matmul.f32(f32[17, 40], f32[40, 24]/[1, 40]) -> f32[17, 24]",
        "convolution.f32(f32[2, 6, 9, 8], f32[6, 1, 3, 3], f32[6]) -> f32[2, 6, 9, 8]; integers 0 6 1 1 1 1 1 1 0 0",
        "convolution.f32(f32[1, 1, 9, 8], f32[4, 1, 3, 3]) -> f32[1, 4, 7, 6]; integers 0 1 1 1 0 0 1 1 0 0",
        "convolution.f32(f32[2, 20, 9, 8]/[1440, 1, 160, 20], constant f32[20, 1, 3, 3]) -> f32[2, 20, 9, 8]/[1440, 1, 160, 20]; "
        "integers 0 20 1 1 1 1 1 1 0 0",
        "matmul.f32(f32[2, 5, 40], constant f32[2, 40, 24]/[0, 24, 1]) -> f32[2, 5, 24]"}) {
    const Problem problem = parse_problem(text);
    std::vector<std::vector<float>> data;
    std::vector<ToroidOperand> inputs;
    for (const OperandMeta& meta : problem.inputs) {
      std::vector<float>& values = data.emplace_back(static_cast<size_t>(meta.extent_bytes() / 4));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int>(i * 7 % 15) - 7);
    }
    for (size_t i = 0; i < data.size(); ++i) {
      const OperandMeta& meta = problem.inputs[i];
      inputs.push_back({data[i].data(), meta.sizes.data(), meta.strides.data(), static_cast<int32_t>(meta.sizes.size()),
                        static_cast<int32_t>(meta.dtype), meta.is_constant});
    }
    PreparedConstants prepared;
    std::optional<std::vector<float>> expected;
    int count = 0;
    for (const Choice& choice : runtime_choices().list_choices(problem, kMachine)) {
      if (choice.gate || choice.name == "onednn") continue;
      const OperandMeta& out = problem.outputs[0];
      std::vector<float> result(static_cast<size_t>(out.elements()), -1e9f);
      const ToroidOperand output{
          result.data(), out.sizes.data(), out.strides.data(), static_cast<int32_t>(out.sizes.size()), static_cast<int32_t>(out.dtype), 0};
      const KernelCall call = {pool, inputs, {&output, 1}, problem.integers, problem.numbers, nullptr, &prepared};
      runtime_choices().plan(problem.family, choice.name, call)->run(call);
      if (!expected) expected = result;
      EXPECT_EQ(result, *expected) << choice.name << " for " << text;
      ++count;
    }
    EXPECT_EQ(count, problem.family == "matmul.f32" && has_amx_bf16x3() ? 3 : 2) << text;
  }
}

}  // namespace
}  // namespace toroid
