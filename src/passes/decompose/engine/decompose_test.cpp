#include "passes/decompose/engine/decompose.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "graph/text/text.h"
#include "graph/verify.h"

namespace toroid {
namespace {

std::string decomposed(std::string_view text) {
  Program program = parse_text(text);
  verify(program, Level::Import);
  decompose(program);
  verify(program, Level::Core);
  return to_text(program);
}

std::string error_in(std::string_view text) {
  try {
    decomposed(text);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Registry, EveryRowNamesAnOperator) {
  std::set<std::string_view> seen;
  for (std::span<const DecompositionRow> family : decomposition_families()) {
    for (const DecompositionRow& row : family) {
      EXPECT_TRUE(seen.insert(row.op).second) << row.op << " has two rows";
      if (row.op.ends_with(".*")) {
        const std::string base(row.op.substr(0, row.op.size() - 2));
        bool exists = find_schema(base) != nullptr;
        for (std::string_view name : schema_names()) exists = exists || name.starts_with(base + ".");
        EXPECT_TRUE(exists) << row.op;
      } else {
        EXPECT_NE(find_schema(row.op), nullptr) << row.op;
      }
    }
  }
}

TEST(Registry, OtherSpellingsAreServedByTheFunctionalOperator) {
  const Decomposition add = find_decomposition(*find_schema("aten::add.Tensor"));
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(find_decomposition(*find_schema("aten::add_.Tensor")), add);
  EXPECT_EQ(find_decomposition(*find_schema("aten::add.out")), add);
  EXPECT_EQ(find_decomposition(*find_schema("aten::view_copy")), find_decomposition(*find_schema("aten::view")));
  EXPECT_EQ(find_decomposition(*find_schema("aten::slice_copy.Tensor_out")), find_decomposition(*find_schema("aten::slice.Tensor")));
  EXPECT_EQ(find_decomposition(*find_schema("aten::__iand__.Tensor")), find_decomposition(*find_schema("aten::__and__.Tensor")));
  EXPECT_EQ(find_decomposition(*find_schema("aten::is_set_to")), nullptr);
}

TEST(Decompose, KeepsTheModelsNames) {
  EXPECT_EQ(decomposed(R"(graph(x: f32[2, 3], bias: f32[3]) {
    add: f32[2, 3] = aten::add.Tensor(x, bias)
    out: f32[2, 3] = aten::mul.Tensor(add, add)
    unused: f32[2, 3] = aten::mul.Tensor(out, x)
    return out
  })"),
            R"(graph(x: f32[2, 3], bias: f32[3]) {
  add_t: f32[1, 3] = reshape(bias)
  add_t_1: f32[2, 3] = expand(add_t)
  add: f32[2, 3] = add(x, add_t_1)
  out: f32[2, 3] = mul(add, add)
  return out
}
)");
}

TEST(Decompose, WritingAnInputMakesItAnOutput) {
  EXPECT_EQ(decomposed(R"(graph(x: f32[2]) {
    mul_: f32[2] = aten::mul_.Tensor(x, x)
    out: f32[2] = aten::add.Tensor(x, x)
    return out
  })"),
            R"(graph(x: f32[2]) {
  mul_: f32[2] = mul(x, x)
  out: f32[2] = add(mul_, mul_)
  return out, mul_ -> input "x"
}
)");
}

