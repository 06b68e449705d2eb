// Models cut for several processes: the parts together compute what the whole does, and are cut as they should be.
#include "collectives/ranks_for_test.h"
#include "driver/pipeline/take_part.h"
#include "passes/dead_code.h"
#include "passes/decompose/engine/decompose.h"
#include "support/split_mix.h"

namespace toroid {
namespace {

// Communication that costs nothing, so that small models are cut.
constexpr shard::Costs kFree = {.link_bytes_per_s = 1e18, .latency_s = 0};

// "constant 0 "w": f32[2, 3] = [0.25, …]" for each "w: f32[2, 3]"; those whose declaration begins with "buffer " are the program's state.
std::string constants(const std::vector<std::string>& declarations) {
  SplitMix random(7);
  std::string text;
  for (size_t i = 0; i < declarations.size(); ++i) {
    const bool is_buffer = declarations[i].starts_with("buffer ");
    const std::string each = is_buffer ? declarations[i].substr(7) : declarations[i];
    const size_t colon = each.find(':');
    int64_t count = 1;
    for (size_t at = each.find('['); at != each.npos && each[at] != ']'; at = each.find_first_of(",]", at + 1)) {
      count *= std::stoll(each.substr(at + 1));
    }
    std::string values;
    for (int64_t k = 0; k < count; ++k) {
      values += fmt::format("{}{}", k == 0 ? "" : ", ", static_cast<double>(random.next() % 1000) * 1e-3 - 0.5);
    }
    text += fmt::format("{} {} \"{}\":{} = [{}]\n", is_buffer ? "buffer" : "constant", i, each.substr(0, colon), each.substr(colon + 1),
                        values);
  }
  return text;
}

struct ShardCase {
  std::string name;
  std::vector<std::string> constants;
  std::string graph;
  // Of the part of one of four processes: how often it adds, or scatters what is added, and gathers, and its constants in order of their
  // names.
  int reductions, gathers;
  std::vector<std::string> parts;
  std::string rules = {};
  int calls = 1;
};
void PrintTo(const ShardCase& row, std::ostream* out) { *out << row.name; }

const ShardCase kCases[] = {
    {"perceptron",
     {"up: f32[16, 8]", "up_bias: f32[16]", "down: f32[8, 16]", "down_bias: f32[8]"},
     R"(sym s0 in [1, 64]
graph(x: f32[s0, 8]) {
  up: f32[16, 8] = constant(0)
  up_bias: f32[16] = constant(1)
  down: f32[8, 16] = constant(2)
  down_bias: f32[8] = constant(3)
  a: f32[s0, 16] = aten::linear(x, up, up_bias)
  b: f32[s0, 16] = aten::gelu(a)
  c: f32[s0, 8] = aten::linear(b, down, down_bias)
  y: f32[s0, 8] = aten::add.Tensor(c, x)
  return y
})",
     1,
     0,
     {"down: f32[8, 4]", "down_bias: f32[8]", "up: f32[4, 8]", "up_bias: f32[4]"}},
    {"attention_with_fewer_heads_of_keys",
     {"q: f32[32, 16]", "k: f32[16, 16]", "v: f32[16, 16]", "o: f32[16, 32]", "norm: f32[16]"},
     R"(graph(x: f32[2, 6, 16]) {
  wq: f32[32, 16] = constant(0)
  wk: f32[16, 16] = constant(1)
  wv: f32[16, 16] = constant(2)
  wo: f32[16, 32] = constant(3)
  n: f32[16] = constant(4)
  h: f32[2, 6, 16] = aten::layer_norm(x, [16], n)
  q0: f32[2, 6, 32] = aten::linear(h, wq)
  k0: f32[2, 6, 16] = aten::linear(h, wk)
  v0: f32[2, 6, 16] = aten::linear(h, wv)
  q1: f32[2, 6, 8, 4] = aten::view(q0, [2, 6, 8, 4])
  k1: f32[2, 6, 4, 4] = aten::view(k0, [2, 6, 4, 4])
  v1: f32[2, 6, 4, 4] = aten::view(v0, [2, 6, 4, 4])
  q: f32[2, 8, 6, 4] = aten::transpose.int(q1, 1, 2)
  k2: f32[2, 4, 6, 4] = aten::transpose.int(k1, 1, 2)
  v2: f32[2, 4, 6, 4] = aten::transpose.int(v1, 1, 2)
  k3: f32[2, 4, 1, 6, 4] = aten::unsqueeze(k2, 2)
  k4: f32[2, 4, 2, 6, 4] = aten::expand(k3, [2, 4, 2, 6, 4])
  k: f32[2, 8, 6, 4] = aten::reshape(k4, [2, 8, 6, 4])
  v: f32[2, 8, 6, 4] = aten::repeat_interleave.self_int(v2, 2, 1)
  a0: f32[2, 8, 6, 4] = aten::scaled_dot_product_attention(q, k, v, none, 0.0, true)
  a1: f32[2, 6, 8, 4] = aten::transpose.int(a0, 1, 2)
  a: f32[2, 6, 32] = aten::reshape(a1, [2, 6, 32])
  y: f32[2, 6, 16] = aten::linear(a, wo)
  return y
})",
     1,
     0,
     {"k: f32[4, 16]", "norm: f32[16]", "o: f32[16, 8]", "q: f32[8, 16]", "v: f32[4, 16]"}},
    {"table_that_is_looked_up_and_multiplied_by",
     {"tokens: f32[12, 8]"},
     R"(graph(ids: i64[5]) {
  w: f32[12, 8] = constant(0)
  x: f32[5, 8] = aten::embedding(w, ids)
  y: f32[5, 12] = aten::linear(x, w)
  return y
})",
     0,
     1,
     {"tokens.dim0: f32[3, 8]", "tokens: f32[12, 8]"}},
    {"state_that_heads_write",
     {"k: f32[16, 8]", "buffer cache: f32[1, 8, 10, 2]", "o: f32[8, 16]"},
     R"(graph(x: f32[3, 8], at: i64[3]) {
  wk: f32[16, 8] = constant(0)
  cache: f32[1, 8, 10, 2] = constant(1)
  wo: f32[8, 16] = constant(2)
  k0: f32[3, 16] = aten::linear(x, wk)
  k1: f32[1, 3, 8, 2] = aten::view(k0, [1, 3, 8, 2])
  k: f32[1, 8, 3, 2] = aten::transpose.int(k1, 1, 2)
  c: f32[1, 8, 10, 2] = aten::index_copy_(cache, 2, at, k)
  a: f32[1, 8, 3, 2] = aten::scaled_dot_product_attention(k, c, c)
  b: f32[1, 3, 8, 2] = aten::transpose.int(a, 1, 2)
  d: f32[3, 16] = aten::reshape(b, [3, 16])
  y: f32[3, 8] = aten::linear(d, wo)
  return y
})",
     1,
     0,
     {"cache: f32[1, 2, 10, 2]", "k: f32[4, 8]", "o: f32[8, 4]"},
     "",
     3},
    {"mixture_of_experts",
     {"up: f32[3, 8, 16]", "down: f32[3, 16, 8]"},
     R"(graph(x: f32[10, 8], ends: i32[3]) {
  up: f32[3, 8, 16] = constant(0)
  down: f32[3, 16, 8] = constant(1)
  a: f32[10, 16] = aten::_grouped_mm(x, up, ends)
  b: f32[10, 16] = aten::silu(a)
  y: f32[10, 8] = aten::_grouped_mm(b, down, ends)
  return y
})",
     1,
     0,
     {"down: f32[3, 4, 8]", "up: f32[3, 8, 4]"}},
    {"queries_keys_and_values_in_one_weight_and_gates_in_another",
     {"qkv: f32[48, 8]", "qkv_bias: f32[48]", "o: f32[8, 16]", "gate_up: f32[40, 8]", "down: f32[8, 20]"},
     R"(graph(x: f32[2, 3, 8]) {
  w: f32[48, 8] = constant(0)
  b: f32[48] = constant(1)
  wo: f32[8, 16] = constant(2)
  gu: f32[40, 8] = constant(3)
  wd: f32[8, 20] = constant(4)
  a: f32[2, 3, 48] = aten::linear(x, w, b)
  r: f32[2, 3, 3, 4, 4] = aten::reshape(a, [2, 3, 3, 4, 4])
  p: f32[3, 2, 4, 3, 4] = aten::permute(r, [2, 0, 3, 1, 4])
  q: f32[2, 4, 3, 4] = aten::select.int(p, 0, 0)
  k: f32[2, 4, 3, 4] = aten::select.int(p, 0, 1)
  v: f32[2, 4, 3, 4] = aten::select.int(p, 0, 2)
  s: f32[2, 4, 3, 4] = aten::scaled_dot_product_attention(q, k, v)
  t: f32[2, 3, 4, 4] = aten::transpose.int(s, 1, 2)
  u: f32[2, 3, 16] = aten::reshape(t, [2, 3, 16])
  h: f32[2, 3, 8] = aten::linear(u, wo)
  g: f32[2, 3, 40] = aten::linear(h, gu)
  g0: f32[2, 3, 20] = aten::slice.Tensor(g, 2, 0, 20)
  g1: f32[2, 3, 20] = aten::slice.Tensor(g, 2, 20, 40)
  g2: f32[2, 3, 20] = aten::silu(g0)
  m: f32[2, 3, 20] = aten::mul.Tensor(g2, g1)
  y: f32[2, 3, 8] = aten::linear(m, wd)
  return y
})",
     2,
     0,
     {"down: f32[8, 5]", "gate_up: f32[10, 8]", "o: f32[8, 4]", "qkv: f32[12, 8]", "qkv_bias: f32[12]"}},
    {"segments_of_unequal_lengths_that_are_gathered",
     {"w: f32[24, 8]", "v: f32[8, 8]"},
     R"(graph(x: f32[3, 8]) {
  w: f32[24, 8] = constant(0)
  v: f32[8, 8] = constant(1)
  a: f32[3, 24] = aten::linear(x, w)
  b: f32[3, 16] = aten::slice.Tensor(a, 1, 0, 16)
  c: f32[3, 8] = aten::slice.Tensor(a, 1, 16, 24)
  d: f32[3, 8] = aten::linear(c, v)
  e: f32[3, 24] = aten::cat([b, d], 1)
  f: f32[3, 24] = aten::add.Tensor(a, e)
  return f
})",
     1,
     1,
     {"v: f32[8, 2]", "w: f32[6, 8]"}},
    {"norm_over_what_is_cut",
     {"w: f32[8, 4]", "g: f32[8]"},
     R"(graph(x: f32[3, 4]) {
  w: f32[8, 4] = constant(0)
  g: f32[8] = constant(1)
  a: f32[3, 8] = aten::linear(x, w)
  y: f32[3, 8] = aten::rms_norm(a, [8], g, 1e-05)
  return y
})",
     1,
     1,
     {"g: f32[2]", "w: f32[2, 4]"}},
    {"rows_and_whole_weights_by_rules",
     {"a: f32[8, 12]", "b: f32[8, 8]"},
     R"(graph(x: f32[3, 12]) {
  a: f32[8, 12] = constant(0)
  b: f32[8, 8] = constant(1)
  t: f32[3, 8] = aten::linear(x, a)
  y: f32[3, 8] = aten::linear(t, b)
  return y
})",
     1,
     0,
     {"a: f32[8, 3]", "b: f32[8, 8]"},
     "a rows  # of a product\n\nb* replicated\n"},
    {"attention_by_batch_and_perceptron_by_weights",
     {"q: f32[16, 8]", "k: f32[16, 8]", "v: f32[16, 8]", "o: f32[8, 16]", "up: f32[16, 8]", "down: f32[8, 16]", "norm: f32[8]"},
     R"(graph(x: f32[8, 3, 8], mask: f32[1, 1, 3, 3]) {
  wq: f32[16, 8] = constant(0)
  wk: f32[16, 8] = constant(1)
  wv: f32[16, 8] = constant(2)
  wo: f32[8, 16] = constant(3)
  wu: f32[16, 8] = constant(4)
  wd: f32[8, 16] = constant(5)
  n: f32[8] = constant(6)
  h: f32[8, 3, 8] = aten::layer_norm(x, [8], n)
  q0: f32[8, 3, 16] = aten::linear(h, wq)
  k0: f32[8, 3, 16] = aten::linear(h, wk)
  v0: f32[8, 3, 16] = aten::linear(h, wv)
  q1: f32[8, 3, 4, 4] = aten::view(q0, [8, 3, 4, 4])
  k1: f32[8, 3, 4, 4] = aten::view(k0, [8, 3, 4, 4])
  v1: f32[8, 3, 4, 4] = aten::view(v0, [8, 3, 4, 4])
  q: f32[8, 4, 3, 4] = aten::transpose.int(q1, 1, 2)
  k: f32[8, 4, 3, 4] = aten::transpose.int(k1, 1, 2)
  v: f32[8, 4, 3, 4] = aten::transpose.int(v1, 1, 2)
  m: f32[8, 4, 3, 3] = aten::expand(mask, [8, 4, 3, 3])
  a0: f32[8, 4, 3, 4] = aten::scaled_dot_product_attention(q, k, v, m)
  a1: f32[8, 3, 4, 4] = aten::transpose.int(a0, 1, 2)
  a: f32[8, 3, 16] = aten::reshape(a1, [8, 3, 16])
  b: f32[8, 3, 8] = aten::linear(a, wo)
  c: f32[8, 3, 8] = aten::add.Tensor(b, x)
  d: f32[8, 3, 8] = aten::layer_norm(c, [8], n)
  e: f32[8, 3, 16] = aten::linear(d, wu)
  f: f32[8, 3, 16] = aten::gelu(e)
  g: f32[8, 3, 8] = aten::linear(f, wd)
  y: f32[8, 3, 8] = aten::add.Tensor(g, c)
  return y
})",
     1,
     2,
     {"down: f32[8, 4]", "k: f32[16, 8]", "norm: f32[8]", "o: f32[8, 16]", "q: f32[16, 8]", "up: f32[4, 8]", "v: f32[16, 8]"},
     "q batch\nk batch\nv batch\no batch\n"},
    {"state_that_parts_of_a_batch_write",
     {"k: f32[8, 8]", "buffer cache: f32[4, 2, 10, 4]", "o: f32[8, 8]"},
     R"(graph(x: f32[4, 3, 8], at: i64[3]) {
  wk: f32[8, 8] = constant(0)
  cache: f32[4, 2, 10, 4] = constant(1)
  wo: f32[8, 8] = constant(2)
  k0: f32[4, 3, 8] = aten::linear(x, wk)
  k1: f32[4, 3, 2, 4] = aten::view(k0, [4, 3, 2, 4])
  k: f32[4, 2, 3, 4] = aten::transpose.int(k1, 1, 2)
  c: f32[4, 2, 10, 4] = aten::index_copy_(cache, 2, at, k)
  a: f32[4, 2, 3, 4] = aten::scaled_dot_product_attention(k, c, c)
  b: f32[4, 3, 2, 4] = aten::transpose.int(a, 1, 2)
  d: f32[4, 3, 8] = aten::reshape(b, [4, 3, 8])
  y: f32[4, 3, 8] = aten::linear(d, wo)
  return y
})",
     0,
     2,
     {"cache: f32[4, 2, 10, 4]", "k: f32[8, 8]", "o: f32[8, 8]"},
     "* batch\n",
     3},
    {"batch_that_is_mixed_in_between",
     {"v: f32[8, 8]", "w: f32[8, 8]", "u: f32[8, 8]"},
     R"(graph(x: f32[4, 3, 8]) {
  v: f32[8, 8] = constant(0)
  w: f32[8, 8] = constant(1)
  u: f32[8, 8] = constant(2)
  a: f32[4, 3, 8] = aten::linear(x, v)
  b: f32[4, 3, 8] = aten::flip(a, [0])
  c: f32[4, 3, 8] = aten::linear(b, w)
  m: f32[3, 8] = aten::mean.dim(a, [0])
  d: f32[4, 3, 8] = aten::add.Tensor(c, m)
  y: f32[4, 3, 8] = aten::linear(d, u)
  return y
})",
     1,
     1,
     {"u: f32[8, 8]", "v: f32[8, 8]", "w: f32[8, 8]"},
     "* batch\n"},
    {"weight_that_all_processes_multiply_all_of_the_batch_by",
     {"v: f32[8, 8]", "w: f32[8, 8]"},
     R"(graph(x: f32[4, 8]) {
  v: f32[8, 8] = constant(0)
  w: f32[8, 8] = constant(1)
  a: f32[4, 8] = aten::linear(x, v)
  y: f32[4, 8] = aten::linear(a, w)
  return y
})",
     0,
     1,
     {"v: f32[8, 8]", "w: f32[8, 8]"},
     "v batch\nw replicated\n"},
    {"sizes_that_the_processes_do_not_divide",
     {"a: f32[6, 12]"},
     R"(graph(x: f32[3, 12]) {
  a: f32[6, 12] = constant(0)
  y: f32[3, 6] = aten::linear(x, a)
  return y
})",
     0,
     0,
     {"a: f32[6, 12]"}},
};

