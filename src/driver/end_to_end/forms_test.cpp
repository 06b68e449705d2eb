// Kernels that can have two forms compute the same bits in both, and find out at the first call which is quicker.
#include <cctype>
#include <cmath>
#include <thread>

#include <fmt/format.h>

#include "driver/end_to_end/compiled_for_test.h"
#include "support/process/subprocess.h"

namespace toroid {
namespace {

using schedule::Forms;

struct FormCase {
  std::string name;
  std::string graph;  // of tensors of T, the dtype
};
void PrintTo(const FormCase& row, std::ostream* out) { *out << row.name; }

const FormCase kFormCases[] = {
    {"softmax", R"(graph(x: T[29, 1003]) {
  y: T[29, 1003] = aten::softmax.int(x, -1)
  return y
})"},
    {"softmax_and_what_it_is_of", R"(graph(x: T[29, 1003], r: T[29, 1003], w: T[1003]) {
  a: T[29, 1003] = aten::mul.Tensor(x, w)
  s: T[29, 1003] = aten::add.Tensor(a, r)
  y: T[29, 1003] = aten::softmax.int(s, -1)
  z: T[29, 1003] = aten::mul.Tensor(y, s)
  u: T[29, 1003] = aten::add.Tensor(z, a)
  return u
})"},
    {"softmax_of_columns", R"(graph(x: T[61, 203]) {
  y: T[61, 203] = aten::softmax.int(x, 0)
  return y
})"},
    {"log_softmax", R"(graph(x: T[29, 1003]) {
  y: T[29, 1003] = aten::log_softmax.int(x, -1)
  return y
})"},
    {"logsumexp_of_products", R"(graph(x: T[29, 1003], r: T[29, 1003]) {
  a: T[29, 1003] = aten::mul.Tensor(x, r)
  y: T[29] = aten::logsumexp(a, [1])
  return y
})"},
    {"layer_norm_with_residual_and_gelu", R"(graph(x: T[29, 1003], r: T[29, 1003], w: T[1003], b: T[1003]) {
  s: T[29, 1003] = aten::add.Tensor(x, r)
  n: T[29, 1003] = aten::layer_norm(s, [1003], w, b)
  y: T[29, 1003] = aten::gelu(n)
  return y, s
})"},
    {"layer_norm_of_a_sum_of_products", R"(graph(x: T[29, 1003], r: T[29, 1003], v: T[1003], w: T[1003], b: T[1003]) {
  a: T[29, 1003] = aten::mul.Tensor(x, v)
  c: T[29, 1003] = aten::mul.Tensor(r, w)
  s: T[29, 1003] = aten::sub.Tensor(a, c)
  n: T[29, 1003] = aten::layer_norm(s, [1003], w, b)
  z: T[29, 1003] = aten::add.Tensor(n, a)
  return z
})"},
    {"rms_norm_with_residual_and_silu", R"(graph(x: T[29, 1003], r: T[29, 1003], w: T[1003]) {
  s: T[29, 1003] = aten::add.Tensor(x, r)
  n: T[29, 1003] = aten::rms_norm(s, [1003], w)
  y: T[29, 1003] = aten::silu(n)
  return y
})"},
    {"gelu_less_its_mean", R"(graph(x: T[29, 1003], r: T[29, 1003]) {
  s: T[29, 1003] = aten::add.Tensor(x, r)
  g: T[29, 1003] = aten::gelu(s)
  m: T[29, 1] = aten::mean.dim(g, [1], True)
  y: T[29, 1003] = aten::sub.Tensor(g, m)
  z: T[29, 1003] = aten::mul.Tensor(y, y)
  v: T[29] = aten::sum.dim_IntList(z, [1])
  return y, v
})"},
    {"product_kept_and_added", R"(graph(x: T[29, 1003], r: T[29, 1003], w: T[1003]) {
  a: T[29, 1003] = aten::mul.Tensor(x, r)
  p: T[29, 1003] = aten::mul.Tensor(a, w)
  m: T[29, 1] = aten::amax(p, [1], True)
  q: T[29, 1003] = aten::add.Tensor(p, m)
  c: T[29, 1003] = aten::sub.Tensor(m, p)
  e: T[29, 1003] = aten::mul.Tensor(q, c)
  v: T[29] = aten::sum.dim_IntList(e, [1])
  k: T[29] = aten::sum.dim_IntList(p, [1])
  return e, v, k
})"},
    {"tanh_over_two_dims", R"(graph(x: T[7, 13, 67], r: T[7, 67, 13]) {
  t: T[7, 13, 67] = aten::permute(r, [0, 2, 1])
  s: T[7, 13, 67] = aten::mul.Tensor(x, t)
  h: T[7, 13, 67] = aten::tanh(s)
  m: T[7, 1, 1] = aten::mean.dim(h, [1, 2], True)
  d: T[7, 13, 67] = aten::sub.Tensor(h, m)
  y: T[7, 13, 67] = aten::div.Tensor(d, m)
  return y
})"},
};