TEST(Decompose, WritingASliceWritesItsBase) {
  EXPECT_EQ(decomposed(R"(buffer 0 "cache": f32[4, 2] = external
  graph(x: f32[2, 2]) {
    cache: f32[4, 2] = constant(0)
    rows: f32[2, 2] = aten::slice.Tensor(cache, 0, 1, 3)
    copy_: f32[2, 2] = aten::copy_(rows, x)
    out: f32[4, 2] = aten::mul.Tensor(cache, cache)
    return out, rows
  })"),
            R"(buffer 0 "cache": f32[4, 2] = external
graph(x: f32[2, 2]) {
  cache: f32[4, 2] = constant(0)
  copy__t: i64[2] = iota(dim=0)
  copy__t_3: i64[2] = full(value=1)
  copy__t_4: i64[2] = add(copy__t, copy__t_3)
  copy__t_5: i64[2, 1] = reshape(copy__t_4)
  copy__t_6: i64[1, 2] = reshape(copy__t)
  copy__t_7: i64[2, 2] = expand(copy__t_5)
  copy__t_8: i64[2, 2] = expand(copy__t_6)
  copy__t_9: f32[4, 2] = scatter.set(cache, x, copy__t_7, copy__t_8)
  out: f32[4, 2] = mul(copy__t_9, copy__t_9)
  return out, x, copy__t_9 -> buffer "cache"
}
)");
}

TEST(Decompose, WritingThroughViewsUndoesEach) {
  EXPECT_EQ(decomposed(R"(graph(x: f32[2, 6], y: f32[2, 2]) {
    v: f32[2, 3, 2] = aten::view(x, [2, 3, 2])
    p: f32[3, 2, 2] = aten::permute(v, [1, 0, 2])
    s: f32[2, 2] = aten::select.int(p, 0, 1)
    add_: f32[2, 2] = aten::add_.Tensor(s, y)
    return
  })"),
            R"(graph(x: f32[2, 6], y: f32[2, 2]) {
  v: f32[2, 3, 2] = reshape(x)
  p: f32[3, 2, 2] = permute(v, dims=[1, 0, 2])
  s_t: f32[1, 2, 2] = slice(p, starts=[1, 0, 0], steps=[1, 1, 1])
  s: f32[2, 2] = reshape(s_t)
  add_: f32[2, 2] = add(s, y)
  add__t_1: f32[1, 2, 2] = reshape(add_)
  add__t_2: i64[1] = iota(dim=0)
  add__t_4: i64[1] = full(value=1)
  add__t_5: i64[1] = add(add__t_2, add__t_4)
  add__t_6: i64[1, 1, 1] = reshape(add__t_5)
  add__t_7: i64[2] = iota(dim=0)
  add__t_8: i64[1, 2, 1] = reshape(add__t_7)
  add__t_9: i64[1, 1, 2] = reshape(add__t_7)
  add__t_10: i64[1, 2, 2] = expand(add__t_6)
  add__t_11: i64[1, 2, 2] = expand(add__t_8)
  add__t_12: i64[1, 2, 2] = expand(add__t_9)
  add__t_13: f32[3, 2, 2] = scatter.set(p, add__t_1, add__t_10, add__t_11, add__t_12)
  add__t_14: f32[2, 3, 2] = permute(add__t_13, dims=[1, 0, 2])
  add__t_15: f32[2, 6] = reshape(add__t_14)
  return add__t_15 -> input "x"
}
)");
}

TEST(Decompose, WritingThroughSeveralSlicesIsOneScatter) {
  EXPECT_EQ(decomposed(R"(graph(x: f32[2, 6], y: f32[3]) {
    v: f32[2, 3, 2] = aten::view(x, [2, 3, 2])
    p: f32[3, 2, 2] = aten::permute(v, [1, 0, 2])
    s: f32[3, 2] = aten::select.int(p, 1, 1)
    column: f32[3] = aten::select.int(s, 1, 0)
    add_: f32[3] = aten::add_.Tensor(column, y)
    return
  })"),
            R"(graph(x: f32[2, 6], y: f32[3]) {
  v: f32[2, 3, 2] = reshape(x)
  p: f32[3, 2, 2] = permute(v, dims=[1, 0, 2])
  s_t: f32[3, 1, 2] = slice(p, starts=[0, 1, 0], steps=[1, 1, 1])
  s: f32[3, 2] = reshape(s_t)
  column_t: f32[3, 1] = slice(s, starts=[0, 0], steps=[1, 1])
  column: f32[3] = reshape(column_t)
  add_: f32[3] = add(column, y)
  add__t_1: i64[12] = iota(dim=0)
  add__t_3: i64[2, 3, 2] = reshape(add__t_1)
  add__t_4: i64[3, 2, 2] = permute(add__t_3, dims=[1, 0, 2])
  add__t_5: i64[3, 1, 2] = slice(add__t_4, starts=[0, 1, 0], steps=[1, 1, 1])
  add__t_6: i64[3, 2] = reshape(add__t_5)
  add__t_7: i64[3, 1] = slice(add__t_6, starts=[0, 0], steps=[1, 1])
  add__t_8: i64[3] = reshape(add__t_7)
  add__t_9: f32[12] = reshape(x)
  add__t_10: f32[12] = scatter.set(add__t_9, add_, add__t_8)
  add__t_11: f32[2, 6] = reshape(add__t_10)
  return add__t_11 -> input "x"
}
)");
}