std::vector<std::string> constants_of(const Program& program) {
  std::vector<std::string> found;
  for (const Node& node : program.graph.nodes()) {
    const auto* constant = std::get_if<Constant>(&node.op);
    if (constant == nullptr) continue;
    const ConstantData& data = program.constant(constant->id);
    if (!data.name.empty()) found.push_back(data.name + ": " + to_string(data.type));
  }
  std::sort(found.begin(), found.end());
  return found;
}

Program part_of(const std::string& text, int rank, const std::string& rules, int processes = kRanks) {
  Program program = parse_text(text);
  decompose(program);
  remove_dead_code(program);
  shard_program(program, {.processes = processes, .rank = rank, .rules = rules, .costs = kFree});
  return program;
}

std::vector<HostTensor> inputs_of(const Program& program, int call) {
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    const TensorType& type = program.graph.type(program.graph.inputs[i]);
    std::vector<int64_t> sizes;
    for (sym::Expr size : type.sizes) sizes.push_back(size.is_const() ? size.value() : 5);
    SplitMix random(100 * i + static_cast<uint64_t>(call));
    std::vector<double> values;
    for (int64_t k = 0; k < numel(sizes); ++k) values.push_back(static_cast<double>(random.next() % 1000) * 1e-3 - 0.5);
    if (is_floating(type.dtype)) {
      inputs.push_back(HostTensor::from_doubles(type.dtype, sizes, values));
    } else {  // ends of groups, or places: 2, 4, 6, …
      std::vector<int64_t> integers;
      for (int64_t k = 0; k < numel(sizes); ++k) integers.push_back(2 * k + 2);
      inputs.push_back(HostTensor::from_ints(type.dtype, sizes, integers));
    }
  }
  return inputs;
}

