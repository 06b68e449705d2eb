// Batches in halves, of which one is computed while the other one is communicated, swaps in the place of sums, and rows that two processes
// swap: the order of a program, its results, and when it stays.
#include "passes/shard/micro_batches.h"
#include "collectives/ranks_for_test.h"
#include "graph/verify.h"
#include "passes/dead_code.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/shard/shard.h"
#include "passes/shard/swap_rows.h"
#include "passes/shard/swap_sums.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_tensor.h"

namespace toroid {
namespace {

// Two layers whose second products are by rows, of a batch of 4; then what concerns all of the batch.
constexpr std::string_view kLayers = R"(constant 0 "a": f32[16, 8] = fill 0.25
constant 1 "b": f32[8, 16] = fill -0.5
constant 2 "c": f32[16, 8] = fill 0.125
constant 3 "d": f32[8, 16] = fill 0.75
graph(x: f32[4, 3, 8], y: f32[4, 1, 8]) {
  a: f32[16, 8] = constant(0)
  b: f32[8, 16] = constant(1)
  c: f32[16, 8] = constant(2)
  d: f32[8, 16] = constant(3)
  x1: f32[4, 3, 8] = aten::add.Tensor(x, y)
  p: f32[4, 3, 16] = aten::linear(x1, a)
  q: f32[4, 3, 16] = aten::gelu(p)
  r: f32[4, 3, 8] = aten::linear(q, b)
  s: f32[4, 3, 8] = aten::add.Tensor(r, x1)
  t: f32[4, 3, 16] = aten::linear(s, c)
  u: f32[4, 3, 16] = aten::gelu(t)
  v: f32[4, 3, 8] = aten::linear(u, d)
  w: f32[4, 3, 8] = aten::add.Tensor(v, s)
  m: f32[3, 8] = aten::mean.dim(w, [0])
  z: f32[4, 3, 8] = aten::sub.Tensor(w, m)
  return z
})";

std::string layers() {
  std::string text(kLayers);
  for (const auto& [fill, count] : {std::pair("fill 0.25", 128), {"fill -0.5", 128}, {"fill 0.125", 128}, {"fill 0.75", 128}}) {
    const double step = std::stod(std::string(fill).substr(5));
    std::string numbers;
    for (int i = 0; i < count; ++i) numbers += fmt::format("{}{}", i == 0 ? "[" : ", ", step * (i % 7 - 3) / 8);
    text.replace(text.find(fill), std::string_view(fill).size(), numbers + "]");
  }
  return text;
}

// Computation and communication that take long, and kernels that start at once.
constexpr shard::Costs kSlow = {.operations_per_s = 100, .memory_bytes_per_s = 1e12, .link_bytes_per_s = 10, .latency_s = 0};

Program own_part_of(const std::string& text, int rank, int processes = 2, const std::string& rules = "") {
  Program program = parse_text(text);
  decompose(program);
  remove_dead_code(program);
  shard_program(program, {.processes = processes, .rank = rank, .rules = rules, .costs = {.link_bytes_per_s = 1e18, .latency_s = 0}});
  return program;
}

// "product12 sum12": products, reductions and swaps in order, and the rows of what they give.
std::string order_of(const Program& program) {
  std::string text;
  for (const Node& node : program.graph.nodes()) {
    const std::string_view what = is_library(node.op, "collectives.swap") ? "swap" : is_collective(node.op) ? "sum" : "product";
    if (what == "product" && !std::holds_alternative<Matmul>(node.op)) continue;
    const int64_t rows = program.graph.type(node.outputs[0]).sizes[0].value();
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", what, rows);
  }
  return text;
}

TEST(MicroBatches, TakeTurns) {
  Program part = own_part_of(layers(), 0);
  EXPECT_EQ(order_of(part), "product12 product12 sum12 product12 product12 sum12");
  EXPECT_TRUE(split_batch(part, {.beside = kSlow}));
  EXPECT_EQ(order_of(part),
            "product6 product6 sum6 product6 product6 sum6 "
            "product6 product6 sum6 product6 product6 sum6");
  // The second half's layer stands between the first one's sum and what reads that; only the mean and the result join them.
  int joins = 0;
  for (const Node& node : part.graph.nodes()) joins += std::holds_alternative<Cat>(node.op) ? 1 : 0;
  EXPECT_EQ(joins, 2);
  EXPECT_FALSE(split_batch(part, {})) << "nothing is known of the costs";
}

const PassCosts kSwapsAll = {.swapped_from_bytes = 0};

TEST(SwapSums, AddWhereTheSumIsRead) {
  Program part = own_part_of(layers(), 0);
  ASSERT_TRUE(split_batch(part, {.beside = kSlow}));
  EXPECT_FALSE(swap_sums(part, {})) << "nobody says that GPUs copy";
  EXPECT_FALSE(swap_sums(part, {.swapped_from_bytes = 193})) << "there are 2 x 3 x 8 floats";
  EXPECT_TRUE(swap_sums(part, {.swapped_from_bytes = 192}));
  verify(part, Level::Core);
  EXPECT_EQ(order_of(part),
            "product6 product6 swap6 product6 product6 swap6 "
            "product6 product6 swap6 product6 product6 swap6");
  // What the first half has swapped is read behind the second one's swap.
  std::vector<size_t> swaps;
  const std::vector<Node>& nodes = part.graph.nodes();
  const auto reads_first = [&](const Node& node) {
    return !swaps.empty() && std::ranges::find(node.inputs, nodes[swaps[0]].outputs[0]) != node.inputs.end();
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_FALSE(swaps.size() < 2 && reads_first(nodes[i]));
    if (is_collective(nodes[i].op)) swaps.push_back(i);
  }
  EXPECT_FALSE(swap_sums(part, kSwapsAll)) << "no reduction is left";
  Program of_four = own_part_of(layers(), 0, 4);
  EXPECT_FALSE(swap_sums(of_four, kSwapsAll)) << "a swap is of two";
}

// Turns of halves, and with them swaps in the place of sums.
class TwoProcesses : public testing::TestWithParam<bool> {};

void expect_results_of(const std::string& text, const std::vector<CompiledModel>& models) {
  const CompiledModel whole = TestSession::get().compile(parse_text(text), {.optimization = 1});
  std::vector<double> x, y;
  for (int i = 0; i < 96; ++i) x.push_back(i % 11 * 0.1 - 0.5);
  for (int i = 0; i < 32; ++i) y.push_back(i % 5 * 0.2 - 0.4);
  const std::vector<HostTensor> inputs = {HostTensor::from_doubles(DType::F32, {4, 3, 8}, x),
                                          HostTensor::from_doubles(DType::F32, {4, 1, 8}, y)};
  expect_in_all_ranks(
      [&](int rank) {
        const HostTensor found = models[static_cast<size_t>(rank)].load(1).run(inputs)[0], expected = whole.load(1).run(inputs)[0];
        for (int64_t k = 0; k < found.numel(); ++k) EXPECT_NEAR(found.double_at(k), expected.double_at(k), 2e-6) << k;
      },
      2);
}

TEST_P(TwoProcesses, ComputeWhatTheWholeDoes) {
  const std::string text = layers();
  std::vector<CompiledModel> models;
  for (int rank = 0; rank < 2; ++rank) {
    Program part = own_part_of(text, rank);
    ASSERT_TRUE(split_batch(part, {.beside = kSlow}));
    ASSERT_EQ(swap_sums(part, GetParam() ? kSwapsAll : PassCosts()), GetParam());
    models.push_back(TestSession::get().compile(std::move(part), {.optimization = 1}));
  }
  expect_results_of(text, models);
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, TwoProcesses, testing::Bool());

// ---- rows of two processes

constexpr const char* kFirstByBatch = "a batch\nb batch";

TEST(SwapRows, PutsProductsOfOthersBesideSwaps) {
  Program part = own_part_of(layers(), 0, 2, kFirstByBatch);
  EXPECT_EQ(order_of(part), "product6 product6 sum12 product12 product12 sum6 sum3 sum4");
  EXPECT_FALSE(swap_rows(part, {})) << "nobody says that GPUs copy";
  EXPECT_FALSE(swap_rows(part, {.swapped_from_bytes = 193})) << "there are 2 x 3 x 8 floats";
  EXPECT_TRUE(swap_rows(part, {.swapped_from_bytes = 192}));
  verify(part, Level::Core);
  EXPECT_EQ(order_of(part), "product6 product6 swap6 product6 product6 product6 swap6 product6 sum3 swap2");
  // Of the second layer's products the two in between are of the other process's rows.
  std::vector<bool> reads_swapped;
  std::set<ValueId> follows;
  for (const Node& node : part.graph.nodes()) {
    const bool reads = std::ranges::any_of(node.inputs, [&](ValueId input) { return follows.contains(input); });
    if (std::holds_alternative<Matmul>(node.op)) reads_swapped.push_back(reads);
    const bool is_first_swap = is_library(node.op, "collectives.swap") && follows.empty();
    if (is_first_swap || (reads && !is_collective(node.op))) follows.insert(node.outputs[0]);
  }
  EXPECT_EQ(reads_swapped, (std::vector<bool>{false, false, false, true, true, false}));
  Program of_four = own_part_of(layers(), 0, 4, kFirstByBatch);
  EXPECT_FALSE(swap_rows(of_four, kSwapsAll)) << "a swap is of two";
}

TEST(SwapRows, ComputesWhatTheWholeDoes) {
  const std::string text = layers();
  std::vector<CompiledModel> models;
  for (int rank = 0; rank < 2; ++rank) {
    Program part = own_part_of(text, rank, 2, kFirstByBatch);
    ASSERT_TRUE(swap_rows(part, kSwapsAll));
    models.push_back(TestSession::get().compile(std::move(part), {.optimization = 1}));
  }
  expect_results_of(text, models);
}

// Layers with residuals, whose second products are by rows, of a batch of 4; 16-bit floats, which products in tiles take.
std::string deep_layers(int layers) {
  std::string constants, body = "  y0: bf16[4, 64, 64] = aten::relu(x)\n";
  const auto constant = [&](int number, int rows, int columns) {
    std::string numbers;
    for (int i = 0; i < rows * columns; ++i) numbers += fmt::format("{}{}", i == 0 ? "[" : ", ", (i * 7 + number) % 13 / 32.0);
    constants += fmt::format("constant {0} \"w{0}\": bf16[{1}, {2}] = {3}]\n", number, rows, columns, numbers);
    body += fmt::format("  w{0}: bf16[{1}, {2}] = constant({0})\n", number, rows, columns);
  };
  for (int layer = 0; layer < layers; ++layer) {
    constant(2 * layer, 128, 64);
    constant(2 * layer + 1, 64, 128);
    body +=
        fmt::format("  p{0}: bf16[4, 64, 128] = aten::linear(y{0}, w{1})\n  q{0}: bf16[4, 64, 128] = aten::relu(p{0})\n", layer, 2 * layer);
    body += fmt::format("  r{0}: bf16[4, 64, 64] = aten::linear(q{0}, w{1})\n  y{2}: bf16[4, 64, 64] = aten::add.Tensor(r{0}, y{0})\n",
                        layer, 2 * layer + 1, layer + 1);
  }
  return fmt::format("{}graph(x: bf16[4, 64, 64]) {{\n{}  return y{}\n}}", constants, body, layers);
}

// On a driver that is played (tests/gpu/fake_gpu.c): a kernel writes, as the first words of all that it writes, the sum of the first words
// that it reads, and 1, and in process 1 a thousand more. So what a process has of the other one is known: as much of each layer. The same
// comes out on one stream, on lanes, and in graphs.
// With the kernel by which processes meet, and with operations of streams on words; halves of the batch, and rows of two processes, the
// first layer being by batch.
struct LanesCase {
  bool meets, rows;
};
class Lanes : public testing::TestWithParam<LanesCase> {};
TEST_P(Lanes, SwapByMailboxesOfTheOtherGpu) {
  constexpr int kLayers = 7;  // more operations than a mailbox has slots
  const LanesCase& how_to = GetParam();
  const std::vector<HostTensor> inputs = {HostTensor::from_doubles(DType::BF16, {4, 64, 64}, std::vector<double>(4 * 64 * 64, 0))};
  expect_in_all_ranks(
      [&](int rank) {
        const ScopedVariable driver("TOROID_CUDA_DRIVER", FAKE_GPU), nvrtc("TOROID_NVRTC", FAKE_GPU), how("FAKE_GPU", "two"),
            architecture("TOROID_CUDA_ARCH", "sm_90a"), adds("FAKE_GPU_ADDS", rank == 0 ? "0" : "1000");
        if (how_to.meets) setenv("FAKE_GPU_MEETS", "1", 1);  // of this process, which is the test's own
        std::set<uint32_t> words;
        for (const char* lanes : {"", "never"}) {
          const ScopedVariable branches("TOROID_CUDA_BRANCHES", lanes);
          Program part = own_part_of(deep_layers(kLayers), rank, 2, how_to.rows ? "w0 batch\nw1 batch" : "");
          if (how_to.rows) {
            ASSERT_TRUE(swap_rows(part, kSwapsAll));
          } else {
            ASSERT_TRUE(split_batch(part, {.beside = kSlow}));
            ASSERT_TRUE(swap_sums(part, kSwapsAll));
          }
          const TempFolder folder;
          CompileModelOptions options = {.target = codegen::Target::Cuda, .optimization = 0};
          options.gpu = rank;
          options.dump_ir = folder.path() / "dump";
          CompileSession session(false);
          Executable loaded = session.compile(std::move(part), options).load(1);
          std::string text;
          for (const auto& entry : std::filesystem::directory_iterator(options.dump_ir)) {
            if (entry.path().filename().string().ends_with("program.txt")) text = read_file(entry.path());
          }
          ASSERT_NE(text.find("beside on branch 2"), std::string::npos) << text;
          for (int call = 0; call < 6; ++call) {
            const HostTensor found = loaded.run(inputs)[0];
            uint32_t word = 0;
            std::memcpy(&word, found.data<std::byte>(), sizeof word);
            words.insert(word);
          }
          // And calls, of which the last is a graph, that nobody waits for: the other GPU's memory is let go behind them.
          const cuda::OnDevice here(cuda::Device::get(rank));
          const cuda::Stream callers;
          const cuda::Memory x(callers, inputs[0].bytes().size()), y(callers, inputs[0].bytes().size());
          for (int call = 0; call < 3; ++call) {
            const std::vector<DeviceTensor> from = {{DType::BF16, {4, 64, 64}, x.data()}};
            std::vector<DeviceTensor> to = {{DType::BF16, {4, 64, 64}, y.data()}};
            loaded.start(from, to, callers.handle());
          }
        }
        ASSERT_EQ(words.size(), 1u);
        const uint32_t other = rank == 0 ? 1001 : 1, own = rank == 0 ? 1 : 1001;
        // Of rows: each layer but the first adds its two products and one of the other process, and the last kernel joins both's rows.
        const uint32_t of_rows = own + (2 + 3 * (kLayers - 1)) * (own + other);
        EXPECT_EQ(*words.begin(), how_to.rows ? of_rows : own + kLayers * (4 * own + 2 * other));
      },
      2);
}
INSTANTIATE_TEST_SUITE_P(ByKernelsAndWords, Lanes,
                         testing::Values(LanesCase{false, false}, LanesCase{true, false}, LanesCase{false, true}, LanesCase{true, true}));

// What is not known, odd, not communicated, or lost by reading weights twice.
TEST(MicroBatches, StayTogetherWhereNothingIsGained) {
  const auto is_split = [](std::string text, const shard::Costs& costs, int processes = 2) {
    Program part = own_part_of(text, 0, processes);
    const std::string before = to_text(part);
    const bool changed = split_batch(part, {.beside = costs});
    EXPECT_EQ(changed, to_text(part) != before);
    return changed;
  };
  EXPECT_TRUE(is_split(layers(), kSlow));
  EXPECT_FALSE(is_split(layers(), kSlow, 1)) << "nothing is communicated";
  shard::Costs costs = kSlow;
  costs.link_bytes_per_s = 1e12;
  EXPECT_FALSE(is_split(layers(), costs)) << "communication takes no time";
  costs = kSlow;
  costs.start_s = 1e6;
  EXPECT_FALSE(is_split(layers(), costs)) << "kernels take long to start";
  costs = kSlow;
  costs.operations_per_s = 1e12, costs.memory_bytes_per_s = 10, costs.link_bytes_per_s = 7.68;
  EXPECT_FALSE(is_split(layers(), costs)) << "weights are read twice";
  std::string odd = layers();
  for (size_t at; (at = odd.find("[4, ")) != std::string::npos;) odd.replace(at, 4, "[5, ");
  EXPECT_FALSE(is_split(odd, kSlow));
  std::string unknown = layers();
  for (size_t at; (at = unknown.find("[4, ")) != std::string::npos;) unknown.replace(at, 4, "[s0, ");
  unknown.replace(unknown.find("graph("), 6, "sym s0 in [1, 64]\ngraph(");
  EXPECT_FALSE(is_split(unknown, kSlow));
}

}  // namespace
}  // namespace toroid
