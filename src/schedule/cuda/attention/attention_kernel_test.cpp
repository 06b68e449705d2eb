#include "schedule/cuda/attention/attention_kernel.h"

#include <gtest/gtest.h>

#include "schedule/cuda/attention/attention_gradient_kernel.h"
#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kMostShared = 99 << 10;  // of a block, of compute capability 8.6; others have more

AttentionKernel kernel_of(sym::Expr width, sym::Expr out_width, double scale = 1, std::optional<DType> mask = {}, bool hopper = false,
                          int64_t queries = 100) {
  return attention_kernel({.causal = false, .scale = scale}, DType::BF16, mask, std::vector<sym::Expr>{2, queries, width},
                          std::vector<sym::Expr>{2, 300, out_width}, hopper);
}

TEST(AttentionKernel, FitsSharedMemoryAtEveryWidth) {
  for (int width = 1; width <= 256; ++width) {
    for (const int out_width : {1, width, 256}) EXPECT_LE(kernel_of(width, out_width).shared_bytes(), kMostShared) << width;
  }
  for (int width = 64; width <= 256; width += 8) {
    for (const int queries : {1, 10000}) {
      const AttentionKernel kernel = kernel_of(width, width, 1, {}, true, queries);
      EXPECT_LE(kernel.shared_bytes(), kMostSharedBytes) << width;
      EXPECT_LE(kernel.threads() * 96, 65536);  // of the registers that a multiprocessor has, at least 96 for each
    }
  }
}

TEST(AttentionKernel, OfGradientsFitsSharedMemoryAtEveryWidth) {
  for (int width = 8; width <= 256; width += 8) {
    EXPECT_LE(attention_gradient_kernel(width).shared_bytes(), kMostShared) << width;
    if (!is_hopper_gradient_width(width)) continue;
    for (const bool has_tiled_mask : {false, true}) {
      if (has_tiled_mask && !can_have_tiled_mask(width)) continue;
      const HopperGradientKernel each{width, has_tiled_mask};
      EXPECT_LE(each.of_queries().shared_bytes * each.blocks_at_once(), kMostSharedBytes) << width;
      EXPECT_LE(each.of_keys().shared_bytes * each.blocks_at_once(), kMostSharedBytes) << width;
      if (has_tiled_mask) {
        EXPECT_EQ(each.of_queries().stages % 2, 0) << width;  // a mask lies behind keys and values
      }
    }
    const HopperGradientKernel kernel{width};
    EXPECT_GE(kernel.width(), width);
    // A ring that has fewer tiles than a step holds would never be full: keys, values and the next keys.
    EXPECT_GE(kernel.of_queries().stages, 3) << width;
    EXPECT_GE(kernel.of_keys().stages, 2) << width;
  }
  EXPECT_EQ(HopperGradientKernel{168}.width(), 192);
  EXPECT_FALSE(HopperGradientKernel{64}.is_wide());
}

// Registers hold what is drawn beside the scores of two groups, not beside those of a tile that has all keys.
TEST(AttentionKernel, WithDropoutHasTwoGroupsThatGoThroughTheKeys) {
  const std::vector<sym::Expr> q = {64, 12, 4096, 64}, v = {64, 12, 256, 64};
  const AttentionKernel kernel =
      attention_kernel({.causal = false, .scale = 1}, DType::BF16, {}, q, v, true, AttentionDropout{.factor = 2, .limit = 1 << 15});
  EXPECT_FALSE(kernel.whole);
  EXPECT_TRUE(kernel.folds_scale);
  EXPECT_EQ(kernel.groups, 2);
  EXPECT_LE(kernel.shared_bytes(), kMostSharedBytes);
}

