#include "graph/builder.h"

#include "graph/number.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/error_for_test.h"
#include "graph/text/text.h"
#include "graph/verify.h"

namespace toroid {
namespace {

class BuilderTest : public testing::Test {
 protected:
  Tensor input(DType dtype, Sizes sizes) {
    const Tensor tensor =
        b.emit(Input{static_cast<uint32_t>(program.graph.inputs.size())}, {}, {{.dtype = dtype, .sizes = std::move(sizes)}})[0];
    program.graph.inputs.push_back(tensor.id());
    program.graph.rename(tensor.id(), "x");
    program.inputs.push_back({"x"});
    return tensor;
  }
  Tensor f32(Sizes sizes) { return input(DType::F32, std::move(sizes)); }
  sym::Expr size(std::string_view name) { return program.symbols->symbol(name, sym::SymbolKind::Size, {1, 1024}); }
  size_t nodes() const { return program.graph.num_nodes(); }

  template <class F>
  std::string error_of(F f) {
    return toroid::error_of(f).message();
  }

  void TearDown() override {
    program.outputs.clear();
    verify(program, Level::Core);
  }

  Program program;
  Builder b{program.graph, *program.symbols, &program.guards};
};

// ---- promotion -----------------------------------------------------------------------------------------------------------

constexpr DType kDtypes[] = {DType::Bool, DType::U8,  DType::I8,   DType::I16, DType::I32,
                             DType::I64,  DType::F16, DType::BF16, DType::F32, DType::F64};

// A line of results, one for each of kDtypes.
std::vector<std::string> words(const char* line) {
  std::istringstream stream(line);
  std::vector<std::string> list;
  for (std::string word; stream >> word;) list.push_back(word);
  return list;
}

// As torch.result_type says in PyTorch 2.11: row and column are bool, u8, i8, i16, i32, i64, f16, bf16, f32, f64.
TEST_F(BuilderTest, PromotesTensorsWithDimsAsPyTorchDoes) {
  const char* const kTable[] = {
      "bool  u8    i8    i16   i32   i64   f16   bf16  f32   f64", "u8    u8    i16   i16   i32   i64   f16   bf16  f32   f64",
      "i8    i16   i8    i16   i32   i64   f16   bf16  f32   f64", "i16   i16   i16   i16   i32   i64   f16   bf16  f32   f64",
      "i32   i32   i32   i32   i32   i64   f16   bf16  f32   f64", "i64   i64   i64   i64   i64   i64   f16   bf16  f32   f64",
      "f16   f16   f16   f16   f16   f16   f16   f32   f32   f64", "bf16  bf16  bf16  bf16  bf16  bf16  f32   bf16  f32   f64",
      "f32   f32   f32   f32   f32   f32   f32   f32   f32   f64", "f64   f64   f64   f64   f64   f64   f64   f64   f64   f64",
  };
  for (size_t row = 0; row < std::size(kDtypes); ++row) {
    for (size_t column = 0; column < std::size(kDtypes); ++column) {
      const std::vector<Tensor> pair = {input(kDtypes[row], {2}), input(kDtypes[column], {2})};
      EXPECT_EQ(to_string(result_dtype(pair)), words(kTable[row])[column]);
      EXPECT_EQ(to_string(promote(kDtypes[row], kDtypes[column])), words(kTable[row])[column]);
    }
  }
}

// Rows have dims, columns are of rank 0.
TEST_F(BuilderTest, TensorsOfRankZeroYieldWithinTheirCategory) {
  const char* const kTable[] = {
      "bool  u8    i8    i16   i32   i64   f16   bf16  f32   f64", "u8    u8    u8    u8    u8    u8    f16   bf16  f32   f64",
      "i8    i8    i8    i8    i8    i8    f16   bf16  f32   f64", "i16   i16   i16   i16   i16   i16   f16   bf16  f32   f64",
      "i32   i32   i32   i32   i32   i32   f16   bf16  f32   f64", "i64   i64   i64   i64   i64   i64   f16   bf16  f32   f64",
      "f16   f16   f16   f16   f16   f16   f16   f16   f16   f16", "bf16  bf16  bf16  bf16  bf16  bf16  bf16  bf16  bf16  bf16",
      "f32   f32   f32   f32   f32   f32   f32   f32   f32   f32", "f64   f64   f64   f64   f64   f64   f64   f64   f64   f64",
  };
  for (size_t row = 0; row < std::size(kDtypes); ++row) {
    for (size_t column = 0; column < std::size(kDtypes); ++column) {
      const std::vector<Tensor> pair = {input(kDtypes[row], {2}), input(kDtypes[column], {})};
      EXPECT_EQ(to_string(result_dtype(pair)), words(kTable[row])[column]);
      const std::vector<Tensor> other_way = {pair[1], pair[0]};
      EXPECT_EQ(result_dtype(other_way), result_dtype(pair));
    }
  }
}

TEST_F(BuilderTest, NumbersYieldToAnyTensorOfTheirCategory) {
  for (Sizes sizes : {Sizes{}, Sizes{2}}) {
    for (DType dtype : kDtypes) {
      const Tensor x = input(dtype, sizes);
      EXPECT_EQ(result_dtype(x, Scalar(true)), dtype);
      EXPECT_EQ(result_dtype(x, Scalar(sym::Expr(1))), dtype == DType::Bool ? DType::I64 : dtype);
      EXPECT_EQ(result_dtype(x, Scalar(1.5)), is_floating(dtype) ? dtype : DType::F32);
    }
  }
}

TEST_F(BuilderTest, TrueDivisionOfIntegersGivesF32) {
  const Tensor i = input(DType::I64, {2});
  EXPECT_EQ((i / i).dtype(), DType::F32);
  EXPECT_EQ((i / 2.0).dtype(), DType::F32);
  EXPECT_EQ((1.0 / input(DType::BF16, {2})).dtype(), DType::BF16);
}

// ---- shapes --------------------------------------------------------------------------------------------------------------

TEST_F(BuilderTest, BroadcastsFromTheRight) {
  EXPECT_EQ((f32({4, 1, 3}) + f32({5, 3})).sizes(), (Sizes{4, 5, 3}));
  EXPECT_EQ((f32({}) + f32({2, 2})).sizes(), (Sizes{2, 2}));
  EXPECT_EQ((f32({0}) + f32({1})).sizes(), (Sizes{0}));
  EXPECT_EQ(error_of([&] { f32({2, 3}) + f32({2, 4}); }), "shapes [2, 3] and [2, 4] do not broadcast");
  EXPECT_TRUE(program.guards.empty());
}

TEST_F(BuilderTest, UnprovenSizesBecomeGuards) {
  const Tensor sum = f32({size("s0"), 4}) + f32({size("s1"), 4});
  EXPECT_TRUE(sum.size(0) == size("s0") || sum.size(0) == size("s1"));
  ASSERT_EQ(program.guards.size(), 1u);
  EXPECT_EQ(program.guards[0], sym::eq(size("s0"), size("s1")));
}

TEST_F(BuilderTest, AGuardIsRecordedOnce) {
  const Tensor x = f32({size("s0")});
  const Tensor y = f32({size("s1")});
  EXPECT_EQ((x + y).id(), (x + y).id());
  x* y;
  EXPECT_EQ(program.guards.size(), 1u);
}

TEST_F(BuilderTest, WithoutGuardsUnprovenSizesAreAnError) {
  Builder strict(program.graph, *program.symbols);
  const Tensor x = strict.wrap(f32({size("s0")}).id());
  EXPECT_EQ(error_of([&] { strict.require_equal(x.size(0), 4, "matmul"); }), "matmul: sizes s0 and 4 do not agree");
}

TEST_F(BuilderTest, NothingIsSmallerThanEmpty) {
  EXPECT_EQ(error_of([&] { b.pad(f32({4}), {0}, {-5}, 0.0); }), "padding makes a size of -1 out of [4]");
  EXPECT_EQ(error_of([&] { b.slice(f32({4, 3}), 1, 0, -2); }), "a slice of [4, 3] has a size of -2");
  EXPECT_EQ(error_of([&] {
              b.convolution(f32({1, 2, 3}), f32({4, 2, 5}), {}, {1}, {0}, {1}, false, {0}, 1);
            }),
            "convolution of [1, 2, 3] with weight [4, 2, 5] has a size of -1");
}

TEST_F(BuilderTest, NumbersAreConvertedToTheTensorsDtype) {
  auto text = [](DType dtype, const Scalar& value) { return to_string(element_of(dtype, value)); };
  EXPECT_EQ(text(DType::Bool, sym::Expr(-1)), "true");
  EXPECT_EQ(text(DType::Bool, 0.5), "true");
  EXPECT_EQ(text(DType::I64, 1.5), "1");
  EXPECT_EQ(text(DType::I64, -1.5), "-1");
  EXPECT_EQ(text(DType::U8, sym::Expr(300)), "44");
  EXPECT_EQ(text(DType::U8, sym::Expr(-1)), "255");
  EXPECT_EQ(text(DType::I8, true), "1");
  EXPECT_EQ(text(DType::F16, 0.1), "0.0999755859375");
  EXPECT_EQ(text(DType::F32, 0.1), "0.1");
  EXPECT_EQ(to_string(b.graph().producer(b.pad(f32({4}), {1}, {0}, true).id()).op), "pad(low=[1], value=1.0)");
  // A size is an integer until it is used.
  const Tensor flags = b.full({2}, DType::Bool, size("s0"));
  EXPECT_EQ(to_string(b.graph().producer(flags.id()).op), "cast");
}

TEST_F(BuilderTest, ReshapeInfersOneSize) {
  const Tensor x = f32({2, 3, 4});
  EXPECT_EQ(b.reshape(x, {-1}).sizes(), (Sizes{24}));
  EXPECT_EQ(b.reshape(x, {6, -1}).sizes(), (Sizes{6, 4}));
  EXPECT_EQ(b.reshape(f32({size("s0"), 6}), {size("s0"), -1, 2}).sizes(), (Sizes{size("s0"), 3, 2}));
  EXPECT_EQ(error_of([&] { b.reshape(x, {5, -1}); }), "cannot reshape 24 elements to [5, -1]");
  EXPECT_EQ(error_of([&] { b.reshape(x, {-1, -1}); }), "only one size of a reshape may be -1");
  EXPECT_EQ(error_of([&] { b.reshape(x, {5, 5}); }), "reshape: sizes 25 and 24 do not agree");
  EXPECT_EQ(error_of([&] { b.reshape(f32({0}), {0, -1}); }), "cannot infer a size of -1 beside a size of 0");
}

TEST_F(BuilderTest, ViewsThatChangeNothingAreNoNodes) {
  const Tensor x = f32({2, 3});
  const size_t before = nodes();
  EXPECT_EQ(b.reshape(x, {2, -1}).id(), x.id());
  EXPECT_EQ(b.permute(x, {0, 1}).id(), x.id());
  EXPECT_EQ(b.expand(x, {2, 3}).id(), x.id());
  EXPECT_EQ(b.slice(x, 1, 0, 3).id(), x.id());
  EXPECT_EQ(b.cast(x, DType::F32).id(), x.id());
  EXPECT_EQ(b.pad(x, {0, 0}, {0, 0}, 0.0).id(), x.id());
  EXPECT_EQ(b.cat({x}, 0).id(), x.id());
  EXPECT_EQ(nodes(), before);
  const Tensor flat = b.reshape(x, {6});
  EXPECT_EQ(b.reshape(flat, {2, 3}).id(), x.id()) << "a reshape back is the tensor itself";
}

TEST_F(BuilderTest, DimsMayBeNegative) {
  const Tensor x = f32({2, 3, 4});
  EXPECT_EQ(b.sum(x, {-1}).sizes(), (Sizes{2, 3}));
  EXPECT_EQ(b.sum(x, {}).sizes(), Sizes{});
  EXPECT_EQ(b.transpose(x, -1, 0).sizes(), (Sizes{4, 3, 2}));
  EXPECT_EQ(b.unsqueeze(x, -1).sizes(), (Sizes{2, 3, 4, 1}));
  EXPECT_EQ(b.keep(b.sum(x, {0, -1}), {0, -1}).sizes(), (Sizes{1, 3, 1}));
  EXPECT_EQ(b.select(x, -2, 1).sizes(), (Sizes{2, 4}));
  EXPECT_EQ(b.stack({x, x}, -1).sizes(), (Sizes{2, 3, 4, 2}));
  EXPECT_EQ(error_of([&] { b.sum(x, {3}); }), "dimension 3 is out of range for a tensor of rank 3");
  EXPECT_EQ(error_of([&] { b.sum(x, {0, -3}); }), "a dimension appears twice in a list of dims");
  EXPECT_EQ(error_of([&] { b.permute(x, {0, 1, 1}); }), "a dimension appears twice in permute");
}

TEST_F(BuilderTest, ScalarsHaveOneDim) {
  const Tensor x = f32({});
  EXPECT_EQ(b.sum(x, {-1}).sizes(), Sizes{});
  EXPECT_EQ(b.transpose(x, 0, -1).id(), x.id());
}

// ---- sharing -------------------------------------------------------------------------------------------------------------

TEST_F(BuilderTest, EqualNodesAreMadeOnce) {
  const Tensor x = f32({2, 3});
  const Tensor y = b.unary(ScalarOp::Exp, x * 2.0);
  const size_t before = nodes();
  EXPECT_EQ(b.unary(ScalarOp::Exp, x * 2.0).id(), y.id());
  EXPECT_EQ(nodes(), before);
  EXPECT_NE(b.unary(ScalarOp::Exp, x * 3.0).id(), y.id());
  EXPECT_NE(b.cast(x, DType::F64).id(), b.cast(x, DType::F16).id());
}

TEST_F(BuilderTest, ConstantsHaveOneSpelling) {
  EXPECT_EQ(b.full({2}, DType::F32, sym::Expr(1)).id(), b.full({2}, DType::F32, 1.0).id());
  EXPECT_EQ(b.full({2}, DType::F32, true).id(), b.full({2}, DType::F32, 1.0).id());
  EXPECT_EQ(b.full({2}, DType::I64, 3.0).id(), b.full({2}, DType::I64, sym::Expr(3)).id());
  EXPECT_EQ(b.full({2}, DType::Bool, 0.0).id(), b.full({2}, DType::Bool, false).id());
  EXPECT_NE(b.full({2}, DType::F32, 0.0).id(), b.full({2}, DType::F32, -0.0).id()) << "zero has a sign";
  EXPECT_EQ(b.expand(b.scalar(DType::F32, 2.0), {3, 3}).id(), b.full({3, 3}, DType::F32, 2.0).id());
}

TEST_F(BuilderTest, NamesComeFromTheHint) {
  const Tensor x = f32({2});
  b.set_provenance({}, "gelu");
  const Tensor first = x * x;
  const Tensor second = first + x;
  EXPECT_EQ(program.graph.value(first.id()).name, "gelu");
  EXPECT_EQ(program.graph.value(second.id()).name, "gelu_1");
}

// ---- kept whole ----------------------------------------------------------------------------------------------------------

TEST_F(BuilderTest, MatmulBroadcastsBatches) {
  EXPECT_EQ(b.matmul(f32({5, 1, 2, 3}), f32({4, 3, 6})).sizes(), (Sizes{5, 4, 2, 6}));
  EXPECT_EQ(error_of([&] { b.matmul(f32({2, 3}), f32({4, 5})); }), "matmul of [2, 3] and [4, 5]: sizes 3 and 4 do not agree");
  EXPECT_EQ(error_of([&] { b.matmul(f32({3}), f32({3, 5})); }), "matmul needs tensors of rank 2 or more");
}

TEST_F(BuilderTest, ConvolutionKnowsItsOutputSize) {
  auto conv = [&](bool transposed, sym::Expr height) {
    return b.convolution(f32({2, 4, height, 9}), f32({4, transposed ? 3 : 2, 3, 3}), {}, {2, 1}, {1, 0}, {1, 2}, transposed,
                         {transposed ? 1 : 0, 0}, 2);
  };
  EXPECT_EQ(conv(false, 8).sizes(), (Sizes{2, 4, 4, 5}));
  EXPECT_EQ(conv(true, 8).sizes(), (Sizes{2, 6, 16, 13}));
  EXPECT_EQ(sym::to_string(conv(false, size("s0")).size(2)), "(s0 + 1)//2");
  EXPECT_EQ(error_of([&] {
              b.convolution(f32({1, 3, 8, 8}), f32({4, 2, 3, 3}), {}, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1);
            }),
            "convolution channels: sizes 2 and 3 do not agree");
}

TEST_F(BuilderTest, ASizeThatACallCouldMakeNegativeBecomesAGuard) {
  b.convolution(f32({1, 1, size("s0")}), f32({1, 1, 4}), {}, {1}, {0}, {1}, false, {0}, 1);
  ASSERT_EQ(program.guards.size(), 1u);
  EXPECT_EQ(sym::to_string(program.guards[0]), "3 <= s0");
  b.convolution(f32({1, 1, size("s0")}), f32({1, 1, 2}), {}, {1}, {0}, {1}, false, {0}, 1);  // 0 elements at least
  EXPECT_EQ(program.guards.size(), 1u);
}

// Whatever an operation's rule needs and sizes decide, whoever makes the operation.
TEST_F(BuilderTest, WhatARuleNeedsBecomesAGuard) {
  const auto guards_of = [this](const auto& make) {
    program.guards.clear();
    make();
    std::string text;
    for (sym::Expr guard : program.guards) text += sym::to_string(guard) + "; ";
    return text;
  };
  const sym::Expr m = size("m"), n = size("n"), k = size("k");
  const Tensor rows = f32({m, 4});
  EXPECT_EQ(guards_of([&] { b.slice(rows, 0, n, 2); }), "n + 1 < m; ");
  EXPECT_EQ(guards_of([&] { b.slice(rows, 0, n, k - 1, -1); }), "(k <= 1) | ((n < m) & (n + 2 < m + k) & (k <= n + 2)); ");
  EXPECT_EQ(guards_of([&] { b.pad(rows, {n - 5, 0}, {0, 0}, 0.0); }), "5 <= m + n; 5 <= n; ");
  const sym::Expr i = b.axis(n), j = b.axis(k - 1);
  EXPECT_EQ(guards_of([&] { b.remap(rows, {i}, {i, 0}); }), "n <= m; ");
  EXPECT_EQ(guards_of([&] {
              b.remap(rows, {i, j}, {i + j, 3});
            }),
            "(n <= m) | (k <= 1); (k <= 1) | ((2 <= k) & (k <= m + 1)); (k <= 1) | ((3 <= n + k) & (n + k <= m + 2)); ");
  EXPECT_EQ(guards_of([&] { b.attention(f32({6, m, 8}), f32({2, n, 8}), f32({2, k, 8}), {}, false, 1); }), "Eq(n, k); ");
  EXPECT_EQ(guards_of([&] { b.attention(f32({m, 3, 8}), f32({n, 3, 8}), f32({n, 3, 8}), {}, false, 1); }), "Eq(Mod(m, n), 0); ");
  EXPECT_EQ(guards_of([&] { b.library("linalg.inv", {f32({m, n})}, {{.dtype = DType::F32, .sizes = {m, n}}}); }), "Eq(m, n); ");
  EXPECT_EQ(guards_of([&] { b.convolution(f32({1, 2, 9}), f32({4, 2, 3}), f32({n}), {1}, {0}, {1}, false, {0}, 1); }), "Eq(n, 4); ");
}

TEST_F(BuilderTest, ComplexNumbersAreRefusedByName) {
  EXPECT_EQ(error_of([&] { b.cast(f32({2}), DType::C64); }), "cannot convert f32 to c64: complex tensors are not supported");
}

}  // namespace
}  // namespace toroid