TEST(Decompose, WritingAnyOtherViewScattersToItsPositions) {
  EXPECT_EQ(decomposed(R"(graph(x: f32[3, 3]) {
    d: f32[3] = aten::diagonal(x)
    zero_: f32[3] = aten::zero_(d)
    return x
  })"),
            R"(graph(x: f32[3, 3]) {
  zero_: f32[3] = full(value=0.0)
  zero__t_1: i64[9] = iota(dim=0)
  zero__t_2: i64[3, 3] = reshape(zero__t_1)
  zero__t_3: i64[3] = remap(zero__t_2, axes=[a2], index=[a2, a2])
  zero__t_4: f32[9] = reshape(x)
  zero__t_5: f32[9] = scatter.set(zero__t_4, zero_, zero__t_3)
  zero__t_6: f32[3, 3] = reshape(zero__t_5)
  return zero__t_6, zero__t_6 -> input "x"
}
)");
}

TEST(Decompose, ViewsOfWrittenMemoryAreReadAgain) {
  EXPECT_EQ(decomposed(R"(graph(x: f32[4]) {
    view: f32[2, 2] = aten::view(x, [2, 2])
    exp_: f32[4] = aten::exp_(x)
    out: f32[2, 2] = aten::neg(view)
    return out
  })"),
            R"(graph(x: f32[4]) {
  exp_: f32[4] = exp(x)
  out_t: f32[2, 2] = reshape(exp_)
  out: f32[2, 2] = neg(out_t)
  return out, exp_ -> input "x"
}
)");
}

TEST(Decompose, CopiesAreNotViews) {
  EXPECT_EQ(decomposed(R"(graph(x: f32[2, 2]) {
    c: f32[2, 2] = aten::clone(x)
    t: f32[2, 2] strides [1, 2] = aten::t(x)
    r: f32[4] = aten::reshape(t, [4])
    to: f32[2, 2] = aten::to.dtype(x, dtype.f32, copy=true)
    exp_: f32[2, 2] = aten::exp_(x)
    return c, r, to
  })"),
            R"(graph(x: f32[2, 2]) {
  t: f32[2, 2] = permute(x, dims=[1, 0])
  r: f32[4] = reshape(t)
  exp_: f32[2, 2] = exp(x)
  return x, r, x, exp_ -> input "x"
}
)");
}

TEST(Decompose, ResultsKeepTheDtypeOfWhatTheyAreWrittenTo) {
  EXPECT_EQ(decomposed(R"(graph(x: f32[2], y: f64[2], out: bool[2]) {
    add_: f32[2] = aten::add_.Tensor(x, y)
    eq: bool[2] = aten::logical_and.out(x, y, out=out)
    return add_
  })"),
            R"(graph(x: f32[2], y: f64[2], out: bool[2]) {
  add__t: f64[2] = cast(x)
  add__t_1: f64[2] = add(add__t, y)
  add_: f32[2] = cast(add__t_1)
  eq_t: bool[2] = cast(y)
  eq_t_1: bool[2] = cast(add_)
  eq: bool[2] = bit_and(eq_t_1, eq_t)
  return add_, add_ -> input "x", eq -> input "out"
}
)");
}