AttentionKernel hopper_kernel_of(int64_t heads, int64_t queries, sym::Expr keys, bool causal, std::optional<DType> mask = {}) {
  const std::vector<sym::Expr> q = {64, heads, queries, 64}, v = {64, heads, keys, 64};
  return attention_kernel({.causal = causal, .scale = 1}, DType::BF16, mask, q, v, true);
}
TEST(AttentionKernel, HasAllQueriesOfManyHeadsInABlock) {
  const auto kernel = [](int64_t heads, int64_t queries, bool causal) { return hopper_kernel_of(heads, queries, 300, causal); };
  EXPECT_EQ(kernel(12, 197, false).rows(), 256);
  EXPECT_EQ(kernel(12, 197, false).threads(), 640);
  EXPECT_LE(kernel(12, 197, false).shared_bytes(), kMostSharedBytes);
  EXPECT_EQ(kernel(2, 197, false).rows(), 128);
  EXPECT_EQ(kernel(12, 197, true).rows(), 128);
  EXPECT_EQ(kernel(12, 257, false).rows(), 128);
}
TEST(AttentionKernel, HasFourGroupsForManyQueries) {
  for (bool causal : {false, true}) {
    const AttentionKernel kernel = hopper_kernel_of(12, 4096, 4096, causal);
    EXPECT_EQ(kernel.groups, 4);
    EXPECT_EQ(kernel.keys, 64);
    EXPECT_LE(kernel.shared_bytes(), kMostSharedBytes);
    EXPECT_EQ(hopper_kernel_of(12, 1024, 1024, causal).groups, 2);
  }
  EXPECT_TRUE(hopper_kernel_of(12, 4096, 256, false).whole);
}
TEST(AttentionKernel, HasFewKeysInOneTile) {
  const auto keys_of_tile = [](sym::Expr keys, bool causal = false, std::optional<DType> mask = {}) {
    const AttentionKernel kernel = hopper_kernel_of(12, 1000, keys, causal, mask);
    EXPECT_LE(kernel.shared_bytes(), kMostSharedBytes);
    return kernel.whole ? kernel.keys : 0;
  };
  EXPECT_EQ(keys_of_tile(129), 192);
  EXPECT_EQ(keys_of_tile(197), 208);
  EXPECT_EQ(keys_of_tile(256), 256);
  EXPECT_TRUE(hopper_kernel_of(6, 256, 256, false).whole);
  EXPECT_FALSE(hopper_kernel_of(12, 256, 256, false).whole) << "heads enough for blocks with four groups";
  EXPECT_EQ(keys_of_tile(128), 0);
  EXPECT_EQ(keys_of_tile(257), 0);
  EXPECT_EQ(keys_of_tile(256, true), 0);
  EXPECT_EQ(keys_of_tile(256, false, DType::BF16), 0);
}

TEST(AttentionKernel, FoldsAScaleThatKeepsTheOrderOfScores) {
  EXPECT_TRUE(kernel_of(64, 64, 0.5).folds_scale);
  EXPECT_FALSE(kernel_of(64, 64, -0.5).folds_scale);
  EXPECT_FALSE(kernel_of(64, 64, 0).folds_scale);
  EXPECT_FALSE(kernel_of(64, 64, 0.5, DType::Bool).folds_scale);
}

