#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "graph/text/text.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/devices/placement.h"

namespace toroid {
namespace {

std::string explicit_text(std::string_view text) {
  Program program = parse_text(text);
  make_copies_explicit(program);
  return to_text(program);
}

std::string assigned_text(std::string_view text) {
  Program program = parse_text(text);
  make_copies_explicit(program);
  decompose(program);
  assign_devices(program);
  std::string assigned = to_text(program);
  assign_devices(program);
  EXPECT_EQ(to_text(program), assigned);  // a second time, as for what passes add, it changes nothing
  return assigned;
}

TEST(Devices, APlacementIsThatOfAllValues) {
  const auto placement = [](std::string_view inputs) {
    return placement_of(parse_text("graph(" + std::string(inputs) + ") {\n  return x\n}"));
  };
  EXPECT_EQ(placement("x: f32[2], y: f32[2]"), Placement::OnCpu);
  EXPECT_EQ(placement("x: f32[2] on cuda:1, y: f32[2] on cuda:1"), Placement::OnGpu);
  EXPECT_EQ(placement("x: f32[2], y: f32[2] on cuda:1"), Placement::Mixed);
  const Error error = error_of([&] { placement("x: f32[2] on cuda:0, y: f32[2] on cuda:1"); });
  EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
  EXPECT_EQ(error.message(), "'x' is on cuda:0 and 'y' on cuda:1");
}

TEST(Devices, ConversionsBecomeCopies) {
  EXPECT_EQ(explicit_text(R"(graph(x: f32[4]) {
  y: f16[4] on cuda:0 = aten::_to_copy(x, dtype=dtype.f16, device=device.cuda:0)
  z: f16[4] = aten::to.device(y, device=device.cpu, dtype=dtype.f16)
  return z
}
)"),
            R"(graph(x: f32[4]) {
  x_on_gpu: f32[4] on cuda:0 = library.device.copy(x, attributes=[1])
  y: f16[4] on cuda:0 = aten::_to_copy(x_on_gpu, dtype=dtype.f16, device=device.cuda:0)
  y_on_cpu: f16[4] = library.device.copy(y, attributes=[0])
  z: f16[4] = aten::to.device(y_on_cpu, device.cpu, dtype.f16)
  return z
}
)");
}

// PyTorch's attention gives the state of its random numbers, which is 0 where there is no dropout.
TEST(Devices, ResultsOfNoTensorAreWhereTheModelHasThem) {
  EXPECT_EQ(assigned_text(R"(graph(x: f32[4] on cuda:0, n: f32[4]) {
  y: f32[4] on cuda:0 = aten::neg(x)
  z: f32[3] on cuda:0 = aten::zeros([3], device=device.cuda:0)
  w: f32[3] = aten::zeros([3])
  a: i64[2] on cuda:0 = aten::arange(2, device=device.cuda:0)
  return y, z, w, a, x, n
}
)"),
            R"(graph(x: f32[4] on cuda:0, n: f32[4]) {
  y: f32[4] on cuda:0 = neg(x)
  z: f32[3] on cuda:0 = full(value=0.0)
  z_1: f32[3] = full(value=0.0)
  a: i64[2] on cuda:0 = iota(dim=0)
  return y, z, z_1, a, x, n
}
)");
}

TEST(Devices, SingleNumbersOfTheCpuJoinTensorsOnAGpu) {
  EXPECT_EQ(assigned_text(R"(graph(x: f32[4] on cuda:0, s: f32[]) {
  y: f32[4] on cuda:0 = aten::mul.Tensor(x, s)
  return y
}
)"),
            R"(graph(x: f32[4] on cuda:0, s: f32[]) {
  s_on_gpu: f32[] on cuda:0 = library.device.copy(s, attributes=[1])
  y_t: f32[1] on cuda:0 = reshape(s_on_gpu)
  y_t_1: f32[4] on cuda:0 = expand(y_t)
  y: f32[4] on cuda:0 = mul(x, y_t_1)
  return y
}
)");
}

