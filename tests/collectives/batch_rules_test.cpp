// Batches that processes share out: when that is chosen, what goes through operations in parts, and that results stay those of the whole.
#include "collectives/ranks_for_test.h"
#include "passes/dead_code.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/shard/shard.h"

namespace toroid {
namespace {

constexpr shard::Costs kFreeLink = {.link_bytes_per_s = 1e18, .latency_s = 0};

// "[0.1, -0.3, …]": so many.
std::string batch_numbers(int64_t count, int64_t seed) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += fmt::format("{}{}", i == 0 ? "[" : ", ", static_cast<double>((i * 7 + seed) * 31 % 19 - 9) / 16);
  return text + "]";
}

struct BatchPart {
  Program program;
  shard::Plan plan;
};
BatchPart batch_part_of(const std::string& text, int rank, const std::string& rules, int processes, const shard::Costs& costs = kFreeLink) {
  BatchPart part{parse_text(text), {}};
  decompose(part.program);
  remove_dead_code(part.program);
  part.plan = shard_program(part.program, {.processes = processes, .rank = rank, .rules = rules, .costs = costs});
  return part;
}

// ---- when

// A letter for each product: c by columns, r by rows, b for a part of the batch, - whole in all processes.
std::string cuts_of(const std::string& text, const shard::Costs& costs, int processes = 4, const std::string& rules = "") {
  std::string cuts;
  for (const shard::WeightUse& use : batch_part_of(text, 0, rules, processes, costs).plan.products) {
    cuts += use.by_columns ? 'c' : use.by_rows ? 'r' : use.by_batch ? 'b' : '-';
  }
  return cuts;
}

// Attention, and a perceptron of so many columns; state that a call updates, if wanted.
std::string layer(const std::string& batch, int columns, bool has_state = false) {
  std::string text = R"(constant 0 "q": f32[8, 8] = 64
constant 1 "o": f32[8, 8] = 64
constant 2 "up": f32[N, 8] = MANY
constant 3 "down": f32[8, N] = MANY
STATE 4 "seen": f32[8] = 8
graph(x: f32[B, 3, 8]) {
  wq: f32[8, 8] = constant(0)
  wo: f32[8, 8] = constant(1)
  wu: f32[N, 8] = constant(2)
  wd: f32[8, N] = constant(3)
  s: f32[8] = constant(4)
  q0: f32[B, 3, 8] = aten::linear(x, wq)
  q1: f32[B, 3, 4, 2] = aten::view(q0, [B, 3, 4, 2])
  q: f32[B, 4, 3, 2] = aten::transpose.int(q1, 1, 2)
  a0: f32[B, 4, 3, 2] = aten::scaled_dot_product_attention(q, q, q)
  a1: f32[B, 3, 4, 2] = aten::transpose.int(a0, 1, 2)
  a: f32[B, 3, 8] = aten::reshape(a1, [B, 3, 8])
  c: f32[B, 3, 8] = aten::linear(a, wo)
  e: f32[B, 3, N] = aten::linear(c, wu)
  f: f32[B, 3, N] = aten::gelu(e)
  g: f32[B, 3, 8] = aten::linear(f, wd)
  t: f32[8] = UPDATE(s, 1)
  y: f32[B, 3, 8] = aten::add.Tensor(g, t)
  return y
})";
  const auto put = [&](const std::string& what, const std::string& with) {
    for (size_t at; (at = text.find(what)) != text.npos;) text.replace(at, what.size(), with);
  };
  put("= 64", "= " + batch_numbers(64, 1));
  put("= 8\n", "= " + batch_numbers(8, 2) + "\n");
  put("MANY", batch_numbers(8 * columns, 3));
  put("[B,", "[" + batch + ",");
  put("[N,", fmt::format("[{},", columns));
  put(" N]", fmt::format(" {}]", columns));
  put("STATE", has_state ? "buffer" : "constant");
  put("UPDATE", has_state ? "aten::add_.Scalar" : "aten::add.Scalar");
  return text;
}

