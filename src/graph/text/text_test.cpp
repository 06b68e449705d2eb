#include "graph/text/text.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/verify.h"

namespace toroid {
namespace {

// The text is what the printer would write.
void expect_round_trip(std::string_view text) {
  const Program program = parse_text(text);
  EXPECT_EQ(to_text(program), text);
  verify(program, Level::Import);
}

std::string error_of_text(std::string_view text) {
  try {
    parse_text(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::InvalidModel);
    return error.message();
  }
  return "no error";
}

TEST(Text, PrintsAndReadsBackEveryPart) {
  expect_round_trip(R"(program "toy"
sym s0 in [2, 512] hint 8
sym u0 in [0, inf] from data
guard s0 <= 128
constant 0 "fc.weight": f32[2] = [1.0, -0.5]
buffer 1 "cache": f32[64, 1024] = external
constant 2 "": bool[2] = [true, false]
graph(x: f32[s0, 2] named "x.1", y: f32[s0, 2] strides [1, s0] offset(s0 + 1) on cuda:1) {
  w: f32[2] = constant(0)
  w_t: f32[1, 2] = reshape(w)
  w_t_1: f32[s0, 2] = expand(w_t)
  z: f32[s0, 2] = mul(x, w_t_1)
  s: f32[s0] = reduce.sum(z, dims=[1])
  return s, z -> input "x.1", w -> buffer "cache", s -> loss
}
)");
}

TEST(Text, PrintsAndReadsBackEveryCoreOperation) {
  expect_round_trip(R"(sym s0 in [1, 64]
graph(x: f32[4, 6], i: i64[4, 6], b: bool[4, 6], k: f32[2, 3, 8, 8], w: f32[5, 3, 3, 3], q: f32[2, 4, 16, 8]) {
  full: f32[4, 6] = full(value=-inf)
  full_1: i64[s0] = full(value=s0 + 1)
  full_2: bool[] = full(value=true)
  iota: i64[4, 6] = iota(dim=1)
  exp: f32[4, 6] = exp(x)
  lt: bool[4, 6] = lt(x, exp)
  where: f32[4, 6] = where(b, x, exp)
  cast: bf16[4, 6] = cast(x)
  bitcast: i32[4, 6] = bitcast(x)
  permute: f32[6, 4] = permute(x, dims=[1, 0])
  reshape: f32[2, 12] = reshape(x)
  slice: f32[2, 6] = slice(x, starts=[3, 0], steps=[-1, 1])
  remap: f32[6, 4] = remap(x, axes=[a0, a1], index=[a1, a0])
  pad: f32[5, 8] = pad(x, low=[1, 0], value=0.0)
  cat: f32[8, 6] = cat(x, exp, dim=0)
  gather: f32[4, 6] = gather(x, i, i)
  scatter: f32[4, 6] = scatter.add(x, exp, i, i)
  mean: f32[6], m2: f32[6] = reduce.welford(x, dims=[0])
  top: f32[4, 6], at: i64[4, 6] = scan.max(x, dim=1)
  sorted: f32[4, 6], order: i64[4, 6] = sort(x, dim=1, descending=true, stable=false)
  matmul: f32[4, 4] = matmul(x, permute)
  conv: f32[2, 5, 8, 8] = convolution(k, w, stride=[1, 1], padding=[1, 1], dilation=[1, 1], output_padding=[0, 0], transposed=false, groups=1)
  attention: f32[2, 4, 16, 8] = attention(q, q, q, causal=true, scale=0.125)
  lu: f32[4, 6], pivots: i32[4] = library.lu(x, attributes=[true, 1, 0.5])
  other: f32[4] = library.other()
  return attention
}
)");
}

TEST(Text, PrintsAndReadsBackImportLevel) {
  expect_round_trip(R"(sym s0 in [1, 64]
graph(x: f32[4, s0], i: i64[3], c: bool[]) {
  add: f32[4, s0] = aten::add.Tensor(x, x, alpha=2)
  sum: f32[4, 1] = aten::sum.dim_IntList(add, [1], keepdim=true)
  index: f32[3, s0] = aten::index.Tensor(x, [i])
  index_1: f32[4, 3] = aten::index.Tensor(x, [none, i])
  full: f32[s0, 2] = aten::full([s0, 2], 1.5, dtype=dtype.f32, layout=layout.strided, device=device.cuda:1)
  clone: f32[4, s0] = aten::clone(x, memory_format=format.channels_last)
  div: f32[4, s0] = aten::div.Tensor_mode(x, (s0), rounding_mode="floor")
  aten::_assert_async.msg(c, "must be \"so\"\x0a")
  a: f32[2, s0], b: f32[2, s0] = aten::split.Tensor(x, 2)
  return sum
}
)");
}

TEST(Text, PrintsAndReadsBackSubgraphs) {
  expect_round_trip(R"(subgraph 0(x: f32[2]) {
  relu: f32[2] = aten::relu(x)
  return relu
}
subgraph 1(x: f32[2]) {
  return x
}
graph(c: bool[], x: f32[2]) {
  out: f32[2] = higher_order::cond(c, @0, @1, [x])
  return out
}
)");
}

TEST(Text, PrintsAndReadsBackWhatDefinesASymbol) {
  expect_round_trip(R"(sym u0 in [2, 64] from data
sym s0 in [1, inf]
graph(n: i64[], x: f32[3]) {
  sym s0 + 1 = n
  item: i64[] = reduce.argmax(x, dims=[0])
  sym u0 = item
  full: f32[u0, s0] = full(value=0.0)
  return full
}
)");
}

TEST(Text, ConstantsOfEveryDtypeKeepTheirBits) {
  expect_round_trip(R"(constant 0 "a": f16[3] = [0.099975586, -inf, 5.9604645e-08]
constant 1 "b": bf16[2] = [1.0, 3.3895314e+38]
constant 2 "c": f64[3] = [0.1, -0.0, nan]
constant 3 "d": i64[2] = [-9223372036854775808, 9223372036854775807]
constant 4 "e": u8[0] = []
constant 5 "f": c64[1] = hex 0000803f000000bf
constant 6 "g": u64[1] = [18446744073709551615]
constant 7 "h": i8[2, 1] = [-128, 127]
graph() {
  return
}
)");
}

TEST(Text, OddNamesAreQuoted) {
  expect_round_trip(R"(graph(%"a b": f32[2], %"return": f32[2], %"\x0a\"\\": f32[2]) {
  add: f32[2] = add(%"a b", %"return")
  neg: f32[2] = neg(%"\x0a\"\\")
  return %"a b"
}
)");
}

