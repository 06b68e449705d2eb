// Programs whose course or sizes depend on the values of tensors, compiled and compared with the evaluator.
#include "driver/end_to_end/compiled_for_test.h"
#include "driver/pipeline/generate.h"

#include <fmt/format.h>

namespace toroid {
namespace {

Error error_of_call(Executable& executable, const std::vector<HostTensor>& inputs) {
  try {
    executable.run(inputs);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::Internal, "none");
}

// Compiles once, then calls with each set of inputs.
void expect_calls_as_evaluated(std::string_view text, const std::vector<std::vector<HostTensor>>& calls) {
  const CompiledModel model = compiled(text);
  Executable executable = model.load(2);
  for (const std::vector<HostTensor>& inputs : calls) {
    const std::vector<HostTensor> expected = evaluate(*model.program, inputs);
    const std::vector<HostTensor> outputs = executable.run(inputs);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(difference(outputs[i], expected[i], {.sums_or_products = true}), std::nullopt);
    }
  }
}

HostTensor floats(std::vector<int64_t> sizes, std::vector<double> values) {
  return HostTensor::from_doubles(DType::F32, std::move(sizes), values);
}
HostTensor ints(std::vector<int64_t> sizes, std::vector<int64_t> values) {
  return HostTensor::from_ints(DType::I64, std::move(sizes), values);
}

constexpr std::string_view kSomeRows = R"(
sym u0 in [2, 5] from data
graph(x: f32[5, 3], n: i64[]) {
  k: i64[] = aten::item(n)
  sym u0 = k
  y: f32[u0, 3] = aten::slice.Tensor(x, 0, 0, u0)
  z: f32[u0, 3] = aten::softmax.int(y, 0)
  s: f32[3] = aten::sum.dim_IntList(y, [0])
  return z, s, y
})";

TEST(LateSizes, ANumberInATensorIsASize) {
  const HostTensor x = example_input("v", DType::F32, {5, 3});
  expect_calls_as_evaluated(kSomeRows, {{x, ints({}, {2})}, {x, ints({}, {5})}, {x, ints({}, {3})}});
}

TEST(LateSizes, ANumberOutsideOfItsRangeIsRefusedAndTheProgramGoesOn) {
  const CompiledModel model = compiled(kSomeRows);
  Executable executable = model.load(1);
  const HostTensor x = example_input("v", DType::F32, {5, 3});
  for (int64_t wrong : {int64_t{1}, int64_t{6}, int64_t{-1}, INT64_MAX}) {
    const Error error = error_of_call(executable, {x, ints({}, {wrong})});
    EXPECT_EQ(error.kind(), ErrorKind::InvalidInput);
    EXPECT_EQ(error.message(), fmt::format("u0 = {} is outside of [2, 5], which the program relies on", wrong));
  }
  EXPECT_EQ(executable.run(std::vector<HostTensor>{x, ints({}, {4})})[0].sizes(), (std::vector<int64_t>{4, 3}));
}

// Positions whose sign is known in a call alone.
TEST(LateSizes, NegativePositionsCountFromTheEnd) {
  const CompiledModel model = compiled(R"(
sym u0 in [-6, 6] from data
sym u1 in [0, 5] from data
sym u2 in [0, 5] from data
graph(x: f32[5], n: i64[]) {
  k: i64[] = aten::item(n)
  sym u0 = k
  last: f32[u1] = aten::slice.Tensor(x, 0, u0)
  first: f32[u2] = aten::slice.Tensor(x, 0, 0, u0)
  empty: f32[5] = aten::fill.Scalar(x, 0)
  cleared: f32[5] = aten::slice_scatter(empty, last, 0, u0)
  return last, first, cleared
})");
  Executable executable = model.load(1);
  const HostTensor x = floats({5}, {1, 2, 3, 4, 5});
  using Values = std::vector<double>;
  const auto expect = [&](int64_t n, const Values& last, const Values& first, const Values& cleared) {
    const std::vector<HostTensor> results = executable.run(std::vector<HostTensor>{x, ints({}, {n})});
    EXPECT_EQ(results[0].to_doubles(), last) << n;
    EXPECT_EQ(results[1].to_doubles(), first) << n;
    EXPECT_EQ(results[2].to_doubles(), cleared) << n;
  };
  expect(2, {3, 4, 5}, {1, 2}, {0, 0, 3, 4, 5});
  expect(-2, {4, 5}, {1, 2, 3}, {0, 0, 0, 4, 5});
  expect(0, {1, 2, 3, 4, 5}, {}, {1, 2, 3, 4, 5});
  expect(-6, {1, 2, 3, 4, 5}, {}, {1, 2, 3, 4, 5});
  expect(6, {}, {1, 2, 3, 4, 5}, {0, 0, 0, 0, 0});
}