TEST(BatchShards, AreThoseOfAttentionWhereThatTakesLessTime) {
  constexpr shard::Costs kSlowLink = {.operations_per_s = 1e3, .memory_bytes_per_s = 1e12, .link_bytes_per_s = 300, .latency_s = 0};
  EXPECT_EQ(cuts_of(layer("8", 64), kSlowLink), "bbcr");
  shard::Costs costs = kSlowLink;
  costs.link_bytes_per_s = 1e18;
  EXPECT_EQ(cuts_of(layer("8", 64), costs), "crcr") << "there is nothing to be saved";
  costs = {.operations_per_s = 1e12, .memory_bytes_per_s = 1e3, .link_bytes_per_s = 1e5, .latency_s = 0};
  EXPECT_EQ(cuts_of(layer("8", 64), costs), "crcr") << "a whole weight is read for a part of the batch";
  EXPECT_EQ(cuts_of(layer("8", 16), kSlowLink), "crcr") << "weights of attention are many beside the others";
  EXPECT_EQ(cuts_of(layer("8", 16), kSlowLink, 4, "q batch\no batch"), "bbcr");
  EXPECT_EQ(cuts_of(layer("6", 64), kSlowLink), "crcr") << "four processes do not divide the batch";
  EXPECT_EQ(cuts_of(layer("6", 64), kSlowLink, 2), "bbcr");
  EXPECT_EQ(cuts_of(layer("8", 64, true), kSlowLink), "crcr") << "the model has state";
  EXPECT_EQ(cuts_of(layer("8", 64), kSlowLink, 4, "q columns\no rows"), "crcr");
  EXPECT_EQ(cuts_of(layer("8", 64), kSlowLink, 4, "up batch\ndown batch"), "crbb");
  EXPECT_EQ(cuts_of(layer("8", 64), kSlowLink, 4, "q batch\no replicated"), "b-cr");
  std::string unknown = layer("s0", 64);
  unknown.replace(unknown.find("graph("), 6, "sym s0 in [1, 64]\ngraph(");
  EXPECT_EQ(cuts_of(unknown, kSlowLink), "crcr");
  EXPECT_EQ(cuts_of(unknown, kSlowLink, 4, "* batch"), "----") << "parts have known sizes";
  EXPECT_EQ(message_of([&] { cuts_of(unknown, kSlowLink, 4, "q batch"); }),
            "'q' meets no batch that is cut among 4 processes\na batch is the first dim of an input, of a fixed size that is a multiple of "
            "the processes");
}

// ---- what

// a is a product for a part of the batch; y is made of it, and is multiplied for a part, too, where the operation lets it through.
struct BatchCase {
  std::string name, operation;
  bool goes_through;
  std::string sizes = "4, 6, 8";  // of y
  std::string inputs = {};
};
void PrintTo(const BatchCase& row, std::ostream* out) { *out << row.name; }

