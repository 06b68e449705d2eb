// Whole programs: compiled, run, and compared with the evaluator. Many operations share a program, because compiling takes time.
#include "driver/compile.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "driver/end_to_end/compiled_for_test.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// ---- every scalar operator on every dtype -----------------------------------------------------------------------------------

struct ScalarOpRow {
  std::string_view name;
  int arity;
};
constexpr ScalarOpRow kScalarOps[] = {
#define TOROID_SCALAR_OP(Enum, name, arity, result) {#name, arity},
#include "tensor/scalar_op.def"
#undef TOROID_SCALAR_OP
};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool applies(std::string_view op, std::string_view dtype) {
  if (op.starts_with("philox")) return dtype == "i64";
  const bool on_bits = is_one_of(op, {"bit_and", "bit_or", "bit_xor", "bit_not"});
  if (dtype == "bool") return on_bits || is_one_of(op, {"add", "mul", "min", "max", "eq", "ne", "lt", "le", "gt", "ge", "where"});
  const bool on_integers =
      is_one_of(op, {"neg",  "abs", "sign", "floor", "ceil", "trunc", "round", "add", "sub", "mul",   "floor_div", "trunc_div", "mod",
                     "fmod", "min", "max",  "eq",    "ne",   "lt",    "le",    "gt",  "ge",  "where", "isnan",     "isinf",     "signbit"});
  const bool only_integers = on_bits || is_one_of(op, {"gcd", "shift_left", "shift_right"});
  const bool narrow = dtype == "f16" || dtype == "bf16";
  const bool is_float = narrow || dtype == "f32" || dtype == "f64";
  return is_float ? !only_integers : on_integers || only_integers;
}

// Results for arguments where the function is defined; elsewhere the evaluator and libraries may differ.
std::string operands(std::string_view op, int arity, bool is_float) {
  if (op == "where") return "c, x, y";
  if (op.starts_with("philox")) return "x, y, dy";
  if (is_one_of(op, {"pow", "igamma", "igammac", "zeta", "shift_left", "shift_right"})) return is_float ? "pa, pb" : "x, pb";
  if (is_one_of(op, {"floor_div", "trunc_div", "mod", "fmod"})) return is_float ? "y, dy" : "x, dy";
  if (op.starts_with("chebyshev") || op.starts_with("hermite") || op.starts_with("laguerre") || op.starts_with("legendre")) {
    return "y, pb";
  }
  return arity == 1 ? "x" : "x, y";
}

class ScalarOps : public testing::TestWithParam<std::string> {};
TEST_P(ScalarOps, AreTheEvaluators) {
  const std::string& dtype = GetParam();
  const bool narrow = dtype == "f16" || dtype == "bf16";
  const bool is_float = narrow || dtype == "f32" || dtype == "f64";
  // 37: two full vectors and a tail.
  std::string text = fmt::format("graph(x: {0}[37], y: {0}[37], dy: {0}[37], pa: {0}[37], pb: {0}[37], c: bool[37]) {{\n", dtype);
  std::string results;
  for (const ScalarOpRow& op : kScalarOps) {
    if (!applies(op.name, dtype)) continue;
    std::string arguments = operands(op.name, op.arity, is_float);
    text += fmt::format("  r_{0} = {0}({1})\n", op.name, arguments);
    results += fmt::format("{}r_{}", results.empty() ? "" : ", ", op.name);
  }
  expect_as_evaluated(text + "  return " + results + "\n}\n");
}
INSTANTIATE_TEST_SUITE_P(Dtypes, ScalarOps, testing::Values("f32", "f64", "f16", "bf16", "i8", "u8", "i16", "i32", "i64", "bool"),
                         [](const auto& row) { return row.param; });

TEST(Cast, BetweenAllDtypes) {
  const std::string_view dtypes[] = {"f32", "f64", "f16", "bf16", "i8", "u8", "i16", "i32", "i64", "bool"};
  std::string inputs, body, results;
  for (std::string_view from : dtypes) {
    // Floats that no integer holds are not compared: what they become is the processor's choice.
    const bool is_float = from.find('f') != std::string_view::npos;
    const std::string name = fmt::format("{}_{}", is_float ? "p" : "x", from);
    inputs += fmt::format("{}{}: {}[37]", inputs.empty() ? "" : ", ", name, from);
    for (std::string_view to : dtypes) {
      if (from == to) continue;
      body += fmt::format("  r_{0}_{1}: {1}[37] = cast({2})\n", from, to, name);
      results += fmt::format("{}r_{}_{}", results.empty() ? "" : ", ", from, to);
    }
  }
  expect_as_evaluated(fmt::format("graph({}) {{\n{}  return {}\n}}\n", inputs, body, results));
}