// The row's graph once for each dtype, in one program, which a compiler takes in a third of the time of three: values, which have one
// letter, are followed by the number of their dtype.
std::string in_dtypes(const std::string& graph, std::initializer_list<std::string_view> dtypes) {
  std::string inputs, body, outputs;
  int number = 0;
  for (const std::string_view dtype : dtypes) {
    std::string text;
    const auto is_word = [&](size_t i) { return std::isalnum(static_cast<unsigned char>(graph[i])) != 0 || graph[i] == '_'; };
    for (size_t i = 0; i < graph.size(); ++i) {
      const bool is_one_letter = std::isalpha(static_cast<unsigned char>(graph[i])) != 0 && !is_word(i - 1) && !is_word(i + 1);
      if (is_one_letter && graph[i] == 'T') {
        text += dtype;
      } else {
        text += graph[i];
        if (is_one_letter) text += std::to_string(number);
      }
    }
    ++number;
    const size_t open = text.find('(') + 1, close = text.find(") {"), back = text.find("  return "), end = text.find("\n}", back);
    const std::string separator = inputs.empty() ? "" : ", ";
    inputs += separator + text.substr(open, close - open);
    body += text.substr(close + 4, back - close - 4);
    outputs += separator + text.substr(back + 9, end - back - 9);
  }
  return fmt::format("graph({}) {{\n{}  return {}\n}}", inputs, body, outputs);
}

// NaN is NaN, whatever its bits.
void expect_same_bits(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> x = a[i].to_doubles(), y = b[i].to_doubles();
    ASSERT_EQ(x.size(), y.size());
    size_t differing = 0;
    for (size_t e = 0; e < x.size(); ++e) {
      const bool is_same = std::isnan(x[e]) ? std::isnan(y[e]) : x[e] == y[e] && std::signbit(x[e]) == std::signbit(y[e]);
      if (!is_same && ++differing == 1)
        ADD_FAILURE() << "output " << i << ", element " << e << ": " << fmt::format("{} and {}", x[e], y[e]);
    }
    EXPECT_EQ(differing, 0u);
  }
}

std::vector<HostTensor> run_with(CompileSession& session, const std::string& text, Forms forms, const std::vector<HostTensor>& inputs) {
  return session.compile(parse_text(text), {.forms = forms}).load(2).run(inputs);
}

class TwoForms : public testing::TestWithParam<FormCase> {};
TEST_P(TwoForms, HaveTheSameBits) {
  std::vector<std::string> compilers = {"g++"};
  if (find_program("clang++")) compilers.emplace_back("clang++");
  for (const std::string& compiler : compilers) {
    const ScopedVariable variable("TOROID_CXX", compiler);
    CompileSession session(false);
    SCOPED_TRACE(compiler);
    const std::string text = in_dtypes(GetParam().graph, {"f32", "bf16", "f64"});
    const std::vector<HostTensor> inputs = example_inputs(parse_text(text));
    expect_same_bits(run_with(session, text, Forms::Persistent, inputs), run_with(session, text, Forms::Looped, inputs));
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, TwoForms, testing::ValuesIn(kFormCases), [](const auto& row) { return row.param.name; });

// Large enough for both forms, which are close by their estimates. One input is named as the number that says which.
constexpr std::string_view kBoth = R"(
sym s0 in [1, 4096] hint 256
graph(x: f32[s0, 1024], form: f32[s0, 1024], w: f32[1024], b: f32[1024]) {
  s: f32[s0, 1024] = aten::add.Tensor(x, form)
  n: f32[s0, 1024] = aten::layer_norm(s, [1024], w, b)
  return n
})";

