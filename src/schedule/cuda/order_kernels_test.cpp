#include "schedule/cuda/order_kernels.h"

#include <gtest/gtest.h>

#include "schedule/cuda/sorted_scatter.h"
#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

Scheduled on_a_gpu(std::string_view text) { return scheduled(text, cuda_planner(TensorCores::None)); }

// Of the one call, as the planner of CUDA says it; with " +" where it has memory of its own.
std::string order_of(std::string_view input, std::string_view line, std::string_view results) {
  const Scheduled made = on_a_gpu(fmt::format("sym s0 in [1, 90000]\ngraph({}) {{\n  {}\n  return {}\n}}", input, line, results));
  for (const Step& step : made.schedule.steps) {
    const auto* call = std::get_if<CallStep>(&step);
    if (call != nullptr) return call->choice + (results_of(*call).size() < call->outputs.size() ? " +" : "");
  }
  return "no call";
}

std::string sort_of(std::string_view type) {
  return order_of(fmt::format("x: {}", type), fmt::format("v: {0}, i: i64{1} = aten::sort(x, -1)", type, type.substr(type.find('['))),
                  "v, i");
}
TEST(OrderKernels, SortRowsInSharedMemoryWhereTheyFit) {
  EXPECT_EQ(sort_of("f32[64, 16384]"), "sort-rows");
  EXPECT_EQ(sort_of("f32[64, 16385]"), "radix-sort +");
  EXPECT_EQ(sort_of("i64[64, 8192]"), "sort-rows");
  EXPECT_EQ(sort_of("i64[64, 8193]"), "radix-sort +");
  EXPECT_EQ(sort_of("bf16[2, 16384]"), "radix-sort +") << "two blocks leave the others idle";
  EXPECT_EQ(sort_of("u8[64, s0]"), "radix-sort +");
}
// Of AMD's GPUs blocks have 64 KB.
TEST(OrderKernels, SortWhatFitsTheSharedMemoryOfTheGpu) {
  const auto choice = [](std::string_view type) {
    const std::string text =
        fmt::format("graph(x: {0}) {{\n  v: {0}, i: i64{1} = aten::sort(x, -1)\n  return v, i\n}}", type, type.substr(type.find('[')));
    const Scheduled made = scheduled(text, cuda_planner(TensorCores::None, {.wave = 64, .shared_bytes = 64 << 10}));
    return std::get<CallStep>(made.schedule.steps.back()).choice;
  };
  EXPECT_EQ(choice("f32[64, 4096]"), "sort-rows");
  EXPECT_EQ(choice("f32[64, 16384]"), "radix-sort");
  EXPECT_EQ(choice("f64[64, 2048]"), "sort-rows");
  EXPECT_EQ(choice("f64[64, 8193]"), "") << "no sort of 64-bit keys fits: the host's";
}
TEST(OrderKernels, HaveSharedMemoryForEveryRow) {
  for (const DType dtype : {DType::U8, DType::F32, DType::F64}) {
    for (int64_t length = 1; length <= (dtype == DType::F64 ? 8192 : 16384); length += 37) {
      const RowSort sort = row_sort(dtype, length);
      EXPECT_GE(int64_t{sort.threads} * sort.items, length);
      EXPECT_LE(sort.shared_bytes, 227 << 10);
    }
    EXPECT_LE(shared_bytes_of_radix_sort(dtype), 227 << 10);
  }
}

std::string topk_of(std::string_view type, std::string_view k, std::string_view results) {
  return order_of(fmt::format("x: {}", type),
                  fmt::format("v: {0}[{2}], i: i64[{2}] = aten::topk(x, {1})", type.substr(0, type.find('[')), k, results), "v, i");
}
TEST(OrderKernels, SelectUpToAThousandElements) {
  EXPECT_EQ(topk_of("f32[64, 20000]", "1024", "64, 1024"), "radix-select");
  EXPECT_EQ(topk_of("f32[64, 16000]", "1025", "64, 1025"), "sort-rows");
  EXPECT_EQ(topk_of("f32[64, 20000]", "1025", "64, 1025"), "radix-sort +");
  EXPECT_EQ(topk_of("bf16[s0]", "8", "8"), "") << "the runtime says what a shorter row lacks";
}