TEST(Bitcast, OfSixteenBitFloatsTakesTheirRoundedBits) {
  expect_as_evaluated(R"(
graph(x: f16[37], b: bf16[37], i: i16[37]) {
  y: f16[37] = mul(x, x)
  r0: i16[37] = bitcast(y)
  z: bf16[37] = exp(b)
  r1: i16[37] = bitcast(z)
  h: f16[37] = bitcast(i)
  r2: f16[37] = neg(h)
  s: bf16[37] = bitcast(x)
  r3: bf16[37] = neg(s)
  return r0, r1, r2, r3
}
)");
}

// ---- reductions ---------------------------------------------------------------------------------------------------------------

class Reductions : public testing::TestWithParam<std::string> {};
TEST_P(Reductions, OfAwkwardShapesAreTheEvaluators) {
  const std::string& dtype = GetParam();
  const bool is_bool = dtype == "bool";
  const bool is_float = dtype.find('f') != std::string::npos;
  struct ShapeCase {
    std::string sizes, dims;
    bool empty = false;
    bool many = false;  // elements: products of floats overflow, or not, by their order
  };
  const ShapeCase shapes[] = {
      {"[17]", "[0]"},
      {"[1]", "[0]"},
      {"[1000]", "[0]", false, true},
      {"[5, 17]", "[1]"},
      {"[5, 17]", "[0]"},
      {"[5, 17]", "[0, 1]"},
      {"[33, 1]", "[1]"},
      {"[1, 33]", "[0]"},
      {"[3, 4, 19]", "[1]"},
      {"[3, 4, 19]", "[0, 2]"},
      {"[3, 0]", "[1]", true},
      {"[0, 3]", "[1]", true},
      {"[2, 600]", "[1]", false, true},
      {"[600, 2]", "[0]", false, true},
      {"[7, 70000]", "[1]", false, true},
      {"[140000]", "[0]", false, true},
  };
  std::string inputs, body, results;
  int count = 0;
  for (const ShapeCase& shape : shapes) {
    const std::string name = fmt::format("y{}", count++);
    inputs += fmt::format("{}{}: {}{}", inputs.empty() ? "" : ", ", name, dtype, shape.sizes);
    for (std::string_view op : {"sum", "prod", "min", "max", "any", "all", "argmin", "argmax"}) {
      if (shape.empty && op != "sum" && op != "prod" && op != "any" && op != "all") continue;
      if (shape.many && op == "prod" && is_float) continue;
      if (is_bool != (op == "any" || op == "all")) continue;
      body += fmt::format("  {0}_{1} = reduce.{1}({0}, dims={2})\n", name, op, shape.dims);
      results += fmt::format("{}{}_{}", results.empty() ? "" : ", ", name, op);
    }
    if (is_float && !shape.empty) {
      body += fmt::format("  {0}_mean, {0}_m2 = reduce.welford({0}, dims={1})\n", name, shape.dims);
      results += fmt::format(", {0}_mean, {0}_m2", name);
    }
  }
  expect_as_evaluated(fmt::format("graph({}) {{\n{}  return {}\n}}\n", inputs, body, results));
}
INSTANTIATE_TEST_SUITE_P(Dtypes, Reductions, testing::Values("f32", "f64", "bf16", "i64", "i32", "u8", "bool"),
                         [](const auto& row) { return row.param; });

TEST(Reductions, KeepNanAndInfinity) {
  expect_as_evaluated(R"(
graph(x: f32[37], xs: f32[3, 12], xt: f32[12, 5], xl: f32[4, 1000], xc: f32[40, 30]) {
  j = reduce.min(xl, dims=[1])
  k = reduce.max(xl, dims=[1])
  a = reduce.min(x, dims=[0])
  b = reduce.max(x, dims=[0])
  c = reduce.sum(x, dims=[0])
  d = reduce.argmin(x, dims=[0])
  e = reduce.argmax(x, dims=[0])
  f = reduce.max(xs, dims=[1])
  g = reduce.argmax(xs, dims=[1])
  h = reduce.max(xt, dims=[0])
  i = reduce.argmin(xt, dims=[0])
  few = sign(xl)
  l = reduce.argmax(few, dims=[1])
  m = reduce.argmin(few, dims=[1])
  many = sign(xc)
  n = reduce.argmax(many, dims=[0])
  o = reduce.argmin(many, dims=[0])
  return a, b, c, d, e, f, g, h, i, j, k, l, m, n, o
})");
}