class Shards : public testing::TestWithParam<ShardCase> {};
TEST_P(Shards, ComputeTogetherWhatTheWholeDoes) {
  const ShardCase& row = GetParam();
  const std::string text = constants(row.constants) + row.graph;
  int reductions = 0, gathers = 0;
  std::vector<CompiledModel> models;
  for (int rank = 0; rank < kRanks; ++rank) {
    Program part = part_of(text, rank, row.rules);
    if (rank == 0) {
      EXPECT_EQ(constants_of(part), row.parts);
      for (const Node& node : part.graph.nodes()) {
        reductions += is_library(node.op, "collectives.all_reduce") || is_library(node.op, "collectives.reduce_scatter");
        gathers += is_library(node.op, "collectives.all_gather");
      }
      EXPECT_EQ(reductions, row.reductions);
      EXPECT_EQ(gathers, row.gathers);
    }
    models.push_back(TestSession::get().compile(std::move(part), {.optimization = 1}));
  }
  const CompiledModel whole = TestSession::get().compile(parse_text(text), {.optimization = 1});
  expect_in_all_ranks([&](int rank) {
    Executable part = models[static_cast<size_t>(rank)].load(1), alone = whole.load(1);
    const Program program = parse_text(text);
    for (int call = 0; call < row.calls; ++call) {
      const std::vector<HostTensor> inputs = inputs_of(program, call);
      const std::vector<HostTensor> found = part.run(inputs), expected = alone.run(inputs);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < program.outputs.size(); ++i) {  // the state, of which each has its part, comes behind
        ASSERT_EQ(found[i].sizes(), expected[i].sizes());
        for (int64_t k = 0; k < found[i].numel(); ++k) EXPECT_NEAR(found[i].double_at(k), expected[i].double_at(k), 2e-6) << i << " " << k;
      }
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Programs, Shards, testing::ValuesIn(kCases), [](const auto& info) { return info.param.name; });

// The caller has parts of an input and of a result.
TEST(ShardRules, CutWhatTheCallerGivesAndGets) {
  constexpr const char* kText = R"(graph(x: f32[8, 3], y: f32[8, 3]) {
  z: f32[8, 3] = aten::add.Tensor(x, y)
  return z
})";
  std::vector<CompiledModel> models;
  for (int rank = 0; rank < 2; ++rank) {
    models.push_back(TestSession::get().compile(part_of(kText, rank, "x dim 0\nout0 dim 0", 2), {.optimization = 1}));
  }
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<double> x(12, 1.0), y;
    for (int i = 0; i < 24; ++i) y.push_back(i);
    const HostTensor found = models[static_cast<size_t>(rank)].load(1).run(
        std::vector<HostTensor>{HostTensor::from_doubles(DType::F32, {4, 3}, x), HostTensor::from_doubles(DType::F32, {8, 3}, y)})[0];
    EXPECT_EQ(found.sizes(), (std::vector<int64_t>{4, 3}));
    EXPECT_EQ(found.double_at(0), 1 + 12 * rank);
  }
}