// Which kernel computes the call, as the planner of CUDA says it.
std::string choice_of(std::string_view operands, std::string_view result, TensorCores cores = TensorCores::None,
                      std::string_view mask = "") {
  const Scheduled made =
      scheduled(fmt::format("sym s0 in [1, 64]\ngraph({}) {{\n  y: {} = attention(q, k, v{}, causal=false, scale=0.5)\n  return y\n}}",
                            operands, result, mask),
                cuda_planner(cores));
  for (const Step& step : made.schedule.steps) {
    if (const auto* call = std::get_if<CallStep>(&step)) return call->choice;
  }
  return "no call";
}
TEST(AttentionKernel, TakesHalfPrecisionWithRowsOfKnownWidth) {
  EXPECT_EQ(choice_of("q: bf16[2, 4, 5, 64], k: bf16[2, 2, 7, 64], v: bf16[2, 2, 7, 32]", "bf16[2, 4, 5, 32]"), "flash");
  EXPECT_EQ(choice_of("q: f16[5, 20], k: f16[7, 20], v: f16[7, 20]", "f16[5, 20]"), "flash");
  EXPECT_EQ(choice_of("q: f32[2, 4, 5, 64], k: f32[2, 4, 7, 64], v: f32[2, 4, 7, 64]", "f32[2, 4, 5, 64]"), "");
  EXPECT_EQ(choice_of("q: bf16[1, 4, 5, 512], k: bf16[1, 4, 7, 512], v: bf16[1, 4, 7, 512]", "bf16[1, 4, 5, 512]"), "");
  EXPECT_EQ(choice_of("q: bf16[1, 1, 1, 5, 64], k: bf16[1, 1, 1, 7, 64], v: bf16[1, 1, 1, 7, 64]", "bf16[1, 1, 1, 5, 64]"), "");
}
TEST(AttentionKernel, IsHoppersWhereTmaReadsTheOperands) {
  const auto choice = [](std::string_view operands, std::string_view result, std::string_view mask = "") {
    return choice_of(operands, result, TensorCores::Hopper, mask);
  };
  EXPECT_EQ(choice("q: bf16[2, 4, 50, 64], k: bf16[2, 2, 7, 64], v: bf16[2, 2, 7, 64]", "bf16[2, 4, 50, 64]"), "flash-hopper");
  EXPECT_EQ(choice("q: f16[s0, 128], k: f16[s0, 128], v: f16[s0, 128]", "f16[s0, 128]"), "flash-hopper");
  EXPECT_EQ(choice("q: bf16[2, 4, 50, 64], k: bf16[2, 4, 7, 64], v: bf16[2, 4, 7, 32]", "bf16[2, 4, 50, 32]"), "flash");
  EXPECT_EQ(choice("q: bf16[2, 4, 50, 96], k: bf16[2, 4, 7, 96], v: bf16[2, 4, 7, 96]", "bf16[2, 4, 50, 96]"), "flash-hopper");
  EXPECT_EQ(choice("q: bf16[4, 50, 256], k: bf16[4, 8, 256], v: bf16[4, 8, 256], m: f16[50, 8]", "bf16[4, 50, 256]", ", m"),
            "flash-hopper");
  EXPECT_EQ(choice("q: bf16[4, 50, 200], k: bf16[4, 7, 200], v: bf16[4, 7, 200]", "bf16[4, 50, 200]"), "flash-hopper");
  EXPECT_EQ(choice("q: bf16[4, 50, 204], k: bf16[4, 7, 204], v: bf16[4, 7, 204]", "bf16[4, 50, 204]"), "flash");
  EXPECT_EQ(choice("q: bf16[4, 50, 40], k: bf16[4, 7, 40], v: bf16[4, 7, 40]", "bf16[4, 50, 40]"), "flash");
  EXPECT_EQ(choice("q: bf16[4, 50, 64], k: bf16[4, 0, 64], v: bf16[4, 0, 64]", "bf16[4, 50, 64]"), "flash");
  // Masks are read two columns at once.
  EXPECT_EQ(choice("q: bf16[4, 50, 64], k: bf16[4, 8, 64], v: bf16[4, 8, 64], m: bf16[50, 8]", "bf16[4, 50, 64]", ", m"), "flash-hopper");
  EXPECT_EQ(choice("q: bf16[4, 50, 64], k: bf16[4, 7, 64], v: bf16[4, 7, 64], m: bf16[50, 7]", "bf16[4, 50, 64]", ", m"), "flash");
  EXPECT_EQ(choice("q: bf16[4, 50, 64], k: bf16[4, 8, 64], v: bf16[4, 8, 64], m: bf16[50, 1]", "bf16[4, 50, 64]", ", m"), "flash");
}

// Of a gradient with this mask.
std::string choice_of_gradient(std::string_view mask, int width, int keys = 64) {
  const std::string q = fmt::format("bf16[2, 4, 50, {}]", width), k = fmt::format("bf16[2, 4, {}, {}]", keys, width);
  const Scheduled made = scheduled(fmt::format(R"(graph(q: {0}, k: {1}, v: {1}, o: {0}, g: {0}, m: {2}) {{
  e: {3}[2, 4, 50, {4}] = expand(m)
  a: {0}, b: {1}, c: {1}, s: f32[2, 4, 50, 3] = library.attention.gradient(q, k, v, o, g, e, attributes=[false, 0.5])
  return a, b, c
}})",
                                               q, k, mask, mask.substr(0, mask.find('[')), keys),
                                   cuda_planner(TensorCores::Hopper));
  for (const Step& step : made.schedule.steps) {
    if (const auto* call = std::get_if<CallStep>(&step)) return call->choice;
  }
  return "no call";
}
TEST(AttentionKernel, OfAGradientHasMasksThatDifferBetweenQueriesByTma) {
  for (const int width : {64, 96, 128, 192}) {
    EXPECT_EQ(choice_of_gradient("bf16[1, 4, 50, 64]", width), "flash-hopper-mask") << width;
    EXPECT_EQ(choice_of_gradient("f16[2, 1, 50, 64]", width), "flash-hopper-mask") << width;
  }
  EXPECT_EQ(choice_of_gradient("bf16[2, 1, 1, 64]", 64), "flash-hopper");
  EXPECT_EQ(choice_of_gradient("bf16[1, 4, 50, 64]", 256), "flash-hopper");
  EXPECT_EQ(choice_of_gradient("bf16[1, 4, 50, 60]", 128, 60), "flash-hopper");  // rows of the mask do not begin at multiples of 16 bytes
  EXPECT_EQ(choice_of_gradient("bf16[1, 4, 50, 60]", 64, 60), "flash");
  EXPECT_EQ(choice_of_gradient("bool[1, 4, 50, 64]", 128), "flash-hopper");
  EXPECT_EQ(choice_of_gradient("bool[1, 4, 50, 64]", 64), "flash");
}