// A score 100 below the largest: its share, 4e-44, would make whatever reads it slow.
TEST(Softmax, SharesThatAreNotNormalNumbersAreZero) {
  const CompiledModel model = compiled("graph(x: f32[3, 37]) {\n  y: f32[3, 37] = aten::softmax.int(x, -1)\n  return y\n}");
  HostTensor x(DType::F32, {3, 37});
  for (int i = 0; i < 3 * 37; ++i) x.mutable_data<float>()[i] = i % 2 == 0 ? -100.0f : -0.5f;
  Executable executable = model.load(1);
  const HostTensor y = executable.run(std::vector<HostTensor>{x})[0];
  for (int i = 0; i < 3 * 37; ++i) {
    if (i % 2 == 0)
      EXPECT_EQ(y.data<float>()[i], 0.0f) << i;
    else
      EXPECT_NEAR(y.data<float>()[i], 1.0 / (i / 37 == 1 ? 19 : 18), 1e-7) << i;
  }
}

// ---- calls that do not fit --------------------------------------------------------------------------------------------------

Error error_of_run(Executable& executable, const std::vector<HostTensor>& inputs) {
  try {
    executable.run(inputs);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::Internal, "no error");
}

TEST(Executable, RefusesElementsThatDifferAtOnePlace) {
  const CompiledModel model = compiled("graph(x: f32[2, 3] strides [0, 1]) {\n  y = exp(x)\n  return y\n}");
  Executable executable = model.load(1);
  const Error error = error_of_run(executable, {HostTensor::from_doubles(DType::F32, {2, 3}, std::vector<double>{1, 2, 3, 1, 2, 4})});
  EXPECT_EQ(error.kind(), ErrorKind::InvalidInput);
  EXPECT_EQ(error.message(), "input 'x' has elements that differ where the program's strides give them one place");
  const HostTensor repeated = HostTensor::from_doubles(DType::F32, {2, 3}, std::vector<double>{0, 2, 3, 0, 2, 3});
  EXPECT_EQ(executable.run({&repeated, 1})[0].double_at(3), 1.0);
}