TEST(TwoForms, TheFirstCallChooses) {
  const CompiledModel model = TestSession::get().compile(parse_text(kBoth), {.forms = Forms::Measured});
  EXPECT_EQ(model.kernel_calls, 1);
  EXPECT_EQ(model.kernels, 2);
  const std::vector<HostTensor> inputs = example_inputs(parse_text(kBoth), {{"s0", 200}});
  const std::vector<HostTensor> expected = TestSession::get().compile(parse_text(kBoth), {.forms = Forms::Looped}).load(1).run(inputs);
  Executable program = model.load(2);
  ASSERT_EQ(general_variant(program.tables()).num_choices, 1);
  EXPECT_EQ(general_variant(program.tables()).choices[0].num_forms, 2);
  EXPECT_EQ(program.forms(), (std::vector<std::optional<size_t>>{std::nullopt}));
  expect_same_bits(program.run(inputs), expected);
  const std::vector<std::optional<size_t>> chosen = program.forms();
  ASSERT_TRUE(chosen[0].has_value());
  expect_same_bits(program.run(inputs), expected);
  EXPECT_EQ(program.forms(), chosen);
}

// In a loop's body, whose first run chooses; under a loop each run has a call of its own.
TEST(TwoForms, InTheBodyOfALoop) {
  constexpr std::string_view kLoop = R"(
subgraph 0(n: i64[], x: f32[256, 1024], r: f32[256, 1024]) {
  again: bool[] = aten::lt.Scalar(n, 3)
  return again
}
subgraph 1(n: i64[], x: f32[256, 1024], r: f32[256, 1024]) {
  next: i64[] = aten::add.Scalar(n, 1)
  s: f32[256, 1024] = aten::add.Tensor(x, r)
  y: f32[256, 1024] = aten::layer_norm(s, [1024])
  return next, y
}
graph(p: f32[256, 1024], q: f32[256, 1024], zero: i64[]) {
  n: i64[], y: f32[256, 1024] = higher_order::while_loop(@0, @1, [zero, p], [q])
  return y
})";
  std::vector<HostTensor> inputs = {example_input("p", DType::F32, {256, 1024}), example_input("q", DType::F32, {256, 1024}),
                                    HostTensor::from_ints(DType::I64, {}, std::vector<int64_t>{0})};
  const CompiledModel model = TestSession::get().compile(parse_text(kLoop), {.forms = Forms::Measured});
  Executable program = model.load(2);
  ASSERT_EQ(general_variant(program.tables()).num_choices, 1);
  const std::vector<HostTensor> expected = TestSession::get().compile(parse_text(kLoop), {.forms = Forms::Persistent}).load(1).run(inputs);
  expect_same_bits(program.run(inputs), expected);
  EXPECT_TRUE(program.forms()[0].has_value());
}

// The settings that leave nothing to measure, and what is refused.
TEST(TwoForms, CanBePinned) {
  for (const Forms forms : {Forms::Estimated, Forms::Persistent, Forms::Looped}) {
    const ScopedVariable variable("TOROID_FORMS", std::string(schedule::to_string(forms)));
    const CompiledModel model = TestSession::get().compile(parse_text(kBoth));
    EXPECT_EQ(model.kernels, 1);
    EXPECT_EQ(general_variant(model.load(1).tables()).num_choices, 0);
  }
  const ScopedVariable variable("TOROID_FORMS", "round");
  try {
    TestSession::get().compile(parse_text(kBoth));
    FAIL() << "a form that does not exist was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.report(), "error: TOROID_FORMS is 'round'\n  help: it may be measured, estimated, persistent or looped");
  }
}

}  // namespace
}  // namespace toroid
