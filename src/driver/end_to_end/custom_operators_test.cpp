// Operators of a user's own, from their files to results.
#include "graph/custom/custom_operators.h"
#include "base/error_for_test.h"
#include "driver/end_to_end/compiled_for_test.h"
#include "passes/decompose/engine/decompose.h"
#include "toolchain/toolchain.h"

namespace toroid {
namespace {

// Files of operators, and what programs that use them compute.
class CustomOperatorPrograms : public testing::Test {
 protected:
  void add(const std::string& name, std::string_view text) { write_file_atomically(folder_.path() / (name + ".op"), text); }

  Program program(std::string_view text, codegen::Target target = codegen::Target::Cpu) const {
    return parse_text(text, {},
                      std::make_shared<CustomOperators>(OperatorFolders{
                          .trusted = {folder_.path()}, .for_gpu = target != codegen::Target::Cpu, .for_amd = is_amd(target)}));
  }
  CompiledModel compiled(std::string_view text, codegen::Target target = codegen::Target::Cpu) const {
    return TestSession::get().compile(program(text, target), {.target = target});
  }
  std::vector<HostTensor> run(std::string_view text, const std::vector<HostTensor>& inputs, int threads = 2,
                              codegen::Target target = codegen::Target::Cpu) const {
    return compiled(text, target).load(threads).run(inputs);
  }
  // The outputs as doubles, one after the other; or what went wrong.
  std::vector<double> results(std::string_view text, const std::vector<HostTensor>& inputs,
                              codegen::Target target = codegen::Target::Cpu) const {
    try {
      std::vector<double> all;
      for (const HostTensor& output : run(text, inputs, 2, target)) {
        if (is_floating(output.dtype())) {
          const std::vector<double> values = output.to_doubles();
          all.insert(all.end(), values.begin(), values.end());
        } else {
          for (const int64_t value : output.to_ints()) all.push_back(static_cast<double>(value));
        }
      }
      return all;
    } catch (const Error& error) {
      ADD_FAILURE() << error.report();
      return {};
    }
  }

  TempFolder folder_;
};

HostTensor float_tensor(std::vector<int64_t> sizes, const std::vector<double>& values, DType dtype = DType::F32) {
  return HostTensor::from_doubles(dtype, std::move(sizes), values);
}

constexpr std::string_view kDoubleRelu = R"(
operator mylib::scaled_relu(Tensor x, float scale=2.0) -> Tensor
formula {
  positive = aten::relu(x)
  y = aten::mul.Scalar(positive, scale)
  return y
}
)";

TEST_F(CustomOperatorPrograms, FormulasAreFusedWithTheirNeighbours) {
  add("mylib.scaled_relu", kDoubleRelu);
  constexpr std::string_view kText = R"(
sym n in [1, 100]
graph(x: f32[n]) {
  a: f32[n] = aten::add.Scalar(x, 1)
  b: f32[n] = mylib::scaled_relu(a, 3.0)
  c: f32[n] = aten::neg(b)
  return c
})";
  EXPECT_EQ(results(kText, {float_tensor({3}, {1, -4, 0.5})}), (std::vector<double>{-6, 0, -4.5}));
  EXPECT_EQ(compiled(kText).kernels, 1);
}

TEST_F(CustomOperatorPrograms, FormulasTakeTheDtypeAndRankThatComes) {
  add("mylib.scaled_relu", kDoubleRelu);
  EXPECT_EQ(results("graph(x: f64[2, 1]) { y: f64[2, 1] = mylib::scaled_relu(x) return y }", {float_tensor({2, 1}, {1, -1}, DType::F64)}),
            (std::vector<double>{2, 0}));
}

TEST_F(CustomOperatorPrograms, FormulasTakeListsOptionalTensorsAndSizes) {
  add("mylib.joined", R"(
operator mylib::joined(Tensor[] xs, Tensor? bias, int[] dims, int dim=0) -> (Tensor, Tensor)
dtype T in f32, f64
argument xs: T[_, d]
argument bias: T[d]
formula {
  all = aten::cat(xs, dim)
  whole = aten::layer_norm(all, [d], none, bias)
  sums = aten::sum.dim_IntList(all, dims)
  return whole, sums
}
)");
  const std::vector<HostTensor> inputs = {float_tensor({1, 2}, {1, 3}), float_tensor({2, 2}, {1, 3, 1, 3})};
  EXPECT_EQ(results("graph(x: f32[1, 2], y: f32[2, 2]) { a: f32[3, 2], s: f32[2] = mylib::joined([x, y], none, [0]) return s }", inputs),
            (std::vector<double>{3, 9}));
}