TEST(Compile, RefusesConstantsThatATextFormOnlyNames) {
  const std::string text =
      "constant 0 \"fc.weight\": f32[40] = external\n"
      "constant 1 \"scale\": i64[] = external\n"
      "graph(x: f32[40]) {\n  w: f32[40] = constant(0)\n  s: i64[] = constant(1)\n"
      "  y: f32[40] = aten::mul.Tensor(x, w)\n  z: f32[40] = aten::mul.Tensor(y, s)\n  return z\n}";
  const auto message = [](auto run) {
    try {
      run();
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("no error");
  };
  const std::string expected = "the constant 'fc.weight' is external: its elements are not in the text form";
  EXPECT_EQ(message([&] { CompileSession(false).compile(parse_text(text)); }), expected);
  EXPECT_EQ(message([&] {
              Program program = parse_text(text);
              decompose(program);
              evaluate(program, std::vector<HostTensor>{HostTensor(DType::F32, {40})});
            }),
            expected);
}

TEST(Executable, RefusesInputsThatDoNotFit) {
  const CompiledModel model = compiled(R"(
sym s0 in [2, 512]
graph(x: f32[s0, 3], y: i64[s0]) {
  z = exp(x)
  return z, y
})");
  Executable executable = model.load(1);
  const HostTensor x(DType::F32, {4, 3}), y(DType::I64, {4});
  EXPECT_EQ(error_of_run(executable, {x}).message(), "the program takes 2 inputs, 1 was given");
  EXPECT_EQ(error_of_run(executable, {y, x}).message(), "input 'x' has dtype i64, the program needs f32");
  EXPECT_EQ(error_of_run(executable, {HostTensor(DType::F32, {4}), y}).message(), "input 'x' has 1 dimensions, the program needs 2");
  EXPECT_EQ(error_of_run(executable, {HostTensor(DType::F32, {4, 5}), y}).message(),
            "input 'x' has size 5 in dimension 1, the program needs 3");
  EXPECT_EQ(error_of_run(executable, {HostTensor(DType::F32, {1, 3}), y}).message(),
            "input 'x' has size 1 in dimension 0, the program needs at least 2");
  EXPECT_EQ(error_of_run(executable, {x, HostTensor(DType::I64, {5})}).message(),
            "input 'y' has size 5 in dimension 0, the program needs 4 (s0, with s0 = 4)");
  EXPECT_EQ(error_of_run(executable, {x}).kind(), ErrorKind::InvalidInput);
  // A refused call leaves the program as it was.
  EXPECT_EQ(executable
                .run(std::vector<HostTensor>{HostTensor::from_doubles(DType::F32, {2, 3}, std::vector<double>(6, 0.0)),
                                             HostTensor::from_ints(DType::I64, {2}, std::vector<int64_t>{7, 8})})[1]
                .to_ints(),
            (std::vector<int64_t>{7, 8}));
}

TEST(Executable, ReportsIndicesOutOfBounds) {
  const CompiledModel model = compiled(R"(
program "lookup"
graph(w: f32[3, 5], ids: i64[4]) {
  y: f32[4, 5] = aten::embedding(w, ids)
  return y
})");
  Executable executable = model.load(1);
  const HostTensor w = example_input("w", DType::F32, {3, 5});
  for (int64_t wrong : {int64_t{3}, int64_t{-4}, INT64_MIN, INT64_MAX}) {
    const HostTensor ids = HostTensor::from_ints(DType::I64, {4}, std::vector<int64_t>{0, 1, wrong, 2});
    const Error error = error_of_run(executable, {w, ids});
    EXPECT_EQ(error.kind(), ErrorKind::InvalidInput);
    EXPECT_EQ(error.message(), fmt::format("an index read from a tensor is out of bounds: {}, where 0 to 2 are allowed", wrong));
    EXPECT_EQ(error.locations(), std::vector<std::string>{"in kernel 'copy' of lookup"});
    EXPECT_EQ(error.help_text(), "check the values of integer inputs that the model uses as indices");
  }
  const HostTensor ids = HostTensor::from_ints(DType::I64, {4}, std::vector<int64_t>{0, 1, 2, 0});
  EXPECT_EQ(executable.run(std::vector<HostTensor>{w, ids})[0].sizes(), (std::vector<int64_t>{4, 5}));
}

TEST(Executable, ReportsIntegersDividedByZero) {
  const CompiledModel model = compiled(R"(
program "shares"
graph(a: i64[37], b: i32[37], c: i64[1]) {
  x: i64[37] = aten::remainder.Tensor(a, b)
  y: i64[37] = aten::floor_divide(a, c)
  return x, y
})");
  Executable executable = model.load(1);
  auto run = [&](size_t zero_at, int64_t c) {
    std::vector<int64_t> a(37, -7);
    std::vector<int64_t> b(37, 2);
    if (zero_at < b.size()) b[zero_at] = 0;
    return std::vector<HostTensor>{HostTensor::from_ints(DType::I64, {37}, a), HostTensor::from_ints(DType::I32, {37}, b),
                                   HostTensor::from_ints(DType::I64, {1}, std::vector<int64_t>{c})};
  };
  for (const auto& inputs : {run(0, 2), run(20, 2), run(36, 2), run(99, 0)}) {
    const Error error = error_of_run(executable, inputs);
    EXPECT_EQ(error.kind(), ErrorKind::InvalidInput);
    EXPECT_EQ(error.message(), "an integer is divided by zero");
    EXPECT_EQ(error.help_text(), "check the values of integer inputs that the model divides by");
  }
  const std::vector<HostTensor> outputs = executable.run(run(99, 2));
  EXPECT_EQ(outputs[0].to_ints(), std::vector<int64_t>(37, 1));
  EXPECT_EQ(outputs[1].to_ints(), std::vector<int64_t>(37, -4));
}

TEST(CompileSession, FindsWhatItCompiledBefore) {
  constexpr std::string_view kText = "graph(x: f32[12345]) {\n  y = exp(x)\n  return y\n}\n";
  EXPECT_FALSE(compiled(kText).from_cache);
  EXPECT_TRUE(compiled(kText).from_cache);
}

// ---- programs -------------------------------------------------------------------------------------------------------------------

struct ProgramCase {
  std::string name;
  std::string text;
  std::vector<SymbolSizes> calls = {{}};
};
void PrintTo(const ProgramCase& row, std::ostream* out) { *out << row.name; }

const ProgramCase kPrograms[] = {
    {"views", R"(
graph(y: f32[6, 10], z: f32[3, 20]) {
  a = permute(y, dims=[1, 0])
  b: f32[4, 15] = reshape(a)
  c: f32[4, 5] = slice(b, starts=[0, 14], steps=[1, -3])
  d: f32[60] = reshape(y)
  e: f32[3, 20] = reshape(d)
  f = cat(e, z, dim=1)
  g: f32[3, 47] = pad(f, low=[0, 3], value=2.5)
  h: f32[1, 6, 10] = reshape(y)
  i: f32[7, 6, 10] = expand(h)
  j = add(c, c)
  k = exp(g)
  l = neg(i)
  return j, k, l, b
})"},
    {"strided_inputs", R"(
graph(y: f32[17, 33] strides [1, 17], z: f32[5, 17, 3] strides [51, 1, 17]) {
  a = exp(y)
  b = reduce.sum(y, dims=[1])
  c = reduce.max(z, dims=[1])
  d = permute(y, dims=[1, 0])
  e = add(d, d)
  return a, b, c, e
})"},
    {"narrow_floats", R"(
graph(y: bf16[5, 37], z: f16[37]) {
  a: f32[5, 37] = cast(y)
  b = reduce.sum(a, dims=[1])
  c: bf16[5] = cast(b)
  d: f32[37] = cast(z)
  e: f32[1, 37] = reshape(d)
  f: f32[5, 37] = expand(e)
  g = mul(a, f)
  h: f16[5, 37] = cast(g)
  i: bf16[5, 37] = cast(g)
  return c, h, i
})"},
    {"symbolic_sizes",
     R"(
sym s0 in [0, 512]
sym s1 in [1, 4096]
graph(y: f32[s0, s1], z: f32[s1]) {
  a: f32[s0, s1] = aten::softmax.int(y, -1)
  b: f32[s0, s1] = aten::layer_norm(y, [s1], z, z)
  c: f32[s1] = aten::sum.dim_IntList(y, [0])
  d: f32[s1, s0] = aten::t(y)
  e: f32[s1, s0] = aten::exp(d)
  f: f32[s0, 2*s1] = aten::cat([y, a], 1)
  return a, b, c, e, f
})",
     {{{"s0", 3}, {"s1", 17}}, {{"s0", 1}, {"s1", 1}}, {{"s0", 0}, {"s1", 5}}, {{"s0", 64}, {"s1", 1000}}, {{"s0", 3}, {"s1", 16}}}},
    {"norms_and_losses", R"(
graph(y: f32[6, 33], r: f32[6, 33], w: f32[33], b: f32[33], ids: i64[6]) {
  s: f32[6, 33] = aten::add.Tensor(y, r)
  n: f32[6, 33] = aten::layer_norm(s, [33], w, b)
  g: f32[6, 33] = aten::gelu(n)
  m: f32[6, 33] = aten::rms_norm(s, [33], w)
  l: f32[] = aten::cross_entropy_loss(y, ids)
  p: f32[6, 33] = aten::log_softmax.int(y, 1)
  v: f32[6] = aten::var.correction(y, [1])
  return s, g, m, l, p, v
})"},
    {"indexing", R"(
graph(w: f32[3, 5], ids: i64[4, 2], ib: i64[7], y: f32[7], z: f32[3, 3]) {
  e: f32[4, 2, 5] = aten::embedding(w, ids)
  a: f32[3] = aten::new_zeros(y, [3])
  s: f32[3] = aten::index_add(a, 0, ib, y)
  t = scatter.set(z, y, ib, ib)
  u = scan.sum(y, dim=0)
  m, mi = scan.max(y, dim=0)
  o, oi = sort(y, dim=0, descending=true, stable=true)
  q: f32[3, 3] = aten::tril(z)
  return e, s, t, u, m, mi, o, oi, q
})"},
    {"library_calls", R"(
graph(y: f32[5, 17], w: f32[9, 17], b: f32[9], q: f32[2, 4, 6, 8], k: f32[2, 4, 7, 8], n: f32[1, 3, 9, 9], f: f32[4, 3, 3, 3],
      yi: i64[3, 4], zi: i64[4, 5], yd: f64[3, 4], zd: f64[4, 5], yb: bf16[3, 40], zb: bf16[40, 5]) {
  a: f32[5, 9] = aten::linear(y, w, b)
  g: f32[5, 9] = aten::gelu(a)
  s: f32[2, 4, 6, 8] = aten::scaled_dot_product_attention(q, k, k)
  c: f32[1, 4, 5, 5] = aten::conv2d(n, f, none, [2, 2], [1, 1])
  r: f32[1, 4, 5, 5] = aten::relu(c)
  i = matmul(yi, zi)
  d = matmul(yd, zd)
  h = matmul(yb, zb)
  return g, s, r, i, d, h
})"},
    {"nothing_to_compute", R"(
graph(y: f32[5], z: f32[0, 4]) {
  a: f32[5, 1] = reshape(y)
  b = exp(z)
  return y, a, b, y
})"},
    {"tails_and_masks",
     R"(
sym s0 in [1, 100000]
graph(w: f32[3, 5], ids: i64[s0], y: f32[s0], m: bool[s0], z: f32[s0, 7]) {
  e: f32[s0, 5] = aten::embedding(w, ids)
  s: f32[s0] = aten::sum.dim_IntList(e, [1])
  f: f32[s0] = aten::where.ScalarOther(m, y, -1)
  t: f32[] = aten::sum(f)
  a: f32[] = aten::amax(y, [0])
  p: f32[s0 + 3] = aten::constant_pad_nd(y, [1, 2], 7)
  q: f32[s0 + 3] = aten::exp(p)
  c: f32[7] = aten::sum.dim_IntList(z, [0])
  u: f32[s0, 7] = aten::cumsum(z, 0)
  l: f32[s0, 7] = aten::tril(z)
  i: i64[7] = aten::argmax(z, 0)
  return s, f, t, a, q, c, u, l, i
})",
     {{{"s0", 1}}, {{"s0", 15}}, {{"s0", 16}}, {{"s0", 17}}, {{"s0", 513}}, {{"s0", 70001}}, {{"s0", 2}}}},
    {"hostile_names",
     R"(
graph(%"int64_t": f32[40], %"a\"b */ \\": f32[40], %"W": f32[40], %"i1": f32[40], %"load": i64[40], x_v1: f32[40]) {
  %"begin" = add(%"int64_t", %"a\"b */ \\")
  %"operator new" = mul(%"begin", %"W")
  %"// x" = sub(%"operator new", %"i1")
  c: f32[40] = cast(%"load")
  d = mul(%"// x", c)
  sum0 = reduce.sum(d, dims=[0])
  e = add(d, x_v1)
  return e, sum0
})"},
    {"turned_tiles_of_every_width",
     R"(
sym s0 in [1, 4096]
graph(y: f32[s0, 70], d: f64[s0, 70], w: bf16[s0, 70], z: i8[s0, 70], m: bool[s0, 70], yt: f32[70, s0], dt: f64[70, s0], wt: bf16[70, s0], zt: i8[70, s0], mt: bool[70, s0]) {
  a: f32[70, s0] = aten::t(y)
  b: f32[70, s0] = aten::add.Tensor(a, yt)
  c: f64[70, s0] = aten::t(d)
  e: f64[70, s0] = aten::mul.Tensor(c, dt)
  f: bf16[70, s0] = aten::t(w)
  g: bf16[70, s0] = aten::add.Tensor(f, wt)
  h: i8[70, s0] = aten::t(z)
  i: i8[70, s0] = aten::add.Tensor(h, zt)
  k: bool[70, s0] = aten::t(m)
  l: bool[70, s0] = aten::logical_xor(k, mt)
  o: f32[70, s0] = aten::flip(a, [0])
  p: f32[70, s0] = aten::mul.Tensor(o, yt)
  return b, e, g, i, l, p
})",
     {{{"s0", 16}}, {{"s0", 31}}, {{"s0", 600}}}},
    {"concatenations_of_many_parts",
     R"(
sym s0 in [1, 4096]
graph(a: f32[3, 5], b: f32[3, s0], c: f32[3, 1], d: f32[3, 40], e: f32[3, 17], f: f32[3, 2], g: f32[3, 33], p: bool[3, 5], q: bool[3, s0], r: bool[3, 9], t: bool[3, 20], u: bool[3, 1]) {
  x = cat(a, b, c, d, e, f, g, b, dim=1)
  y = exp(x)
  z = cat(p, q, r, t, u, dim=1)
  v = bit_not(z)
  w = cat(a, a, a, a, a, a, a, dim=0)
  o = neg(w)
  return y, v, o
})",
     {{{"s0", 1}}, {{"s0", 16}}, {{"s0", 61}}}},
    {"runs_of_memory",
     R"(
sym s0 in [1, 4096]
graph(y: f32[3, s0], z: i64[2, s0], w: bf16[s0], m: bool[s0]) {
  a: f32[3, s0] = aten::flip(y, [1])
  b: i64[2, s0] = aten::flip(z, [0, 1])
  c: bf16[s0] = aten::flip(w, [0])
  d: bool[s0] = aten::flip(m, [0])
  e: f32[3, s0] = aten::roll(y, [5], [1])
  f: i64[2, 3*s0] = aten::repeat(z, [1, 3])
  g: f32[3, 2*s0] = aten::cat([y, a], 1)
  h: f32[3, s0 + 9] = aten::constant_pad_nd(y, [4, 5], 2)
  k: f32[9, s0] = aten::repeat(y, [3, 1])
  l: f32[s0, 3] = aten::rot90(y)
  o: f32[s0, 3] = aten::rot90(y, 3)
  p: i64[s0, 2] = aten::rot90(z)
  q: f32[3, s0 + 2] = aten::replication_pad1d(y, [1, 1])
  r: f32[3, s0] = aten::tril(y, 2)
  return a, b, c, d, e, f, g, h, k, l, o, p, q, r
})",
     {{{"s0", 1}}, {{"s0", 15}}, {{"s0", 16}}, {{"s0", 33}}, {{"s0", 1000}}}},
    {"windows_in_steps_of_two", R"(
graph(y: f32[2, 3, 65], z: bf16[2, 70], w: f64[2, 3, 20, 37], m: f32[40, 50]) {
  a: f32[2, 3, 33] = aten::max_pool1d(y, [3], [2], [1])
  b: bf16[2, 35] = aten::slice.Tensor(z, 1, 1, 70, 2)
  c: f64[2, 3, 10, 19] = aten::avg_pool2d(w, [3, 3], [2, 2], [1, 1])
  d: f32[46, 56] = aten::reflection_pad2d(m, [3, 3, 3, 3])
  e: f32[50, 40] = aten::rot90(m)
  f: f32[50, 40] = aten::rot90(m, 3)
  g: f32[40, 50, 50] = aten::diag_embed(m)
  s: bf16[2, 35] = aten::neg(b)
  return a, s, c, d, e, f, g
})"},
    {"elements_repeated",
     R"(
sym s0 in [1, 300]
graph(x: f32[3, s0], y: bf16[s0], z: i64[s0], m: bool[s0], w: f64[2, s0 + 3]) {
  a: f32[3, 2*s0] = aten::repeat_interleave.self_int(x, 2, 1)
  b: bf16[4*s0] = aten::repeat_interleave.self_int(y, 4, 0)
  c: i64[3*s0] = aten::repeat_interleave.self_int(z, 3, 0)
  d: bool[2*s0] = aten::repeat_interleave.self_int(m, 2, 0)
  e: bool[40*s0] = aten::repeat_interleave.self_int(m, 40, 0)
  f: f32[3, 16*s0] = aten::repeat_interleave.self_int(x, 16, 1)
  g: f64[2, 2*s0 + 6] = aten::repeat_interleave.self_int(w, 2, 1)
  h: f64[2, 2*s0 + 1] = aten::slice.Tensor(g, 1, 3, 2*s0 + 4)
  k: f64[2, 2*s0 + 1] = aten::neg(h)
  return a, b, c, d, e, f, k
})",
     {{{"s0", 1}}, {{"s0", 16}}, {{"s0", 37}}, {{"s0", 300}}}},
    {"gradients_of_adaptive_pools",
     R"(
sym s0 in [1, 300]
sym s1 in [1, 40]
graph(x: f32[2, s0, 3*s1], g: f32[2, s1, s1], y: f64[2, 4, 48, 30], h: f64[2, 4, 12, 7]) {
  a: f32[2, s0, 3*s1] = aten::_adaptive_avg_pool2d_backward(g, x)
  b: f64[2, 4, 48, 30] = aten::_adaptive_avg_pool2d_backward(h, y)
  return a, b
})",
     {{{"s0", 1}, {"s1", 7}}, {{"s0", 37}, {"s1", 5}}, {{"s0", 257}, {"s1", 33}}}},
    {"scatters_side_by_side",
     R"(
sym s0 in [0, 4096]
graph(x: f32[s0, 6], y: f32[s0, 6], ir: i64[6], iz: i64[s0], big: f32[40, 30], part: f32[20, 30], irows: i64[20],
      cube: f32[4, 20, 30], cubes: f32[4, 7, 30], ilines: i64[7]) {
  a: f32[s0, 6] = aten::index_add(x, 1, ir, y)
  b: f32[s0, 6] = aten::index_copy(x, 1, ir, y)
  c: f32[40, 30] = aten::index_add(big, 0, irows, part)
  d: f32[4, 20, 30] = aten::index_reduce(cube, 1, ilines, cubes, "amax")
  o: i64[s0, 1] = aten::unsqueeze(iz, 1)
  e: f32[s0, 6] = aten::scatter_add(x, 1, o, y)
  p: i64[20, 1] = aten::unsqueeze(irows, 1)
  q: i64[20, 30] = aten::expand(p, [20, 30])
  f: f32[40, 30] = aten::scatter_reduce.two(big, 0, q, part, "prod")
  return a, b, c, d, e, f
})",
     {{{"s0", 0}}, {{"s0", 1}}, {{"s0", 17}}, {{"s0", 4000}}}},
    // Ranges of rows, each of which looks for what falls into it: rows that are hit often, once and never, from sizes of none on.
    {"scatters_by_rows",
     R"(
sym s0 in [0, 4096]
graph(x: f32[60, 200], y: f32[s0, 200], r: i64[s0], half: bf16[60, 200], low: bf16[s0, 200], t: f32[3, 60, 100], u: f32[3, s0, 100]) {
  p: i64[s0] = aten::remainder.Scalar(r, 60)
  n: i64[s0] = aten::sub.Tensor(p, 60)
  a: f32[60, 200] = aten::index_add(x, 0, p, y)
  b: f32[60, 200] = aten::index_copy(x, 0, n, y)
  c: bf16[60, 200] = aten::index_add(half, 0, p, low)
  d: f32[3, 60, 100] = aten::index_reduce(t, 1, p, u, "amax")
  e: f32[60, 200] = aten::embedding_dense_backward(y, p, 60, 7, False)
  f: f32[60, 200] = aten::index_put(x, [n], y, True)
  return a, b, c, d, e, f
})",
     {{{"s0", 0}}, {{"s0", 1}}, {{"s0", 37}}, {{"s0", 1000}}}},
    {"scalars", R"(
graph(y: f32[], z: i64[]) {
  a = exp(y)
  b = add(z, z)
  c: f32[] = cast(b)
  d = mul(a, c)
  return d, b
})"},
};

