// The target plain C: what it computes, beside the evaluator.
#include <fmt/format.h>

#include "base/error_for_test.h"
#include "base/file/loaded_library.h"
#include "codegen/c/print_c.h"
#include "driver/end_to_end/compiled_for_test.h"
#include "driver/pipeline/pass_costs.h"
#include "frontend/pt2/import.h"
#include "passes/pipeline.h"
#include "schedule/planner.h"
#include "signature/symbol_values.h"
#include "support/process/subprocess.h"

namespace toroid {
namespace {

using PlainFunction = int32_t(const void* const* inputs, const void* const* constants, void* const* outputs, const int64_t* symbols);

struct PlainProgram {
  explicit PlainProgram(Program from) : program(std::move(from)) {
    run_passes(program, {.costs = pass_costs()});
    graphs = schedule::schedule_graphs(lower(program), true, nullptr, schedule::Forms::Estimated, schedule::plain_planner());
    module = program::make_module(graphs, program);
    text = codegen::print_c(module, graphs, program, "computed");
  }

  LoadedLibrary build() const {
    const TempFolder folder;
    const std::filesystem::path library = folder.path() / "plain.so";
    const ProcessResult result =
        run_process({.argv = {"gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-O1", "-ffp-contract=off", "-shared",
                              "-fPIC", "-x", "c", "-", "-o", library.string(), "-lm"},
                     .input = text,
                     .timeout = std::chrono::seconds(120)});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return LoadedLibrary(read_file(library), "plain");
  }

  Program program;
  std::vector<schedule::ScheduledGraph> graphs;
  program::Module module;
  std::string text;
};

// The result code of a call; its outputs are compared when there is an expectation.
int32_t run_plain(const PlainProgram& plain, const LoadedLibrary& library, const std::vector<HostTensor>& inputs,
                  const std::vector<HostTensor>& expected) {
  std::vector<InputShape> shapes;
  std::vector<const void*> in, constants;
  for (const HostTensor& each : inputs) {
    shapes.push_back({each.dtype(), each.sizes()});
    in.push_back(each.bytes().data());
  }
  const SymbolValues values = bind_symbols(plain.program, plan_bindings(plain.program), shapes);
  std::vector<int64_t> symbols(1);
  for (size_t i = 0; i < plain.module.symbols.size(); ++i) {
    symbols.resize(i + 1);
    symbols[i] = values.find(plain.module.symbols[i]).value_or(0);
  }
  for (ConstantId id : plain.module.constants) constants.push_back(plain.program.constants[static_cast<size_t>(id)].bytes.data());
  std::vector<HostTensor> outputs;
  std::vector<void*> out;
  for (const HostTensor& each : expected) outputs.emplace_back(each.dtype(), each.sizes());
  for (HostTensor& each : outputs) out.push_back(each.mutable_data<std::byte>());
  const int32_t result = library.function<PlainFunction>("computed")(in.data(), constants.data(), out.data(), symbols.data());
  if (result != 0) return result;
  const std::vector<bool> sums = made_of_sums_or_products(plain.program.graph);
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(difference(outputs[i], expected[i], {.sums_or_products = sums[i]}), std::nullopt) << "output " << i;
  }
  return 0;
}

const ProgramCase kPlainPrograms[] = {
    {"layer", R"(
graph(x: f32[8, 64], pw: f32[48, 64], b: f32[48]) {
  y: f32[8, 48] = aten::linear(x, pw, b)
  z: f32[8, 48] = aten::gelu(y)
  return z
})"},
    {"softmax_of_free_rows",
     R"(
sym s0 in [1, 64]
graph(a: f32[s0, 33]) {
  y: f32[s0, 33] = aten::softmax.int(a, 1)
  z: f32[s0, 33] = aten::cumsum(y, 1)
  return y, z
})",
     {{{"s0", 1}}, {{"s0", 7}}}},
    {"norm_and_statistics", R"(
graph(a: f32[6, 40], w: f32[40], b: f32[40]) {
  y: f32[6, 40] = aten::layer_norm(a, [40], w, b)
  v: f32[40] = aten::var.correction(a, [0], correction=1)
  m: f32[6], at: i64[6] = aten::max.dim(a, 1)
  k: i64[] = aten::argmin(a)
  return y, v, m, at, k
})"},
    {"edges_of_floats", R"(
graph(x: f32[40], d: f32[40]) {
  f: f32[40] = aten::floor_divide(x, d)
  r: f32[40] = aten::remainder.Tensor(x, d)
  m: f32[40] = aten::maximum(x, d)
  s: f32[40] = aten::sigmoid(x)
  i: i64[40] = aten::to.dtype(d, dtype.i64)
  h: f16[40] = aten::to.dtype(x, dtype.f16)
  t: bf16[40] = aten::to.dtype(x, dtype.bf16)
  e: f16[40] = aten::exp(h)
  c: i64[40], q: i64[40] = aten::cummax(i, 0)
  return f, r, m, s, i, h, t, e, c, q
})"},
    {"edges_of_integers", R"(
graph(x: i64[30], d: i64[30], y: u8[30], p: u8[30], z: i32[30]) {
  f: i64[30] = aten::floor_divide(x, d)
  r: i64[30] = aten::remainder.Tensor(x, d)
  a: u8[30] = aten::add.Tensor(y, p)
  l: u8[30] = aten::bitwise_left_shift.Tensor(y, p)
  m: i32[30] = aten::mul.Tensor(z, z)
  s: i64[] = aten::sum(z)
  b: bool[30] = aten::logical_not(x)
  n: bool[] = aten::any(b)
  return f, r, a, l, m, s, b, n
})"},
    {"indices_and_scatters", R"(
graph(a: f32[5, 7], i: i64[4], s: f32[4, 7]) {
  y: f32[4, 7] = aten::index_select(a, 0, i)
  z: f32[5, 7] = aten::index_add(a, 0, i, s)
  p: f32[9, 7] = aten::constant_pad_nd(a, [0, 0, 2, 2], 1.5)
  c: f32[14, 7] = aten::cat([p, a])
  return y, z, p, c
})"},
    {"convolutions", R"(
graph(a: f32[2, 4, 9, 8], w: f32[6, 2, 3, 3], b: f32[6], t: f32[4, 3, 2, 3], o: f64[1, 2, 11], v: f64[3, 2, 4]) {
  y: f32[2, 6, 5, 4] = aten::conv2d(a, w, b, [2, 2], [1, 1], [1, 1], 2)
  z: f32[2, 3, 16, 17] = aten::conv_transpose2d.input(a, t, none, [2, 2], [1, 0], [0, 0], 1, [1, 1])
  d: f64[1, 3, 5] = aten::conv1d(o, v, none, [1], [0], [2])
  return y, z, d
})"},
    {"products_of_other_types", R"(
graph(a: f64[3, 5, 4], b: f64[3, 4, 2], i: i64[4, 6], j: i64[6, 3], h: bf16[5, 8], k: bf16[8, 7]) {
  x: f64[3, 5, 2] = aten::bmm(a, b)
  y: i64[4, 3] = aten::mm(i, j)
  z: bf16[5, 7] = aten::mm(h, k)
  return x, y, z
})"},
    {"attention_of_shared_heads", R"(
graph(q: f32[2, 4, 5, 8], k: f32[2, 2, 6, 8], v: f32[2, 2, 6, 8], n: bool[5, 6]) {
  y: f32[2, 4, 5, 8] = aten::scaled_dot_product_attention(q, k, v, n, enable_gqa=true)
  z: f32[2, 4, 5, 8] = aten::scaled_dot_product_attention(q, k, v, is_causal=true, enable_gqa=true)
  return y, z
})"},
    {"branch", R"(
subgraph 0(v: f32[4]) {
  y: f32[4] = aten::sin(v)
  return y
}
subgraph 1(v: f32[4]) {
  y: f32[4] = aten::cos(v)
  return y
}
graph(p: bool[], v: f32[4]) {
  y: f32[4] = higher_order::cond(p, @0, @1, [v])
  return y
})"},
};