constexpr std::string_view kAffine = R"(
operator mylib::affine(Tensor x, Tensor? shift, float factor, int[] powers) -> (Tensor, Tensor)
dtype T in f32, f64, bf16
argument x: T[*n]
argument shift: T[n]
result: T[*n]
result: i64[num_powers]
cpp {
  tasks n
  source """
#include <cmath>
template <class T>
void affine(const T* x, const T* shift, double factor, const int64_t* powers, int64_t num_powers, T* out, int64_t* counts, int64_t n,
            int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) out[i] = T(std::fabs(float(x[i])) * float(factor) + (shift ? float(shift[i]) : 0.0f));
  if (begin == 0) for (int64_t p = 0; p < num_powers; ++p) counts[p] = powers[p] * n;
}
"""
}
)";

TEST_F(CustomOperatorPrograms, KernelsTakeEachKindOfArgument) {
  add("mylib.affine", kAffine);
  constexpr std::string_view kTyped = R"(
graph(x: f32[2, 2], s: f32[4]) {
  y: f32[2, 2], c: i64[2] = mylib::affine(x, s, 2.0, [3, 5])
  z: f32[2, 2] = aten::neg(y)
  return z, c
})";
  EXPECT_EQ(results(kTyped, {float_tensor({2, 2}, {1, -2, 3, -4}), float_tensor({4}, {10, 20, 30, 40})}),
            (std::vector<double>{-12, -24, -36, -48, 12, 20}));
  constexpr std::string_view kAbsent = R"(
graph(x: bf16[3]) {
  y: bf16[3], c: i64[0] = mylib::affine(x, none, 0.5, [])
  return y
})";
  EXPECT_EQ(results(kAbsent, {float_tensor({3}, {1, -2, 300}, DType::BF16)}), (std::vector<double>{0.5, 1, 150}));
}

TEST_F(CustomOperatorPrograms, KernelsRunOnAllThreadsAndForFreeSizes) {
  add("mylib.affine", kAffine);
  constexpr std::string_view kText = R"(
sym n in [0, 100000]
graph(x: f32[n]) {
  a: f32[n] = aten::mul.Scalar(x, 2.0)
  y: f32[n], c: i64[1] = mylib::affine(a, none, 1.0, [1])
  z: f32[n] = aten::add.Scalar(y, 1)
  return z, c
})";
  const CompiledModel model = compiled(kText);
  Executable executable = model.load(2);
  for (const int64_t n : {0, 1, 7, 99999}) {
    std::vector<double> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(i % 100) - 50);
    const std::vector<HostTensor> outputs = executable.run(std::vector{float_tensor({n}, values)});
    const std::vector<double> z = outputs[0].to_doubles();
    ASSERT_EQ(z.size(), values.size());
    for (size_t i = 0; i < z.size(); ++i) ASSERT_EQ(z[i], std::fabs(values[i] * 2) + 1) << i << " of " << n;
  }
}

TEST_F(CustomOperatorPrograms, KernelsUpdateArgumentsInPlace) {
  add("mylib.push_", R"(
operator mylib::push_(Tensor(a!) state, Tensor x) -> Tensor
argument state: f32[n]
argument x: f32[n]
result: f32[1]
cpp {
  source """
void push_(float* state, const float* x, float* out, int64_t n, int64_t, int64_t) {
  out[0] = state[0];
  for (int64_t i = 0; i < n; ++i) state[i] += x[i];
}
"""
}
)");
  constexpr std::string_view kText = R"(
buffer 0 "state": f32[2] = [1.0, 2.0]
graph(x: f32[2], y: f32[3, 2]) {
  state: f32[2] = constant(0)
  first: f32[1] = mylib::push_(state, x)
  row: f32[2] = aten::select.int(y, 0, 1)
  second: f32[1] = mylib::push_(row, x)
  return first, second, y
})";
  const CompiledModel model = compiled(kText);
  Executable executable = model.load(2);
  const HostTensor x = float_tensor({2}, {10, 20}), y = float_tensor({3, 2}, {1, 2, 3, 4, 5, 6});
  std::vector<HostTensor> outputs = executable.run(std::vector{x, y});
  EXPECT_EQ(outputs[0].to_doubles(), (std::vector<double>{1}));
  EXPECT_EQ(outputs[1].to_doubles(), (std::vector<double>{3}));
  EXPECT_EQ(outputs[2].to_doubles(), (std::vector<double>{1, 2, 13, 24, 5, 6}));
  outputs = executable.run(std::vector{x, y});
  EXPECT_EQ(outputs[0].to_doubles(), (std::vector<double>{11}));
}