TEST(OrderKernels, SelectWithGroupsForTheWholeRow) {
  for (const DType dtype : {DType::BF16, DType::F32, DType::I64}) {
    for (int64_t length : {1, 100, 4096, 9001, 32000, 1 << 20}) {
      for (const bool aligned : {false, true}) {
        const RowSelection how = row_selection(dtype, length, aligned);
        EXPECT_GE(int64_t{how.threads} * how.vector * how.groups * how.packs_of_group, length);
        EXPECT_GE(how.blocks_at_once, 1);
      }
    }
  }
  const RowSelection how = row_selection(DType::BF16, 32000, true);
  EXPECT_EQ(how.groups, 16);
  EXPECT_EQ(how.packs_of_group, 1);
  EXPECT_EQ(how.blocks_at_once, 4);
}

constexpr std::string_view kIndexAdd = R"(graph(a: f32[3, 5], i: i64[{0}], v: f32[{0}, 5]) {{
  s: f32[3, 5] = aten::index_add(a, 0, i, v)
  return s
}})";
TEST(SortedScatters, AreOfManyElements) {
  EXPECT_EQ(kinds_of_steps(on_a_gpu(fmt::format(kIndexAdd, 511)).schedule), "scatter");
  EXPECT_EQ(kinds_of_steps(on_a_gpu(fmt::format(kIndexAdd, 512)).schedule), "kernel call scatter");
}
TEST(SortedScatters, SortWhatTheirElementsTell) {
  const Scheduled made = on_a_gpu(fmt::format(kIndexAdd, 600));
  const auto& scatter = std::get<ScatterKernel>(made.schedule.steps.back());
  const std::optional<Destination> destination = destination_of(*made.schedule.loops, scatter);
  ASSERT_TRUE(destination.has_value());
  EXPECT_EQ(destination->within, scatter.axes[1]);
  EXPECT_EQ(destination->key + destination->within, scatter.position);
}

// Of the gradient of an embedding of bfloat16: the steps, and the scatter's lines.
std::string gradient_of_words(int words, int tokens) {
  const Scheduled made = on_a_gpu(fmt::format(R"(graph(g: bf16[{1}, 768], i: i64[{1}]) {{
  e: bf16[{0}, 768] = aten::embedding_dense_backward(g, i, {0}, -1, False)
  return e
}})",
                                              words, tokens));
  std::string result = kinds_of_steps(made.schedule);
  for (const Step& step : made.schedule.steps) {
    if (const auto* call = std::get_if<CallStep>(&step)) result += fmt::format(", {}", call->choice);
    const auto* scatter = std::get_if<ScatterKernel>(&step);
    if (scatter == nullptr || !scatter->ordered) continue;
    const ScatterKernel::Ordered& ordered = *scatter->ordered;
    result += fmt::format(", {} of {} from {}, {} at once{}{}", to_string(made.schedule.loops->buffer(ordered.keys).dtype), ordered.unit,
                          -ordered.bias, ordered.vector, ordered.fill ? ", filled" : "", ordered.rounds_once ? ", rounded once" : "");
  }
  return result + (made.schedule.prepare.empty() ? "" : ", prepared");
}
TEST(SortedScatters, FillWhatNobodyWritesAndRoundTheirSums) {
  EXPECT_EQ(gradient_of_words(50257, 16384), "kernel call scatter, sort-range, i16 of 768 from -32768, 8 at once, filled, rounded once");
  EXPECT_EQ(gradient_of_words(1000, 600), "kernel call scatter, sort-rows, i16 of 768 from 0, 8 at once, filled, rounded once");
  EXPECT_EQ(gradient_of_words(70000, 65536), "kernel call scatter, radix-sort, i32 of 768 from 0, 8 at once, filled, rounded once");
}

}  // namespace
}  // namespace toroid::schedule