TEST(Text, TypesMayBeLeftOutWhereTheOperationGivesThem) {
  const Program program = parse_text(R"(
    # A comment, and free layout.
    graph(x: f32[3, 4]) {
      t = mul(x, x)  # squared
      s = reduce.sum(t, dims=[0])
      v, i = sort(s, dim=0, descending=false, stable=true)
      return v, i
    })");
  EXPECT_EQ(to_text(program), R"(graph(x: f32[3, 4]) {
  t: f32[3, 4] = mul(x, x)
  s: f32[4] = reduce.sum(t, dims=[0])
  v: f32[4], i: i64[4] = sort(s, dim=0, descending=false, stable=true)
  return v, i
}
)");
}

TEST(Text, ProvenanceIsAComment) {
  Program program = parse_text("graph(x: f32[2]) { y = exp(x) return y }");
  Graph& graph = program.graph;
  graph.node(graph.value(graph.outputs[0]).producer).provenance =
      graph.add_provenance({"aten::exp", "exp_1", "net (Net)", "model.py:3\nin forward"});
  const std::string text = to_text(program, {.provenance = true});
  EXPECT_NE(text.find("  y: f32[2] = exp(x)  # exp_1 (aten::exp) in net (Net), from model.py:3 in forward\n"), std::string::npos) << text;
  EXPECT_EQ(to_text(parse_text(text)), to_text(program));
}

TEST(Text, ExternalConstantsAreAskedFor) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(8);
  const Program program = parse_text(R"(constant 0 "w": f32[2] = external
graph() { w = constant(0) return w })",
                                     [&](ConstantData& data) {
                                       EXPECT_EQ(data.name, "w");
                                       data.bytes = *bytes;
                                       data.owner = bytes;
                                     });
  EXPECT_EQ(program.constants[0].bytes.size(), 8u);
  EXPECT_EQ(to_text(program, {.inline_elements = 1}).substr(0, 37), "constant 0 \"w\": f32[2] = external\ngra");
}

