#include "passes/decompose/engine/vmap.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "interp/compare.h"
#include "interp/evaluate.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// A body of a slice `a` and of `w`, which is the same for all slices.
struct Body {
  const char* name;
  const char* slice;
  const char* other;
  const char* nodes;  // define y
  const char* result;
  bool all_at_once = true;
};

void PrintTo(const Body& body, std::ostream* out) { *out << body.name; }

const Body kBodies[] = {
    {"elements", "f32[4]", "f32[4]", "y: f32[4] = aten::mul.Tensor(a, w)", "f32[4]"},
    {"of the other alone", "f32[4]", "f32[4]", "y: f32[4] = aten::sin(w)", "f32[4]"},
    {"sum", "f32[3, 4]", "f32[4]", "t: f32[3] = aten::sum.dim_IntList(a, [1])\n  y: f32[] = aten::sum(t)", "f32[]"},
    {"softmax", "f32[3, 4]", "f32[4]", "t: f32[3, 4] = aten::add.Tensor(a, w)\n  y: f32[3, 4] = aten::softmax.int(t, 0)", "f32[3, 4]"},
    {"product with one matrix", "f32[3, 4]", "f32[4, 2]", "y: f32[3, 2] = aten::mm(a, w)", "f32[3, 2]"},
    {"product of one matrix", "f32[4, 3]", "f32[2, 4]", "y: f32[2, 3] = aten::mm(w, a)", "f32[2, 3]"},
    {"turned", "f32[3, 4]", "f32[4]", "t: f32[4, 3] = aten::t(a)\n  y: f32[6, 2] = aten::reshape(t, [6, 2])", "f32[6, 2]"},
    {"flipped and padded", "f32[3, 4]", "f32[4]", "t: f32[3, 4] = aten::flip(a, [1])\n  y: f32[3, 7] = aten::constant_pad_nd(t, [1, 2], 5)",
     "f32[3, 7]"},
    {"diagonal", "f32[3, 4]", "f32[4]", "y: f32[3] = aten::diagonal(a)", "f32[3]"},
    {"joined", "f32[3, 4]", "f32[1, 4]", "y: f32[4, 4] = aten::cat([a, w], 0)", "f32[4, 4]"},
    {"rows by number", "f32[3, 4]", "i64[5]", "y: f32[5, 4] = aten::index_select(a, 0, w)", "f32[5, 4]"},
    {"numbers of rows", "i64[5]", "f32[3, 4]", "y: f32[5, 4] = aten::index_select(w, 0, a)", "f32[5, 4]"},
    {"added where numbers say", "f32[5]", "i64[5]", "t: f32[4] = aten::zeros([4])\n  y: f32[4] = aten::scatter_add(t, 0, w, a)", "f32[4]"},
    {"sorted", "f32[3, 4]", "f32[4]", "y: f32[3, 4], i: i64[3, 4] = aten::sort(a, 0, true)", "f32[3, 4]"},
    {"running maximum", "f32[3, 4]", "f32[4]", "y: f32[3, 4], i: i64[3, 4] = aten::cummax(a, 1)", "f32[3, 4]"},
    {"variance", "f32[3, 4]", "f32[4]", "y: f32[4] = aten::var.correction(a, [0])", "f32[4]"},
    {"median", "f32[3, 4]", "f32[4]", "y: f32[3], i: i64[3] = aten::median.dim(a, 1)", "f32[3]"},
    {"images", "f32[2, 3, 5]", "f32[4, 3, 2]", "y: f32[2, 4, 4] = aten::conv1d(a, w)", "f32[2, 4, 4]"},
    {"filters", "f32[4, 3, 2]", "f32[2, 3, 5]", "y: f32[2, 4, 4] = aten::conv1d(w, a)", "f32[2, 4, 4]", false},
    {"own numbers", "f32[4]", "f32[4]", "y: f32[4] = aten::rand_like(a)", "f32[4]", false},
};

std::string text(const Body& body, std::string_view op) {
  auto batched = [](std::string_view type) {
    const size_t bracket = type.find('[') + 1;
    return fmt::format("{}6{}{}", type.substr(0, bracket), type[bracket] == ']' ? "" : ", ", type.substr(bracket));
  };
  return fmt::format(
      "program \"vmap\"\nsubgraph 0(a: {0}, w: {1}) {{\n  {2}\n  return y\n}}\ngraph(x: {3}, v: {1}) {{\n"
      "  z: {4} = higher_order::{5}(@0, [x], [v])\n  return z\n}}\n",
      body.slice, body.other, body.nodes, batched(body.slice), batched(body.result), op);
}

HostTensor input(const TensorType& type, uint32_t seed) {
  std::vector<int64_t> sizes;
  for (sym::Expr size : type.sizes) sizes.push_back(size.value());
  std::vector<double> numbers;
  std::vector<int64_t> integers;
  for (int64_t i = 0; i < numel(sizes); ++i) {
    seed = seed * 1664525u + 1013904223u;
    numbers.push_back(static_cast<double>(seed >> 16) / 32768 - 1);
    integers.push_back(seed >> 16 & 1);
  }
  return type.dtype == DType::I64 ? HostTensor::from_ints(type.dtype, sizes, integers)
                                  : HostTensor::from_doubles(type.dtype, sizes, numbers);
}

bool has_loops(const Program& program) {
  for (const Node& node : program.graph.nodes()) {
    if (std::holds_alternative<HigherOrder>(node.op)) return true;
  }
  return false;
}

// vmap(…, randomness="same"), and "different", which the table above has.
TEST(VmapRandomness, TheSameForAllSlicesWhereItIsAskedFor) {
  const Body& body = kBodies[std::size(kBodies) - 1];
  std::string program_text = text(body, "vmap");
  program_text.replace(program_text.find("[v])"), 4, "[v], \"same\")");
  try {
    Program program = parse_text(program_text);
    decompose(program);
    EXPECT_FALSE(has_loops(program));
    std::vector<HostTensor> inputs;
    for (ValueId id : program.graph.inputs) inputs.push_back(input(program.graph.type(id), 1));
    const HostTensor drawn = evaluate(program, inputs)[0];
    for (int64_t i = 4; i < drawn.numel(); ++i) EXPECT_EQ(drawn.double_at(i), drawn.double_at(i % 4));
    EXPECT_NE(drawn.double_at(0), drawn.double_at(1));
  } catch (const Error& error) {
    ADD_FAILURE() << error.report();
  }
}

class Vmap : public testing::TestWithParam<Body> {};
TEST_P(Vmap, GivesWhatTheSlicesGiveOneByOne) {
  try {
    Program at_once = parse_text(text(GetParam(), "vmap")), one_by_one = parse_text(text(GetParam(), "map_impl"));
    std::vector<HostTensor> inputs;
    for (ValueId id : at_once.graph.inputs) inputs.push_back(input(at_once.graph.type(id), static_cast<uint32_t>(inputs.size() + 1)));
    for (Program* program : {&at_once, &one_by_one}) {
      decompose(*program);
      verify(*program, Level::Core);
    }
    EXPECT_EQ(has_loops(at_once), !GetParam().all_at_once);
    EXPECT_TRUE(has_loops(one_by_one));
    EXPECT_EQ(difference(evaluate(at_once, inputs)[0], evaluate(one_by_one, inputs)[0], {.sums_or_products = true}), std::nullopt);
  } catch (const Error& error) {
    ADD_FAILURE() << error.report();
  }
}
INSTANTIATE_TEST_SUITE_P(Bodies, Vmap, testing::ValuesIn(kBodies), [](const auto& row) {
  std::string name = row.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

}  // namespace
}  // namespace toroid