TEST(LateSizes, ANegativeIndexCountsFromTheEnd) {
  const CompiledModel model = compiled(R"(
sym u0 in [-5, 4] from data
graph(x: f32[5], n: i64[]) {
  k: i64[] = aten::item(n)
  sym u0 = k
  y: f32[] = aten::select.int(x, 0, u0)
  z: f32[1] = aten::narrow(x, 0, u0, 1)
  return y, z
})");
  Executable executable = model.load(1);
  for (int64_t n : {4, 0, -1, -5}) {
    const std::vector<HostTensor> results = executable.run(std::vector<HostTensor>{floats({5}, {1, 2, 3, 4, 5}), ints({}, {n})});
    EXPECT_EQ(results[0].to_doubles(), std::vector<double>{n < 0 ? n + 6.0 : n + 1.0});
    EXPECT_EQ(results[1].to_doubles(), results[0].to_doubles());
  }
}

TEST(LateSizes, PositionsInABufferAreThoseThatTheCallBeforeLeft) {
  const CompiledModel model = compiled(R"(
sym u0 in [0, 6] from data
sym u1 in [0, 6] from data
buffer 0 "at": i64[1] = [1]
graph(x: f32[6]) {
  at: i64[1] = constant(0)
  a: f32[u0], b: f32[u1] = aten::tensor_split.tensor_indices_or_sections(x, at)
  t: i64[1] = aten::add_.Scalar(at, 2)
  return a, b
})");
  Executable executable = model.load(1);
  for (int64_t length : {1, 3, 5}) {
    const std::vector<HostTensor> results = executable.run(std::vector<HostTensor>{floats({6}, {1, 2, 3, 4, 5, 6})});
    EXPECT_EQ(results[0].sizes(), std::vector<int64_t>{length});
    EXPECT_EQ(results[1].sizes(), std::vector<int64_t>{6 - length});
  }
}

TEST(LateSizes, WhatAMaskSelectsIsAsLongAsItIs) {
  constexpr std::string_view kText = R"(
graph(x: f32[2, 9], v: i64[6]) {
  zero: bool[2, 9] = aten::gt.Scalar(x, 0)
  s: f32[2, 9] = aten::masked_fill.Scalar(x, zero, 7)
  n: i64[u0, 2] = aten::nonzero(x)
  u: i64[u1], inverse: i64[6], counts: i64[u1] = aten::_unique2(v, true, true, true)
  w: i64[u1] = aten::mul.Tensor(u, counts)
  t: i64[] = aten::sum(w)
  return s, n, u, inverse, counts, w, t
})";
  const std::string text = "sym u0 in [0, 18] from data\nsym u1 in [0, 6] from data\n" + std::string(kText);
  const HostTensor x = example_input("v", DType::F32, {2, 9});
  const HostTensor none = floats({2, 9}, std::vector<double>(18, 0.0));
  expect_calls_as_evaluated(
      text, {{x, ints({6}, {3, 1, 3, 3, 1, 9})}, {none, ints({6}, {5, 5, 5, 5, 5, 5})}, {x, ints({6}, {6, 5, 4, 3, 2, 1})}});
}

// As the exporter leaves it after torch._check(y.shape[0] == 3).
TEST(LateSizes, ANumberThatTheModelHasMadeOfASizeIsChecked) {
  for (const char* text :
       {"graph(x: f32[5]) {\n  y: i64[3, 1] = aten::nonzero(x)\n  return y\n}",
        "graph(x: f32[5]) {\n  m: bool[5] = aten::ne.Scalar(x, 0)\n  y: f32[3] = aten::index.Tensor(x, [m])\n  return y\n}",
        "graph(x: f32[5]) {\n  m: bool[5] = aten::ne.Scalar(x, 0)\n  y: f32[3] = aten::masked_select(x, m)\n"
        "  z: f32[3] = aten::mul.Scalar(y, 2)\n  return z\n}",
        "graph(x: f32[5]) {\n  i: i64[5] = aten::to.dtype(x, dtype.i64)\n"
        "  y: i64[3] = aten::repeat_interleave.Tensor(i)\n  return y\n}"}) {
    const CompiledModel model = compiled(text);
    Executable executable = model.load(1);
    const std::vector<HostTensor> three = {floats({5}, {1, 0, 1, 0, 1})};
    EXPECT_EQ(difference(executable.run(three)[0], evaluate(*model.program, three)[0], {}), std::nullopt) << text;
    for (const HostTensor& x : {floats({5}, {1, 1, 1, 0, 1}), floats({5}, {1, 0, 0, 0, 1})}) {
      const std::string report = error_of_call(executable, {x}).report();
      EXPECT_NE(report.find(", 3), which the program relies on"), std::string::npos) << text << "\n" << report;
    }
  }
}