const std::string kPerceptron = constants(kCases[0].constants) + kCases[0].graph;

TEST(ShardRules, SayWhatIsWrong) {
  const auto with = [](const std::string& rules) { return message_of([&] { part_of(kPerceptron, 0, rules); }); };
  EXPECT_EQ(with("up columns\ndown by rows"),
            "line 2 of the rules is no rule of a sharding: down by rows\na line is a name and replicated, columns, rows, batch, or dim N: "
            "*.down_proj.weight rows");
  EXPECT_EQ(with("up dim -1"),
            "line 1 of the rules is no rule of a sharding: up dim -1\na line is a name and replicated, columns, rows, batch, or dim N: "
            "*.down_proj.weight rows");
  EXPECT_EQ(with("left columns"),
            "the rule 'left' is of nothing in the model\ntoroid shard MODEL --tensor-parallel N names the weights of products");
  EXPECT_EQ(
      with("x batch"),
      "'x' is no weight of a product but an input or result\nan input or result is cut along a dim, as in 'x dim 0'; columns, rows and "
      "batch are of weights");
  EXPECT_EQ(with("x dim 0"),
            "'x' cannot be cut along dim 0 among 4 processes\na dim that is cut has a fixed size, which is a multiple of the "
            "processes");
  EXPECT_EQ(with("up batch"),
            "'up' meets no batch that is cut among 4 processes\na batch is the first dim of an input, of a fixed size that is a multiple "
            "of the processes");
  EXPECT_EQ(message_of([&] { part_of(kPerceptron, 0, "down rows", 3); }),
            "'down' cannot be cut by rows among 3 processes\nwhat is cut has a size that is a multiple of the processes");
}