class Programs : public testing::TestWithParam<ProgramCase> {};
TEST_P(Programs, AreTheEvaluators) { expect_as_evaluated(GetParam().text, GetParam().calls); }
INSTANTIATE_TEST_SUITE_P(Rows, Programs, testing::ValuesIn(kPrograms), [](const auto& row) { return row.param.name; });

TEST(Scans, ARunningSumOfAMillionFloatsKeepsItsPrecision) {
  Executable executable = compiled(R"(
    graph(x: f32[1048576]) {
      y: f32[1048576] = aten::cumsum(x, 0)
      z: f32[1048576] = aten::logcumsumexp(x, 0)
      return y, z
    })")
                              .load(1);
  constexpr int64_t kCount = 1 << 20;
  const float tenth = 0.1f;
  const HostTensor x = HostTensor::from_doubles(DType::F32, {kCount}, std::vector<double>(kCount, tenth));
  const std::vector<HostTensor> outputs = executable.run({&x, 1});
  const double sum = kCount * static_cast<double>(tenth);
  EXPECT_NEAR(outputs[0].double_at(kCount - 1), sum, 1e-7 * sum);
  EXPECT_NEAR(outputs[1].double_at(kCount - 1), std::log(static_cast<double>(kCount)) + tenth, 1e-6);
}

}  // namespace
}  // namespace toroid