// torch._check(k < m) of two numbers that are read.
TEST(LateSizes, WhatTheModelAssertsOfTwoNumbersIsChecked) {
  const CompiledModel model = compiled(R"(
sym u0 in [0, inf] from data
sym u1 in [1, inf] from data
graph(a: i64[], b: i64[]) {
  k: i64[] = aten::item(a)
  sym u0 = k
  m: i64[] = aten::item(b)
  sym u1 = m
  aten::_assert_scalar((u0 < u1), "k < m")
  r: i64[u0] = aten::arange(u0)
  y: i64[u0] = aten::add.Tensor(r, (u1))
  return y
})");
  Executable executable = model.load(1);
  EXPECT_EQ(executable.run(std::vector<HostTensor>{ints({}, {2}), ints({}, {5})})[0].to_ints(), (std::vector<int64_t>{5, 6}));
  const std::string report = error_of_call(executable, {ints({}, {6}), ints({}, {5})}).report();
  EXPECT_NE(report.find("u1 = 5 violate u0 < u1"), std::string::npos) << report;
}

TEST(LateSizes, AValueForEachSelectedElement) {
  constexpr std::string_view kText = R"(
sym u0 in [0, 6] from data
graph(x: f32[6], mask: bool[6], n: i64[]) {
  k: i64[] = aten::item(n)
  sym u0 = k
  v: f32[u0] = aten::arange(u0, dtype=dtype.f32)
  y: f32[6] = aten::index_put(x, [mask], v)
  return y
})";
  const HostTensor x = example_input("v", DType::F32, {6});
  const HostTensor mask = HostTensor::from_ints(DType::Bool, {6}, std::vector<int64_t>{0, 1, 1, 0, 0, 1});
  expect_calls_as_evaluated(kText, {{x, mask, ints({}, {3})}});
  const CompiledModel model = compiled(kText);
  Executable executable = model.load(1);
  EXPECT_EQ(error_of_call(executable, {x, mask, ints({}, {2})}).message(), "u0 is 2 by the inputs' shapes, but 3 was given");
}

TEST(ControlFlow, ABranchIsTakenByATensor) {
  constexpr std::string_view kText = R"(
sym s0 in [1, 64]
subgraph 0(x: f32[s0, 8], w: f32[8, 8]) {
  y: f32[s0, 8] = aten::mm(x, w)
  z: f32[s0, 8] = aten::relu(y)
  return z, x
}
subgraph 1(x: f32[s0, 8], w: f32[8, 8]) {
  z: f32[s0, 8] = aten::mul.Tensor(x, (s0))
  return z, z
}
graph(x: f32[s0, 8], w: f32[8, 8], p: bool[]) {
  a: f32[s0, 8], b: f32[s0, 8] = higher_order::cond(p, @0, @1, [x, w])
  c: f32[s0, 8] = aten::add.Tensor(a, b)
  return c
})";
  const HostTensor w = example_input("v", DType::F32, {8, 8});
  auto flag = [](int64_t v) { return HostTensor::from_ints(DType::Bool, {}, std::vector<int64_t>{v}); };
  expect_calls_as_evaluated(kText, {{example_input("v", DType::F32, {3, 8}), w, flag(1)},
                                    {example_input("v", DType::F32, {3, 8}), w, flag(0)},
                                    {example_input("v", DType::F32, {7, 8}), w, flag(1)}});
}