TEST(Shards, StayWholeWhereCommunicationTakesLonger) {
  Program program = parse_text(kPerceptron);
  decompose(program);
  const shard::Plan plan = shard_program(program, {.processes = 4, .rank = 0, .costs = {.latency_s = 1}});
  EXPECT_EQ(plan.reductions + plan.gathers, 0);
  EXPECT_TRUE(plan.products.size() == 2 && !plan.products[0].by_columns && !plan.products[1].by_rows);
  for (const Node& node : program.graph.nodes()) EXPECT_FALSE(is_collective(node.op));
}

TEST(Shards, RefuseRanksAndModelsThatTheyAreNotFor) {
  const std::string without_elements =
      "constant 0 \"w\": f32[4, 8] = external\ngraph(x: f32[2, 4]) {\n  w: f32[4, 8] = constant(0)\n"
      "  y: f32[2, 8] = aten::mm(x, w)\n  return y\n}";
  EXPECT_EQ(message_of([&] { part_of(without_elements, 0, "w columns", 2); }),
            "the constant 'w' is external: its elements are not in the text form\nuse the model that the text was printed from, or write "
            "the constant's elements into the text");
  EXPECT_EQ(message_of([&] { part_of(kPerceptron, 4, ""); }), "there is no process 4 of 4\nranks count from 0: --rank 0 is the first");
  EXPECT_EQ(message_of([&] { part_of(kPerceptron, 0, "", 0); }), "a model cut for 0 processes\ngive a number from 1 on");
  EXPECT_EQ(message_of([&] {
              part_of("graph(x: f32[4]) {\n  a: f32[4] = _c10d_functional::all_reduce(x, \"sum\", \"0\")\n  return a\n}", 0, "");
            }),
            "the model is one of several processes already\ncompile what was exported for one process, or leave out --tensor-parallel");
}