TEST(Decompose, InPlaceViewsChangeHowATensorIsSeen) {
  EXPECT_EQ(decomposed(R"(graph(x: f32[2, 3]) {
    c: f32[2, 3] = aten::clone(x)
    t_: f32[3, 2] strides [1, 3] = aten::t_(c)
    out: f32[3, 2] = aten::exp(c)
    return out
  })"),
            R"(graph(x: f32[2, 3]) {
  t_: f32[3, 2] = permute(x, dims=[1, 0])
  out: f32[3, 2] = exp(t_)
  return out
}
)");
}

TEST(Decompose, NumbersStandForTensors) {
  EXPECT_EQ(decomposed(R"(graph(x: bf16[2], i: i32[]) {
    a: bf16[2] = aten::mul.Tensor(x, 2.5)
    b: i32[] = aten::add.Tensor(i, 1)
    c: f32[] = aten::mul.Tensor(i, 0.5)
    return a, b, c
  })"),
            R"(graph(x: bf16[2], i: i32[]) {
  a_t_1: f32[2] = cast(x)
  a_t_3: f32[2] = full(value=2.5)
  a_t_4: f32[2] = mul(a_t_1, a_t_3)
  a: bf16[2] = cast(a_t_4)
  b_t: i32[] = full(value=1)
  b: i32[] = add(i, b_t)
  c_t: f32[] = full(value=0.5)
  c_t_1: f32[] = cast(i)
  c: f32[] = mul(c_t_1, c_t)
  return a, b, c
}
)");
}

TEST(Decompose, ListsGiveOneValueForEachTensor) {
  EXPECT_EQ(decomposed(R"(graph(x: f32[4, 2]) {
    a: f32[3, 2], b: f32[1, 2] = aten::split.Tensor(x, 3)
    mul_: f32[1, 2] = aten::mul_.Tensor(b, b)
    return a
  })"),
            R"(graph(x: f32[4, 2]) {
  b: f32[1, 2] = slice(x, starts=[3, 0], steps=[1, 1])
  mul_: f32[1, 2] = mul(b, b)
  mul__t_1: i64[1] = iota(dim=0)
  mul__t_3: i64[1] = full(value=3)
  mul__t_4: i64[1] = add(mul__t_1, mul__t_3)
  mul__t_5: i64[1, 1] = reshape(mul__t_4)
  mul__t_6: i64[2] = iota(dim=0)
  mul__t_7: i64[1, 2] = reshape(mul__t_6)
  mul__t_8: i64[1, 2] = expand(mul__t_5)
  mul__t_9: f32[4, 2] = scatter.set(x, mul_, mul__t_8, mul__t_7)
  mul__t_10: f32[3, 2] = slice(mul__t_9, starts=[0, 0], steps=[1, 1])
  return mul__t_10, mul__t_9 -> input "x"
}
)");
}

TEST(Decompose, ListsOfTensorsAreUpdatedOneByOne) {
  EXPECT_EQ(decomposed(R"(graph(x: f32[2], y: f32[3], g: f32[2], h: f32[3]) {
    aten::_foreach_mul_.ScalarList([x, y], [2.0, 3.0])
    aten::_foreach_sub_.List([x, y], [g, h])
    return
  })"),
            R"(graph(x: f32[2], y: f32[3], g: f32[2], h: f32[3]) {
  t_2: f32[2] = full(value=2.0)
  t_3: f32[2] = mul(x, t_2)
  t_6: f32[3] = full(value=3.0)
  t_7: f32[3] = mul(y, t_6)
  t_8: f32[2] = sub(t_3, g)
  t_9: f32[3] = sub(t_7, h)
  return t_8 -> input "x", t_9 -> input "y"
}
)");
}