TEST(AttentionKernel, OfFewQueriesSharesTheKeysAmongBlocks) {
  EXPECT_EQ(choice_of("q: bf16[2, 32, 1, 128], k: bf16[2, 8, 999, 128], v: bf16[2, 8, 999, 128]", "bf16[2, 32, 1, 128]"), "flash-split");
  EXPECT_EQ(choice_of("q: f16[4, 3, 64], k: f16[4, s0, 64], v: f16[4, s0, 64], m: bool[3, s0]", "f16[4, 3, 64]", TensorCores::None, ", m"),
            "flash-split");
  // More than sixteen queries have the same keys: of many keys, where whole heads would leave multiprocessors idle.
  const auto choice = [](std::string_view batch_and_heads, int queries, int keys, std::string_view mask = "") {
    const std::string q = fmt::format("bf16[{}, {}, 128]", batch_and_heads, queries),
                      k = fmt::format("bf16[{}, {}, 128]", batch_and_heads, keys);
    const std::string m = mask.empty() ? "" : fmt::format(", m: {}[{}, {}]", mask, queries, keys);
    return choice_of(fmt::format("q: {}, k: {}, v: {}{}", q, k, k, m), q, TensorCores::Hopper, mask.empty() ? "" : ", m");
  };
  EXPECT_EQ(choice("1, 8", 32, 8192), "flash-split");
  EXPECT_EQ(choice("1, 8", 63, 4096, "bool"), "flash-split");
  EXPECT_EQ(choice("1, 8", 32, 128), "flash-hopper");
  EXPECT_EQ(choice("8, 32", 32, 8192), "flash-hopper");
  EXPECT_EQ(choice("1, 8", 129, 8192), "flash-hopper");
  EXPECT_EQ(choice_of("q: bf16[2, 32, 5, 128], k: bf16[2, 8, 9999, 128], v: bf16[2, 8, 9999, 128]", "bf16[2, 32, 5, 128]"), "flash-split");
  EXPECT_EQ(choice_of("q: bf16[2, 32, 5, 128], k: bf16[2, 8, 24, 128], v: bf16[2, 8, 24, 128]", "bf16[2, 32, 5, 128]"), "flash");
  EXPECT_EQ(choice_of("q: bf16[4, s0, 64], k: bf16[4, 99, 64], v: bf16[4, 99, 64]", "bf16[4, s0, 64]"), "flash");
}

// The blocks of a tile's keys, as a cluster or not, and all blocks.
std::string blocks_of_keys(int64_t batch, int64_t heads, int64_t keys, int64_t queries = 1) {
  const std::vector<sym::Expr> q = {batch, 4 * heads, queries, 64}, k = {batch, heads, keys, 64};
  const AttentionKernel kernel = split_attention_kernel(Attention{.causal = false, .scale = 1}, DType::BF16, std::nullopt, q, k);
  return fmt::format("{} of {}", kernel.cluster, split_attention_blocks(kernel, k).value());
}

TEST(AttentionKernel, OfFewQueriesHasClustersOfBlocksWithEqualPartsOfTheKeys) {
  EXPECT_EQ(blocks_of_keys(1, 8, 1024), "8 of 64");
  EXPECT_EQ(blocks_of_keys(2, 8, 512), "4 of 64");
  EXPECT_EQ(blocks_of_keys(1, 8, 256), "2 of 16");
  EXPECT_EQ(blocks_of_keys(1, 2, 1024, 16), "8 of 64");  // four tiles have the same keys
  EXPECT_EQ(blocks_of_keys(1, 8, 200), "1 of 13");       // 13 chunks
  EXPECT_EQ(blocks_of_keys(1, 8, 128), "1 of 8");        // one block has a tile
  EXPECT_EQ(blocks_of_keys(1, 4, 2048), "1 of 64");      // sixteen blocks would be needed
  EXPECT_EQ(blocks_of_keys(2, 8, 1024), "1 of 128");     // not all clusters may find room at once
}

}  // namespace
}  // namespace toroid::schedule