const BatchCase kBatchCases[] = {
    {"pointwise", "y: f32[4, 6, 8] = aten::gelu(a)", true},
    {"norm", "y: f32[4, 6, 8] = aten::layer_norm(a, [8])", true},
    {"softmax_of_features", "y: f32[4, 6, 8] = aten::softmax.int(a, 2)", true},
    {"softmax_of_the_batch", "y: f32[4, 6, 8] = aten::softmax.int(a, 0)", true},
    {"sums_along_the_batch", "y: f32[4, 6, 8] = aten::cumsum(a, 0)", false},
    {"sums_along_the_sequence", "y: f32[4, 6, 8] = aten::cumsum(a, 1)", true},
    {"mean_of_the_batch", "m: f32[1, 6, 8] = aten::mean.dim(a, [0], true)\n  y: f32[4, 6, 8] = aten::sub.Tensor(a, m)", true},
    {"greatest_of_the_batch", "m: f32[1, 6, 8] = aten::amax(a, [0], true)\n  y: f32[4, 6, 8] = aten::sub.Tensor(a, m)", true},
    {"greatest_of_the_batch_alone", "m: f32[1, 6, 8] = aten::amax(a, [0], true)\n  y: f32[4, 6, 8] = aten::expand(m, [4, 6, 8])", false},
    {"order_of_the_batch", "y: f32[4, 6, 8], i: i64[4, 6, 8] = aten::sort(a, 0)", false},
    {"order_of_features", "y: f32[4, 6, 8], i: i64[4, 6, 8] = aten::sort(a, 2)", true},
    {"flipped_batch", "y: f32[4, 6, 8] = aten::flip(a, [0])", false},
    {"flipped_sequence", "y: f32[4, 6, 8] = aten::flip(a, [1])", true},
    {"rolled_batch", "y: f32[4, 6, 8] = aten::roll(a, [1], [0])", false},
    {"transposed_batch", "t: f32[6, 4, 8] = aten::transpose.int(a, 0, 1)\n  y: f32[6, 4, 8] = aten::gelu(t)", false, "6, 4, 8"},
    {"batch_and_sequence_in_one", "y: f32[24, 8] = aten::reshape(a, [24, 8])", true, "24, 8"},
    {"sequence_and_batch_in_one", "t: f32[6, 4, 8] = aten::transpose.int(a, 0, 1)\n  y: f32[24, 8] = aten::reshape(t, [24, 8])", false,
     "24, 8"},
    {"other_rows", "y: f32[6, 4, 8] = aten::reshape(a, [6, 4, 8])", true, "6, 4, 8"},
    {"rows_that_parts_share", "r: f32[3, 8, 8] = aten::reshape(a, [3, 8, 8])\n  y: f32[3, 8, 8] = aten::gelu(r)", false, "3, 8, 8"},
    {"joined_along_the_batch", "y: f32[8, 6, 8] = aten::cat([a, a])", true, "8, 6, 8"},
    {"joined_along_the_sequence", "y: f32[4, 12, 8] = aten::cat([a, a], 1)", true, "4, 12, 8"},
    {"some_of_the_batch", "y: f32[2, 6, 8] = aten::slice.Tensor(a, 0, 1, 3)", false, "2, 6, 8"},
    {"each_other_of_the_batch", "y: f32[2, 6, 8] = aten::slice.Tensor(a, 0, 0, 4, 2)", false, "2, 6, 8"},
    {"some_of_the_sequence", "y: f32[4, 2, 8] = aten::slice.Tensor(a, 1, 1, 5, 2)", true, "4, 2, 8"},
    {"product_of_each_with_itself",
     "t: f32[4, 8, 6] = aten::transpose.int(a, 1, 2)\n  s: f32[4, 6, 6] = aten::bmm(a, t)\n  y: f32[4, 6, 8] = aten::bmm(s, a)", true},
    {"product_of_the_batch_with_itself",
     "b: f32[4, 48] = aten::reshape(a, [4, 48])\n  t: f32[48, 4] = aten::transpose.int(b, 0, 1)\n  s: f32[4, 4] = aten::mm(b, t)\n"
     "  u: f32[4, 48] = aten::mm(s, b)\n  y: f32[4, 6, 8] = aten::reshape(u, [4, 6, 8])",
     false},
    {"sum_over_the_batch_in_a_product",
     "b: f32[4, 48] = aten::reshape(a, [4, 48])\n  t: f32[48, 4] = aten::transpose.int(b, 0, 1)\n  s: f32[48, 48] = aten::mm(t, b)\n"
     "  y: f32[288, 8] = aten::reshape(s, [288, 8])",
     false, "288, 8"},
    {"attention_within_each",
     "h: f32[4, 1, 6, 8] = aten::unsqueeze(a, 1)\n  s: f32[4, 1, 6, 8] = aten::scaled_dot_product_attention(h, h, h)\n"
     "  y: f32[4, 6, 8] = aten::squeeze.dim(s, 1)",
     true},
    {"attention_over_the_batch",
     "t: f32[6, 4, 8] = aten::transpose.int(a, 0, 1)\n  h: f32[6, 1, 4, 8] = aten::unsqueeze(t, 1)\n"
     "  s: f32[6, 1, 4, 8] = aten::scaled_dot_product_attention(h, h, h)\n  y: f32[6, 4, 8] = aten::squeeze.dim(s, 1)",
     false, "6, 4, 8"},
    {"picked_from_the_batch", "y: f32[4, 6, 8] = aten::index_select(a, 0, i)", false, "4, 6, 8", ", i: i64[4]"},
    {"picked_from_the_sequence", "y: f32[4, 4, 8] = aten::index_select(a, 1, i)", true, "4, 4, 8", ", i: i64[4]"},
    {"written_into_the_batch", "y: f32[4, 6, 8] = aten::index_copy(a, 0, i, a)", false, "4, 6, 8", ", i: i64[4]"},
    {"shifted_batch", "y: f32[4, 6, 8] = aten::constant_pad_nd(a, [0, 0, 0, 0, 1, -1])", false},
    {"batch_with_more_behind", "y: f32[6, 6, 8] = aten::constant_pad_nd(a, [0, 0, 0, 0, 0, 2])", false, "6, 6, 8"},
    {"sequence_with_more_around", "y: f32[4, 9, 8] = aten::constant_pad_nd(a, [0, 0, 1, 2])", true, "4, 9, 8"},
    {"convolution_along_the_sequence", "k: f32[6, 6, 3] = constant(2)\n  y: f32[4, 6, 8] = aten::conv1d(a, k, none, [1], [1])", false},
};