// Nothing says that s0 and s1 are equal, so each call is asked.
TEST(ControlFlow, ABranchGivesTheRecordedSizeOrTheCallIsRefused) {
  constexpr std::string_view kText = R"(
sym s0 in [1, 64]
sym s1 in [1, 64]
subgraph 0(x: f32[s0]) {
  z: f32[s0] = aten::relu(x)
  return z
}
graph(x: f32[s0], y: f32[s1], p: bool[]) {
  a: f32[s1] = higher_order::cond(p, @0, @0, [x])
  return a
})";
  const HostTensor flag = HostTensor::from_ints(DType::Bool, {}, std::vector<int64_t>{1});
  CompileSession session;
  Executable program = session.compile(parse_text(kText), {.optimization = 0}).load(1);
  const auto run = [&](int64_t s1) {
    return program.run(std::vector{example_input("v", DType::F32, {5}), example_input("v", DType::F32, {s1}), flag});
  };
  EXPECT_EQ(run(5)[0].sizes(), (std::vector<int64_t>{5}));
  try {
    run(9);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::InvalidInput);
    EXPECT_EQ(error.message().substr(0, 42), "the inputs' sizes violate Eq(s0, s1) (s0 =") << error.message();
  }
}

TEST(LateSizes, ASizeThatNothingGivesIsRefused) {
  try {
    generate_code(parse_text("sym s0 in [1, 64]\ngraph(x: f32[4]) {\n  y: f32[4] = aten::mul.Tensor(x, (s0))\n  return y\n}"));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "the size 's0' is neither one of an input nor computed by the program");
  }
}

TEST(ControlFlow, ABranchIsTakenByASize) {
  constexpr std::string_view kText = R"(
sym s0 in [1, 64]
subgraph 0(x: f32[s0]) {
  z: f32[s0] = aten::relu(x)
  return z
}
subgraph 1(x: f32[s0]) {
  return x
}
graph(x: f32[s0]) {
  a: f32[s0] = higher_order::cond((s0 < 5), @0, @1, [x])
  return a
})";
  expect_calls_as_evaluated(kText, {{example_input("v", DType::F32, {3})}, {example_input("v", DType::F32, {20})}});
}

TEST(ControlFlow, ALoopRunsUntilItsConditionFails) {
  constexpr std::string_view kText = R"(
subgraph 0(i: i64[], x: f32[4, 4], n: i64[], w: f32[4, 4]) {
  go: bool[] = aten::lt.Tensor(i, n)
  return go
}
subgraph 1(i: i64[], x: f32[4, 4], n: i64[], w: f32[4, 4]) {
  j: i64[] = aten::add.Scalar(i, 1)
  y: f32[4, 4] = aten::mm(x, w)
  z: f32[4, 4] = aten::tanh(y)
  return j, z
}
graph(x: f32[4, 4], w: f32[4, 4], n: i64[]) {
  i: i64[] = aten::zeros([], dtype=dtype.i64)
  j: i64[], y: f32[4, 4] = higher_order::while_loop(@0, @1, [i, x], [n, w])
  s: f32[4, 4] = aten::exp(y)
  return j, s
})";
  const HostTensor x = example_input("v", DType::F32, {4, 4});
  const HostTensor w = floats({4, 4}, {.1, .2, .3, .4, .5, .6, .7, .8, -.1, -.2, -.3, -.4, .5, -.6, .7, -.8});
  expect_calls_as_evaluated(kText, {{x, w, ints({}, {0})}, {x, w, ints({}, {1})}, {x, w, ints({}, {2})}, {x, w, ints({}, {5})}});
}

TEST(ControlFlow, AScanCarriesValuesAndStacksResults) {
  constexpr std::string_view kText = R"(
sym s0 in [0, 64]
subgraph 0(c: f32[3], x: f32[3], k: f32[]) {
  d: f32[3] = aten::add.Tensor(c, x)
  m: f32[3] = aten::mul.Tensor(d, k)
  t: f32[] = aten::sum(m)
  return d, m, t
}
graph(c: f32[3], x: f32[s0, 3], k: f32[]) {
  last: f32[3], all: f32[s0, 3], sums: f32[s0] = higher_order::scan(@0, [c], [x], [k])
  return last, all, sums
})";
  const HostTensor c = floats({3}, {1, 2, 3});
  std::vector<std::vector<HostTensor>> calls;
  for (int64_t n : {0, 1, 2, 5}) calls.push_back({c, example_input("v", DType::F32, {n, 3}), floats({}, {0.5})});
  expect_calls_as_evaluated(kText, calls);
}