TEST(Decompose, ConvertsATransposedInputInTheOrderOfItsMemory) {
  EXPECT_EQ(decomposed(R"(graph(x: f32[2, 3], y: bf16[4, 3]) {
    t: f32[3, 2] = aten::t(x)
    w: bf16[3, 2] = aten::_to_copy(t, dtype=dtype.bf16)
    p: bf16[4, 2] = aten::mm(y, w)
    r: bf16[2, 4] = aten::t(p)
    s: f32[2, 4] = aten::_to_copy(r, dtype=dtype.f32)
    return p, s
  })"),
            R"(graph(x: f32[2, 3], y: bf16[4, 3]) {
  w_t: bf16[2, 3] = cast(x)
  w_t_1: bf16[2, 3] = bitcast(w_t)
  w: bf16[3, 2] = permute(w_t_1, dims=[1, 0])
  p: bf16[4, 2] = matmul(y, w)
  r: bf16[2, 4] = permute(p, dims=[1, 0])
  s: f32[2, 4] = cast(r)
  return p, s
}
)");
}

TEST(Decompose, WritingThroughBitsOfAnotherDtype) {
  EXPECT_EQ(decomposed(R"(graph(x: f32[2, 2]) {
    bits: i32[2, 2] = aten::view.dtype(x, dtype.i32)
    d: i32[2] = aten::diagonal(bits)
    fill_: i32[2] = aten::fill_.Scalar(d, 7)
    return
  })"),
            R"(graph(x: f32[2, 2]) {
  fill_: i32[2] = full(value=7)
  fill__t_1: i64[4] = iota(dim=0)
  fill__t_2: i64[2, 2] = reshape(fill__t_1)
  fill__t_3: i32[2, 2] = cast(fill__t_2)
  fill__t_4: f32[2, 2] = bitcast(fill__t_3)
  fill__t_5: i32[2, 2] = bitcast(fill__t_4)
  fill__t_6: i32[2] = remap(fill__t_5, axes=[a2], index=[a2, a2])
  fill__t_7: f32[4] = reshape(x)
  fill__t_8: f32[2] = bitcast(fill_)
  fill__t_9: i64[2] = cast(fill__t_6)
  fill__t_10: f32[4] = scatter.set(fill__t_7, fill__t_8, fill__t_9)
  fill__t_11: f32[2, 2] = reshape(fill__t_10)
  return fill__t_11 -> input "x"
}
)");
}

// Positions are bits of the tensor's own dtype on their way through the views: those of a NaN may change there.
TEST(Decompose, PositionsBehindBitsAreNoPatternsOfNaN) {
  const auto written = [](const char* dtype, int64_t size) {
    return fmt::format(
        "graph(x: {0}[{1}]) {{\n  s: {0}[{2}] = aten::slice.Tensor(x, 0, 10)\n  b: i16[{2}] = aten::view.dtype(s, dtype.i16)\n"
        "  t: i16[{3}] = aten::slice.Tensor(b, 0, 5)\n  fill_: i16[{3}] = aten::fill_.Scalar(t, 7)\n  return\n}}",
        dtype, size, size - 10, size - 15);
  };
  EXPECT_EQ(error_in(written("f16", 0x7c02)), "writing to a view of the bits of f16[31746] is not supported");
  EXPECT_EQ(error_in(written("bf16", 0x7f82)), "writing to a view of the bits of bf16[32642] is not supported");
  EXPECT_NE(decomposed(written("f16", 0x7c01)).find("scatter.set"), std::string::npos);
  EXPECT_NE(decomposed(written("bf16", 0x7f81)).find("scatter.set"), std::string::npos);
}