class PlainC : public testing::TestWithParam<ProgramCase> {};
TEST_P(PlainC, IsTheEvaluators) {
  const PlainProgram plain(parse_text(GetParam().text));
  const LoadedLibrary library = plain.build();
  for (const SymbolSizes& call : GetParam().calls) {
    const std::vector<HostTensor> inputs = example_inputs(plain.program, call);
    EXPECT_EQ(run_plain(plain, library, inputs, evaluate(plain.program, inputs)), 0);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, PlainC, testing::ValuesIn(kPlainPrograms), [](const auto& row) { return row.param.name; });

// Networks with their weights; the file is what a source package would hold.
TEST(PlainCModels, AreTheEvaluators) {
  for (const char* name : {"mlp", "convnet", "hf_bert"}) {
    const PlainProgram plain(import_pt2(std::filesystem::path(TOROID_CONFORMANCE_DIR) / "models" / fmt::format("{}.pt2", name), {}));
    SymbolSizes sizes;
    for (sym::Expr symbol : plain.module.symbols) sizes.emplace_back(symbol.node()->name, 3);
    std::vector<HostTensor> inputs;
    for (ValueId id : plain.program.graph.inputs) {
      const Value& input = plain.program.graph.value(id);
      const std::string_view kind = is_floating(input.type.dtype) ? "a" : "i";  // words of a small vocabulary
      inputs.push_back(example_input(kind, input.type.dtype, sizes_of(plain.program, input.type, sizes)));
    }
    EXPECT_EQ(run_plain(plain, plain.build(), inputs, evaluate(plain.program, inputs)), 0) << name;
  }
}

TEST(PlainCErrors, AreCodesThatNameTheStep) {
  const PlainProgram plain(parse_text(R"(
graph(a: f32[4], n: i64[3]) {
  e: f32[4] = aten::exp(a)
  y: f32[3] = aten::index_select(e, 0, n)
  return y
})"));
  const LoadedLibrary library = plain.build();
  const std::vector<HostTensor> inputs = {HostTensor::from_doubles(DType::F32, {4}, std::vector<double>{1, 2, 3, 4}),
                                          HostTensor::from_ints(DType::I64, {3}, std::vector<int64_t>{0, 9, 1})};
  EXPECT_EQ(run_plain(plain, library, inputs, {HostTensor(DType::F32, {3})}), 2 | 1 << 28) << "the second step, an index out of bounds";
}

TEST(PlainCErrors, NameWhatIsNotComputed) {
  const auto message = [](std::string_view text) { return error_of([&] { PlainProgram{parse_text(text)}; }).message(); };
  EXPECT_EQ(message("graph(a: f32[4, 4]) { y: f32[4, 4] = aten::linalg_cholesky(a) return y }"),
            "plain C has no kernel for library.linalg.cholesky(attributes=[0])");
  EXPECT_EQ(message("graph(a: f32[4]) { y: f32[4] = aten::lgamma(a) return y }"), "plain C does not compute lgamma of f32");
  EXPECT_EQ(message("graph(a: f32[4]) { y: f32[4] = aten::rand_like(a) return y }"), "plain C draws no random numbers");
}

}  // namespace
}  // namespace toroid