TEST(Text, ConstantsHoldWhatTheirStridesShow) {
  auto message = [](const std::string& strides) {
    try {
      parse_text("constant 0 \"w\": f32[2, 3] strides " + strides + " = hex " + std::string(48, '0') +
                 "\ngraph(x: f32[1]) {\n  w: f32[2, 3] = constant(0)\n  return w\n}");
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  EXPECT_EQ(message("[1, 2]"), "");
  EXPECT_EQ(message("[0, 1]"), "");
  for (const char* strides : {"[1, 3]", "[4611686018427387904, 1]", "[-3, 1]"}) {
    EXPECT_EQ(message(strides), fmt::format("1:1: the constant 'w' has 24 bytes, which do not hold f32[2, 3] strides {}", strides));
  }
}

TEST(Text, MistakesAreToldWithLineAndColumn) {
  EXPECT_EQ(error_of_text("graph(x: f33[2]) { return x }"), "1:10: 'f33' is not a dtype");
  EXPECT_EQ(error_of_text("graph(x: f32[2]) {\n  y = exp(z)\n  return y\n}"), "2:11: no value is called 'z'");
  EXPECT_EQ(error_of_text("graph(x: f32[2]) {\n  y = expo(x)\n}"), "2:7: no operation is called 'expo'");
  EXPECT_EQ(error_of_text("graph(x: f32[2]) {\n  y = aten::no(x)\n}"), "2:7: no operator is called 'aten::no'");
  EXPECT_EQ(error_of_text("graph(x: f32[s0]) { return x }"), "1:14: symbol 's0' is not declared");
  EXPECT_EQ(error_of_text("graph(x: f32[2]) {\n  x = exp(x)\n}"), "2:3: value 'x' is defined twice");
  EXPECT_EQ(error_of_text("graph(x: f32[2]) {\n  y: f32[3] = exp(x)\n}"), "2:3: exp gives f32[2], not f32[3]");
  EXPECT_EQ(error_of_text("graph(x: f32[2]) {\n  y = reshape(x)\n}"), "2:3: reshape has one result, and its type must be given");
  EXPECT_EQ(error_of_text("graph(x: f32[2], y: f32[3]) {\n  z = add(x, y)\n}"), "2:3: add: sizes 2 and 3 differ");
  EXPECT_EQ(error_of_text("graph(x: f32[]) {\n  y = gather(x)\n}"),
            "2:3: gather takes a tensor and an index for each of its dims, at least one");
  EXPECT_EQ(error_of_text("graph(x: f32[2]) {\n  y = aten::sum.dim_IntList(x, [0], keepdims=true)\n}"),
            "2:37: aten::sum.dim_IntList has no argument 'keepdims'");
  EXPECT_EQ(error_of_text("graph(x: f32[2]) {\n  y = aten::relu()\n}"), "2:7: aten::relu needs the argument 'self'");
  EXPECT_EQ(error_of_text("constant 0 \"w\": f32[2] = [1.0]\ngraph() { return }"), "1:26: f32[2] needs 8 bytes, not 4");
  EXPECT_EQ(error_of_text("constant 0 \"w\": i8[1] = [300]\ngraph() { return }"), "1:26: '300' is not a i8");
  EXPECT_EQ(error_of_text("constant 1 \"w\": i8[1] = [3]"), "1:1: constant 1 stands in place 0");
  EXPECT_EQ(error_of_text("graph(x: f32[2]) {\n  return x -> nowhere\n}"), "2:15: 'nowhere' is no kind of output");
  EXPECT_EQ(error_of_text("graph(x: f32[2]) {\n  y: f32[2] = higher_order::cond(@1)\n  return y\n}"), "2:35: there is no subgraph 1");
  EXPECT_EQ(error_of_text("graph(x: f32[2]) {\n  y = exp(x\n"), "2:11: expected ')'");
  EXPECT_EQ(error_of_text("constant 0 \"w\": i8[1] = [3]\ngraph() {\n  w: i8[9] = constant(0)\n  return w\n}"),
            "3:3: the constant is i8[1], not i8[9]");
  EXPECT_EQ(error_of_text("graph(x: f16[2, 2]) {\n  y = matmul.float8(x, x, left_e5m2=true, right_e5m2=false)\n}"),
            "2:3: a product by the bits of 8-bit floats, which a graph has not");
  EXPECT_EQ(error_of_text(""), "1:1: expected a graph");
  EXPECT_EQ(error_of_text("graph() { return } graph() { return }"), "1:20: expected the end of the text after the graph");
  EXPECT_EQ(error_of_text("program \"a"), "1:11: expected '\"'");
}

TEST(Text, ControlFlowGivesWhatItsSubgraphsGive) {
  const std::string text = "subgraph 0(x: f32[2]) { return x }\ngraph(c: bool[], x: f32[2]) {\n  y: ";
  EXPECT_EQ(error_of_text(text + "f32[3] = higher_order::cond(c, @0, @0, [x])\n return y\n}"),
            "3:3: higher_order::cond(%0, @0, @0, [%1]) gives f32[2], not f32[3]");
  EXPECT_EQ(error_of_text(text + "f32[2] = higher_order::cond(c, @0, @0, [])\n return y\n}"),
            "3:3: cond: its true branch takes 1 tensors, and is given 0");
  EXPECT_EQ(error_of_text(text + "f32[2] = higher_order::cond(c, @0, @0, none)\n return y\n}"),
            "3:3: cond: argument 3 is none, not a list of tensors");
  EXPECT_EQ(error_of_text(text + "f32[2] = higher_order::while_loop(@0, @0, [x], [])\n return y\n}"),
            "3:3: while_loop: what its condition gives is f32[2], not one truth value");
  EXPECT_EQ(error_of_text(
                "subgraph 0(c: bool[]) {\n  y: bool[] = higher_order::cond(c, @0, @0, [c])\n  return y\n}\ngraph(c: bool[]) { return c }"),
            "2:38: there is no subgraph 0");
}

}  // namespace
}  // namespace toroid