constexpr std::string_view kRowSums = R"(
operator mylib::row_sums(Tensor x) -> Tensor
argument x: f32[rows, columns] strided
result: f32[rows]
cpp {
  tasks rows
  work columns
  workspace 8*rows
  source """
void row_sums(const float* x, const int64_t* strides, float* out, void* workspace, int64_t rows, int64_t columns, int64_t begin, int64_t end) {
  double* sums = (double*)workspace;
  for (int64_t r = begin; r < end; ++r) {
    sums[r] = 0;
    for (int64_t c = 0; c < columns; ++c) sums[r] += x[r * strides[0] + c * strides[1]];
    out[r] = (float)sums[r];
  }
}
"""
}
)";

TEST_F(CustomOperatorPrograms, KernelsReadViewsWhereTheyAre) {
  add("mylib.row_sums", kRowSums);
  constexpr std::string_view kText = R"(
graph(x: f32[2, 3]) {
  t: f32[3, 2] = aten::t(x)
  s: f32[3] = mylib::row_sums(t)
  part: f32[2, 2] = aten::slice.Tensor(x, 1, 1, 3)
  r: f32[2] = mylib::row_sums(part)
  return s, r
})";
  EXPECT_EQ(results(kText, {float_tensor({2, 3}, {1, 2, 3, 4, 5, 6})}), (std::vector<double>{5, 7, 9, 5, 11}));
  EXPECT_EQ(compiled(kText).kernels, 0) << "nothing is copied";
}

TEST_F(CustomOperatorPrograms, KernelsOfConstantsAloneRunOnce) {
  add("mylib.row_sums", kRowSums);
  constexpr std::string_view kText = R"(
constant 0 "w": f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
graph(x: f32[2]) {
  w: f32[2, 2] = constant(0)
  s: f32[2] = mylib::row_sums(w)
  y: f32[2] = aten::add.Tensor(x, s)
  return y
})";
  Executable executable = compiled(kText).load(2);
  for (const double x : {1.0, 2.0}) {
    const std::vector<double> y = executable.run(std::vector{float_tensor({2}, {x, x})})[0].to_doubles();
    EXPECT_EQ(y, (std::vector<double>{x + 3, x + 7}));
  }
}

TEST_F(CustomOperatorPrograms, ArePartsOfVariantsAndOfAssertionBuilds) {
  add("mylib.row_sums", kRowSums);
  constexpr std::string_view kText = R"(
sym n in [1, 100]
graph(x: f32[n, 2]) {
  a: f32[n, 2] = aten::neg(x)
  s: f32[n] = mylib::row_sums(a)
  return s
})";
  CompileModelOptions with_variant, with_assertions;
  with_variant.variants = {{{"n", 2}}};
  with_assertions.assertions = true;
  for (const CompileModelOptions& options : {with_variant, with_assertions}) {
    Executable executable = TestSession::get().compile(program(kText), options).load(2);
    EXPECT_EQ(executable.run(std::vector{float_tensor({2, 2}, {1, 2, 3, 4})})[0].to_doubles(), (std::vector<double>{-3, -7}));
    EXPECT_EQ(executable.run(std::vector{float_tensor({1, 2}, {1, 2})})[0].to_doubles(), (std::vector<double>{-3}));
  }
}

TEST_F(CustomOperatorPrograms, AreComputedByTheEvaluatorWhereTheyAreFormulas) {
  add("mylib.scaled_relu", kDoubleRelu);
  add("mylib.row_sums", kRowSums);
  Program formula = program("graph(x: f32[2]) { y: f32[2] = mylib::scaled_relu(x) return y }");
  decompose(formula);
  EXPECT_EQ(evaluate(formula, std::vector{float_tensor({2}, {1, -2})})[0].to_doubles(), (std::vector<double>{2, 0}));
  Program kernel = program("graph(x: f32[2, 1]) { y: f32[2] = mylib::row_sums(x) return y }");
  decompose(kernel);
  const Error error = error_of([&] { evaluate(kernel, std::vector{float_tensor({2, 1}, {1, -2})}); });
  EXPECT_EQ(error.message(), "mylib::row_sums is computed by code of its own, which the evaluator does not run");
}