class BatchRules : public testing::TestWithParam<BatchCase> {};
TEST_P(BatchRules, LetThroughWhatMixesNothing) {
  const BatchCase& row = GetParam();
  const std::string text =
      fmt::format(R"(constant 0 "v": f32[8, 8] = {}
constant 1 "w": f32[8, 8] = {}
constant 2 "k": f32[6, 6, 3] = {}
graph(x: f32[4, 6, 8]{}) {{
  v: f32[8, 8] = constant(0)
  w: f32[8, 8] = constant(1)
  a: f32[4, 6, 8] = aten::linear(x, v)
  {}
  z: f32[{}] = aten::linear(y, w)
  return z
}})",
                  batch_numbers(64, 5), batch_numbers(64, 6), batch_numbers(108, 7), row.inputs, row.operation, row.sizes);
  std::vector<CompiledModel> models;
  for (int rank = 0; rank < 2; ++rank) {
    BatchPart part = batch_part_of(text, rank, "* batch", 2);
    ASSERT_EQ(part.plan.products.size(), 2u);
    EXPECT_TRUE(part.plan.products[0].by_batch);
    EXPECT_EQ(part.plan.products[1].by_batch, row.goes_through);
    models.push_back(TestSession::get().compile(std::move(part.program), {.optimization = 1}));
  }
  const CompiledModel whole = TestSession::get().compile(parse_text(text), {.optimization = 1});
  std::vector<double> x;
  for (int i = 0; i < 192; ++i) x.push_back(i * 5 % 23 * 0.1 - 1);
  std::vector<HostTensor> inputs = {HostTensor::from_doubles(DType::F32, {4, 6, 8}, x)};
  if (!row.inputs.empty()) inputs.push_back(HostTensor::from_ints(DType::I64, {4}, std::vector<int64_t>{2, 0, 3, 1}));
  expect_in_all_ranks(
      [&](int rank) {
        const HostTensor found = models[static_cast<size_t>(rank)].load(1).run(inputs)[0], expected = whole.load(1).run(inputs)[0];
        ASSERT_EQ(found.sizes(), expected.sizes());
        for (int64_t k = 0; k < found.numel(); ++k) ASSERT_NEAR(found.double_at(k), expected.double_at(k), 1e-5) << k;
      },
      2);
}
INSTANTIATE_TEST_SUITE_P(Operations, BatchRules, testing::ValuesIn(kBatchCases), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace toroid