TEST(Decompose, SubgraphsAreDecomposedToo) {
  EXPECT_EQ(decomposed(R"(subgraph 0(x: f32[2]) {
    y: f32[2] = aten::neg(x)
    return y
  }
  graph(c: bool[], x: f32[2]) {
    out: f32[2] = higher_order::cond(c, @0, @0, [x])
    return out
  })"),
            R"(subgraph 0(x: f32[2]) {
  y: f32[2] = neg(x)
  return y
}
graph(c: bool[], x: f32[2]) {
  out: f32[2] = higher_order::cond(c, @0, @0, [x])
  return out
}
)");
  EXPECT_EQ(error_in(R"(subgraph 0(x: f32[2]) {
    y: f32[2] = aten::neg_(x)
    return y
  }
  graph(c: bool[], x: f32[2]) {
    out: f32[2] = higher_order::cond(c, @0, @0, [x])
    return out
  })"),
            "a subgraph of a control-flow operator updates a tensor from outside in place");
}

TEST(Decompose, RefusesAConvolutionWhoseGroupsDoNotDivideItsChannels) {
  EXPECT_EQ(error_in(R"(graph(x: f32[1, 4, 5], w: f32[3, 2, 1]) {
    y: f32[1, 3, 5] = aten::convolution(x, w, none, [1], [0], [1], false, [0], 2)
    return y
  })"),
            "a convolution of 2 groups with weights f32[3, 2, 1]");
}

TEST(Decompose, AListedMutationIsNotListedAgain) {
  EXPECT_EQ(decomposed(R"(graph(x: f32[2]) {
    exp: f32[2] = aten::exp(x)
    copy_: f32[2] = aten::copy_(x, exp)
    return exp -> input "x", copy_
  })"),
            R"(graph(x: f32[2]) {
  exp: f32[2] = exp(x)
  return exp -> input "x", exp
}
)");
}

TEST(Decompose, UnprovenEqualitiesBecomeGuards) {
  EXPECT_EQ(decomposed(R"(sym s0 in [2, 64]
  sym s1 in [2, 64]
  graph(x: f32[s0], y: f32[s1]) {
    z: f32[s0] = aten::add.Tensor(x, y)
    return z
  })")
                .substr(0, 59),
            "sym s0 in [2, 64]\nsym s1 in [2, 64]\nguard Eq(s0, s1)\ngraph(");
}

TEST(Decompose, AWrongRecordedTypeIsAnError) {
  EXPECT_EQ(error_in("graph(x: f32[1, 1, 2, 2]) { y: f32[1, 1, 2, 2] = "
                     "aten::upsample_nearest2d_backward(x, [1, 1, 2, 2], [1, 1, 2, 2]) return y }"),
            "argument 'output_size' of aten::upsample_nearest2d_backward has 4 numbers, not 2");
  EXPECT_EQ(error_in("graph(x: f32[5]) { y: f32[1, 7] = aten::slice_backward(x, [1, 7], 0, 0, 1, 1) return y }"),
            "a gradient of rank 1 of a tensor of rank 2");
  EXPECT_EQ(error_in("graph(x: f32[5]) { y: f32[7] = aten::slice_backward(x, [7], 0, 3, 8, 1) return y }"),
            "a gradient of 5 elements from 3 on for 7");
  EXPECT_EQ(error_in("graph(x: f32[2]) { y: f64[2] = aten::exp(x) return y }"),
            "aten::exp gives f32[2] as 'y', but the model records f64[2]");
}

TEST(Decompose, AllMissingOperatorsAreNamedTogether) {
  EXPECT_EQ(error_in(R"(graph(x: f32[2], y: f32[2]) {
    a: bool[] = aten::is_set_to(x, y)
    b: bool[] = aten::is_set_to(y, x)
    c: bool[] = aten::_nested_tensor_size(x)
    return a, b, c
  })"),
            "2 operators are not supported: aten::_nested_tensor_size, aten::is_set_to");
  EXPECT_EQ(error_in(R"(graph(x: f32[2], y: f32[2]) {
    a: bool[] = aten::is_set_to(x, y)
    return a
  })"),
            "operator 'aten::is_set_to' is not supported");
}

}  // namespace
}  // namespace toroid