TEST_F(CustomOperatorPrograms, AreCalledInBodiesOfControlFlow) {
  add("mylib.row_sums", kRowSums);
  constexpr std::string_view kText = R"(
subgraph 0(x: f32[2, 2]) {
  s: f32[2] = mylib::row_sums(x)
  return s
}
subgraph 1(x: f32[2, 2]) {
  s: f32[2] = aten::select.int(x, 0, 0)
  return s
}
graph(p: bool[], x: f32[2, 2]) {
  y: f32[2] = higher_order::cond(p, @0, @1, [x])
  return y
})";
  const HostTensor x = float_tensor({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(results(kText, {HostTensor::from_ints(DType::Bool, {}, std::vector<int64_t>{1}), x}), (std::vector<double>{3, 7}));
  EXPECT_EQ(results(kText, {HostTensor::from_ints(DType::Bool, {}, std::vector<int64_t>{0}), x}), (std::vector<double>{1, 2}));
}

TEST_F(CustomOperatorPrograms, SayWhatDoesNotFitTheirRules) {
  add("mylib.row_sums", kRowSums);
  const auto error_with = [&](std::string_view text) { return error_of([&] { compiled(text); }); };
  Error error = error_with("graph(x: f32[3]) { s: f32[3] = mylib::row_sums(x) return s }");
  EXPECT_EQ(error.message(), "argument 'x' of mylib::row_sums is f32[3], and its rule says f32[rows, columns]");
  EXPECT_EQ(error.locations().front(), "by the rule at mylib.row_sums.op:3") << error.report();
  error = error_with("graph(x: f64[3, 1]) { s: f64[3] = mylib::row_sums(x) return s }");
  EXPECT_EQ(error.message(), "argument 'x' of mylib::row_sums is f64[3, 1], and its rule says f32[rows, columns]");
  error = error_with("graph(x: f32[3, 1]) { s: f32[4] = mylib::row_sums(x) return s }");
  EXPECT_EQ(error.message(), "mylib::row_sums gives f32[3] as result 0 by mylib.row_sums.op:4, but the model records f32[4]");
}

TEST_F(CustomOperatorPrograms, CompilersErrorsNameTheFileOfTheOperator) {
  add("mylib.row_sums", std::string(kRowSums).replace(kRowSums.find("sums[r] = 0;"), 12, "sums[r] = o;"));
  const Error error = error_of([&] { compiled("graph(x: f32[3, 1]) { s: f32[3] = mylib::row_sums(x) return s }"); });
  EXPECT_EQ(error.kind(), ErrorKind::ToolFailed);
  EXPECT_NE(error.report().find("mylib.row_sums.op:13:"), std::string::npos) << error.report();
}

TEST_F(CustomOperatorPrograms, CallFunctionsOfLibraries) {
  const std::string library = TestSession::get().toolchain().compile_shared(
      "extern \"C\" __attribute__((visibility(\"default\"))) void twice(const float* x, float* out, long n, long begin, long end) {\n"
      "  (void)n; for (long i = begin; i < end; ++i) out[i] = 2 * x[i]; }\n",
      {});
  write_file_atomically(folder_.path() / "libtwice.so", std::string_view(library));
  add("mylib.twice",
      "operator mylib::twice(Tensor x) -> Tensor\nargument x: f32[*n]\nresult: f32[*n]\nlibrary \"libtwice.so\" { tasks n }\n");
  constexpr std::string_view kText = "graph(x: f32[2]) { y: f32[2] = mylib::twice(x) return y }";
  EXPECT_EQ(results(kText, {float_tensor({2}, {1, 2})}), (std::vector<double>{2, 4}));
  const Error error = error_of([&] { TestSession::get().compile(program(kText), {.package = std::vector<Isa>()}); });
  EXPECT_NE(error.message().find("which a compiled file would not contain"), std::string::npos) << error.report();
}

TEST_F(CustomOperatorPrograms, AreCompiledAgainWhenTheirFilesChange) {
  add("mylib.scaled_relu", kDoubleRelu);
  constexpr std::string_view kText = "graph(x: f32[2]) { y: f32[2] = mylib::scaled_relu(x, 1.0) return y }";
  const CompiledModel first = compiled(kText);
  EXPECT_EQ(compiled(kText).cache_use, "hit: graph");
  add("mylib.scaled_relu", std::string(kDoubleRelu).replace(kDoubleRelu.find("aten::relu"), 10, "aten::neg"));
  const CompiledModel second = compiled(kText);
  EXPECT_NE(second.cache_use, "hit: graph");
  EXPECT_EQ(second.load(1).run(std::vector{float_tensor({2}, {1, -2})})[0].to_doubles(), (std::vector<double>{-1, 2}));
}

TEST_F(CustomOperatorPrograms, NeedABodyForTheDevice) {
  add("mylib.row_sums", kRowSums);
  const Error error =
      error_of([&] { compiled("graph(x: f32[3, 1]) { s: f32[3] = mylib::row_sums(x) return s }", codegen::Target::EmulatedCuda); });
  EXPECT_EQ(error.message(), "mylib.row_sums.op has no body for a GPU");
}

// A kernel in CUDA may know of NVIDIA's warps.
TEST_F(CustomOperatorPrograms, HaveNoKernelsForGpusOfAmd) {
  add("mylib.row_sums", kRowSums);
  const Error error =
      error_of([&] { compiled("graph(x: f32[3, 1]) { s: f32[3] = mylib::row_sums(x) return s }", codegen::Target::EmulatedRocm); });
  EXPECT_EQ(error.message(), "mylib.row_sums.op has no body for a GPU of AMD's");
}

TEST_F(CustomOperatorPrograms, CudaKernelsShareMemoryWithinABlock) {
  add("mylib.block_sums", R"(
operator mylib::block_sums(Tensor x, float scale) -> Tensor
dtype T in f32, f16
argument x: T[n]
result: T[(n + 63) // 64]
cuda {
  blocks (n + 63) // 64
  threads 64
  shared 64*4
  source """
template <class T>
__device__ void block_sums(const T* x, double scale, T* out, int64_t n) {
  float* sums = (float*)shared_memory();
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  sums[threadIdx.x] = i < n ? (float)x[i] : 0.0f;
  for (int half = 32; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = (T)(sums[0] * (float)scale);
}
"""
}
)");
  std::vector<double> values(100, 1.0);
  constexpr std::string_view kText = R"(
sym n in [1, 1000]
graph(x: f16[n]) {
  a: f16[n] = aten::add.Scalar(x, 1)
  s: f16[(n + 63) // 64] = mylib::block_sums(a, 0.5)
  return s
})";
  EXPECT_EQ(results(kText, {float_tensor({100}, values, DType::F16)}, codegen::Target::EmulatedCuda), (std::vector<double>{64, 36}));
}

// The example of a selection, in CUDA for a processor; on other devices it is its formula.
TEST_F(CustomOperatorPrograms, TheExampleInCudaSelectsWhatTopkDoes) {
  add("mylib.top_k", read_file(std::filesystem::path(TOROID_SOURCE_DIR) / "examples/custom_operators/mylib.top_k.op"));
  constexpr std::string_view kText = R"(graph(x: f32[2, 300]) {
  v: f32[2, 7], i: i64[2, 7] = mylib::top_k(x, 7)
  return v, i
})";
  std::vector<double> values;
  for (int i = 0; i < 600; ++i) values.push_back(i * 37 % 101);  // each number twice and more in a row
  const std::vector<HostTensor> inputs = {float_tensor({2, 300}, values)};
  const std::vector<double> selected = results(kText, inputs, codegen::Target::EmulatedCuda);
  ASSERT_EQ(selected.size(), 28u);
  EXPECT_EQ((std::vector<double>(selected.begin(), selected.begin() + 4)), (std::vector<double>{100, 100, 100, 99}));
  EXPECT_EQ(selected[14], 30);  // 30 * 37 % 101 is 100, the first of three
  const std::vector<double> by_formula = results(kText, inputs);
  EXPECT_TRUE(std::equal(selected.begin(), selected.begin() + 14, by_formula.begin()));
}

}  // namespace
}  // namespace toroid