TEST(Devices, OthersNameBothOperands) {
  const auto refusal = [](std::string_view text) { return error_of([&] { explicit_text(text); }); };
  const Error two = refusal(R"(graph(x: f32[4] on cuda:0, y: f32[4]) {
  z: f32[4] on cuda:0 = aten::add.Tensor(x, y)
  return z
}
)");
  EXPECT_EQ(two.kind(), ErrorKind::InvalidModel);
  EXPECT_EQ(two.message(), "aten::add.Tensor has 'y' on cpu and 'x' on cuda:0");
  // As in PyTorch, a number on a GPU does not join tensors on the CPU.
  EXPECT_EQ(refusal(R"(graph(x: f32[4], y: f32[] on cuda:0) {
  z: f32[4] = aten::add.Tensor(x, y)
  return z
}
)")
                .message(),
            "aten::add.Tensor has 'y' on cuda:0 and 'x' on cpu");
}

// The GPU runs loops and branches, so a weight of theirs alone is there.
TEST(Devices, AWeightOfABranchIsOnTheGpu) {
  const auto text = [](std::string_view of_main) {
    return fmt::format(R"(constant 0 "w": f32[4] = [1, 2, 3, 4]
subgraph 0(g: f32[4] on cuda:0) {{
  w: f32[4] = constant(0)
  v: f32[4] on cuda:0 = aten::to.device(w, device=device.cuda:0, dtype=dtype.f32)
  a: f32[4] on cuda:0 = aten::mul.Tensor(g, v)
  return a
}}
subgraph 1(g: f32[4] on cuda:0) {{
  b: f32[4] on cuda:0 = aten::neg(g)
  return b
}}
graph(p: bool[], g: f32[4] on cuda:0, x: f32[4]) {{
  y: f32[4] on cuda:0 = higher_order::cond(p, @0, @1, [g])
{}}})",
                       of_main);
  };
  Program alone = parse_text(text("  return y\n"));
  make_copies_explicit(alone);
  for (const Node& node : alone.subgraphs[0].nodes()) EXPECT_EQ(to_string(alone.subgraphs[0].type(node.outputs[0]).device), "cuda:0");
  const Error both = error_of([&] {
    Program shared = parse_text(text("  u: f32[4] = constant(0)\n  z: f32[4] = aten::add.Tensor(x, u)\n  return y, z\n"));
    make_copies_explicit(shared);
  });
  EXPECT_EQ(both.kind(), ErrorKind::Unsupported);
  EXPECT_EQ(both.message(), "the weight 'w' is on the CPU, and a loop's body or a branch, which the GPU runs, has it too");
  EXPECT_EQ(both.report().substr(both.report().find("help: ")),
            "help: give it to the loop as an operand, which is copied, or compile with --device cuda, which moves all tensors to the GPU");
}

// Without operands a value is where it is used, and is no copy.
TEST(Devices, WhatHasNoOperandsIsOnBoth) {
  EXPECT_EQ(assigned_text(R"(graph(x: f32[3], g: f32[3] on cuda:0) {
  i: f32[3] = aten::arange(3, dtype=dtype.f32)
  j: f32[3] on cuda:0 = aten::to.device(i, device=device.cuda:0, dtype=dtype.f32)
  a: f32[3] = aten::add.Tensor(x, i)
  b: f32[3] on cuda:0 = aten::add.Tensor(g, j)
  return a, b
}
)"),
            R"(graph(x: f32[3], g: f32[3] on cuda:0) {
  i_t: i64[3] = iota(dim=0)
  i: f32[3] = cast(i_t)
  a: f32[3] = add(x, i)
  i_t_1: i64[3] on cuda:0 = iota(dim=0)
  i_1: f32[3] on cuda:0 = cast(i_t_1)
  b: f32[3] on cuda:0 = add(g, i_1)
  return a, b
}
)");
}

}  // namespace
}  // namespace toroid