TEST(ControlFlow, AMapAndAnAssociativeScanGoSliceBySlice) {
  constexpr std::string_view kText = R"(
subgraph 0(x: f32[3], y: f32[3]) {
  z: f32[3] = aten::softmax.int(x, 0)
  w: f32[3] = aten::add.Tensor(z, y)
  return w
}
subgraph 1(a: f32[3], b: f32[3]) {
  c: f32[3] = aten::maximum(a, b)
  return c
}
graph(x: f32[5, 3], y: f32[3]) {
  m: f32[5, 3] = higher_order::map_impl(@0, [x], [y])
  a: f32[5, 3] = higher_order::associative_scan(@1, [m], [])
  return m, a
})";
  expect_calls_as_evaluated(kText, {{example_input("v", DType::F32, {5, 3}), floats({3}, {1, 2, 3})}});
}

// The body of a loop defines its own size anew each time.
TEST(ControlFlow, ASizeInsideALoopDependsOnData) {
  constexpr std::string_view kText = R"(
sym u0 in [0, 9] from data
subgraph 0(i: i64[], t: f32[], x: f32[9]) {
  go: bool[] = aten::lt.Scalar(i, 9)
  return go
}
subgraph 1(i: i64[], t: f32[], x: f32[9]) {
  k: i64[] = aten::item(i)
  sym u0 = k
  y: f32[u0] = aten::slice.Tensor(x, 0, 0, u0)
  s: f32[] = aten::sum(y)
  r: f32[] = aten::add.Tensor(t, s)
  j: i64[] = aten::add.Scalar(i, 2)
  return j, r
}
graph(x: f32[9], t: f32[]) {
  i: i64[] = aten::ones([], dtype=dtype.i64)
  j: i64[], s: f32[] = higher_order::while_loop(@0, @1, [i, t], [x])
  return j, s
})";
  expect_calls_as_evaluated(kText, {{example_input("v", DType::F32, {9}), floats({}, {0})}});
}

// What a program asserts of values stops a call that violates it.
TEST(Assertions, OfValuesAreChecked) {
  const CompiledModel model = compiled(R"(
graph(a: f32[2, 2], b: i64[2]) {
  inverse: f32[2, 2], info: i32[] = aten::linalg_inv_ex(a)
  aten::_linalg_check_errors(info, "linalg.inv", is_matrix=true)
  aten::_assert_async.msg(b, "b must not be 0")
  return inverse
})");
  Executable executable = model.load(1);
  const HostTensor regular = floats({2, 2}, {2, 0, 0, 4}), singular = floats({2, 2}, {1, 1, 1, 1});
  const std::vector<HostTensor> fine = {regular, ints({2}, {1, -3})};
  EXPECT_EQ(executable.run(fine)[0].to_doubles(), (std::vector<double>{0.5, 0, 0, 0.25}));
  EXPECT_EQ(error_of_call(executable, {singular, ints({2}, {1, 1})}).message(),
            "the values failures_of_linalg_inv_0 = 1 violate Eq(failures_of_linalg_inv_0, 0), which the program relies on");
  EXPECT_EQ(error_of_call(executable, {regular, ints({2}, {0, 1})}).message(),
            "the values failed_assertions_0 = 1 violate Eq(failed_assertions_0, 0), which the program relies on");
}

TEST(ControlFlow, AnErrorInABranchNamesItsKernel) {
  const CompiledModel model = compiled(R"(
program "branches"
subgraph 0(x: f32[3], i: i64[2]) {
  y: f32[2] = aten::index_select(x, 0, i)
  return y
}
subgraph 1(x: f32[3], i: i64[2]) {
  y: f32[2] = aten::slice.Tensor(x, 0, 0, 2)
  return y
}
graph(x: f32[3], i: i64[2], p: bool[]) {
  y: f32[2] = higher_order::cond(p, @0, @1, [x, i])
  return y
})");
  Executable executable = model.load(1);
  const HostTensor x = floats({3}, {1, 2, 3});
  const HostTensor yes = HostTensor::from_ints(DType::Bool, {}, std::vector<int64_t>{1});
  const Error error = error_of_call(executable, {x, ints({2}, {0, 7}), yes});
  EXPECT_EQ(error.message(), "an index read from a tensor is out of bounds: 7, where 0 to 2 are allowed");
  EXPECT_EQ(executable.run(std::vector<HostTensor>{x, ints({2}, {2, 0}), yes})[0].to_doubles(), (std::vector<double>{3, 1}));
}

}  // namespace
}  // namespace toroid