TEST(Shards, RunAsTheProcessThatTheyAreFor) {
  const CompiledModel second = TestSession::get().compile(part_of(kPerceptron, 1, "", 2), {.optimization = 1});
  const std::vector<HostTensor> inputs = inputs_of(parse_text(kPerceptron), 0);
  expect_in_all_ranks(
      [&](int rank) {
        if (rank == 1) return;
        EXPECT_EQ(message_of([&] { second.load(1).run(inputs); }),
                  "the program is for process 1 of 2, and this is process 0\neach process runs the program that was compiled for its rank");
      },
      2);
}

TEST(Shards, TakeTheirRankFromTheLauncher) {
  const auto rank_with = [](const char* variable, const char* value) {
    const ScopedVariable set(variable, value);
    return shard_options({.shard = {.processes = 4}}).rank;
  };
  EXPECT_EQ(rank_with("OMPI_COMM_WORLD_RANK", "3"), 3);
  EXPECT_EQ(rank_with("PMI_RANK", "1"), 1);
  EXPECT_EQ(rank_with("SLURM_PROCID", "2"), 2);
  EXPECT_EQ(rank_with("RANK", "0"), 0);
  EXPECT_EQ(shard_options({.shard = {.processes = 4, .rank = 2}}).rank, 2);
  EXPECT_EQ(message_of([] { shard_options({.shard = {.processes = 4}}); }),
            "no launcher says which of the processes this is\nstart it by mpirun, srun or torchrun, or add --rank 0");
}

}  // namespace
}  // namespace toroid
