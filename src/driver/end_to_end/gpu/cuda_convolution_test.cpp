// Convolutions in kernels for a GPU, compiled for this processor and compared with the evaluator: none is left to the host.
#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

const ProgramCase kConvolutions[] = {
    {"strided_dilated_padded", R"(
graph(a: f32[2, 5, 9, 8], w: f32[6, 5, 3, 2], b: f32[6]) {
  y: f32[2, 6, 5, 4] = aten::conv2d(a, w, b, [2, 2], [2, 1], [2, 3])
  z: f32[2, 6, 5, 4] = aten::relu(y)
  return z
})"},
    {"vectors_of_channels", R"(
graph(a: bf16[3, 16, 40, 40], w: bf16[256, 16, 3, 3], b: bf16[256], v: f16[64, 256, 1, 1]) {
  y: bf16[3, 256, 40, 40] = aten::conv2d(a, w, b, [1, 1], [1, 1])
  r: bf16[3, 256, 40, 40] = aten::relu(y)
  h: f16[3, 256, 40, 40] = aten::to.dtype(r, dtype.f16)
  s: f16[3, 64, 20, 20] = aten::conv2d(h, v, none, [2, 2])
  return r, s
})"},
    // The preludes of both are in one text.
    {"convolution_and_product_of_few_rows", R"(
graph(a: bf16[2, 16, 8, 8], w: bf16[16, 16, 3, 3], l: bf16[32, 1024]) {
  y: bf16[2, 16, 8, 8] = aten::conv2d(a, w, none, [1, 1], [1, 1])
  f: bf16[2, 1024] = aten::view(y, [2, 1024])
  z: bf16[2, 32] = aten::linear(f, l)
  return z
})"},
    {"tensor_cores_of_pairs_of_pixels", R"(
graph(a: bf16[2, 3, 21, 23], w: bf16[24, 3, 7, 7], b: bf16[24], v: f16[8, 1, 3, 4], c: f16[1, 1, 9, 10]) {
  y: bf16[2, 24, 11, 12] = aten::conv2d(a, w, b, [2, 2], [3, 3])
  r: bf16[2, 24, 11, 12] = aten::relu(y)
  z: f16[1, 8, 7, 5] = aten::conv2d(c, v, none, [1, 2], [0, 1])
  return r, z
})"},
    {"tensor_cores_of_channels_not_in_eights", R"(
graph(a: bf16[2, 12, 9, 7], w: bf16[16, 12, 3, 2], b: bf16[16]) {
  y: bf16[2, 16, 4, 9] = aten::conv2d(a, w, b, [2, 1], [1, 2], [2, 2])
  s: bf16[2, 16, 4, 9] = aten::gelu(y)
  return y, s
})"},
    {"tensor_cores_of_residuals", R"(
graph(a: bf16[3, 64, 9, 9], w: bf16[64, 64, 3, 3], v: bf16[136, 64, 1, 1], b: bf16[64]) {
  y: bf16[3, 64, 9, 9] = aten::conv2d(a, w, b, [1, 1], [1, 1])
  r: bf16[3, 64, 9, 9] = aten::relu(y)
  z: bf16[3, 64, 9, 9] = aten::conv2d(r, w, none, [1, 1], [1, 1])
  s: bf16[3, 64, 9, 9] = aten::add.Tensor(z, r)
  t: bf16[3, 64, 9, 9] = aten::relu(s)
  q: bf16[3, 136, 5, 5] = aten::conv2d(t, v, none, [2, 2])
  m: bf16[3, 136] = aten::mean.dim(q, [2, 3])
  return t, m
})"},
    {"pixels_by_tma_of_a_result_in_planes", R"(
graph(a: bf16[3, 64, 9, 8], w: bf16[200, 64, 3, 3], b: bf16[200], r: bf16[3, 200, 5, 8]) {
  y: bf16[3, 200, 5, 8] = aten::conv2d(a, w, b, [2, 1], [1, 2], [1, 2])
  s: bf16[3, 200, 5, 8] = aten::add.Tensor(y, r)
  z: bf16[3, 200, 5, 8] = aten::relu(s)
  return z
})"},
    {"pixels_by_tma_of_free_numbers",
     R"(
sym s0 in [1, 16]
sym s1 in [8, 64]
graph(a: f16[s0, 128, s1, 8], w: f16[24, 128, 3, 3]) {
  y: f16[s0, 24, s1, 8] = aten::conv2d(a, w, none, [1, 1], [1, 1])
  return y
})",
     {{{"s0", 1}, {"s1", 8}}, {{"s0", 3}, {"s1", 19}}}},
    {"tensor_cores_of_lines_of_free_length",
     R"(
sym s0 in [1, 16]
sym s1 in [3, 300]
graph(a: f16[s0, 16, s1], w: f16[72, 16, 3], b: f16[72]) {
  y: f16[s0, 72, s1] = aten::conv1d(a, w, b, [1], [1])
  z: f16[s0, 72, s1] = aten::silu(y)
  return z
})",
     {{{"s0", 1}, {"s1", 3}}, {{"s0", 2}, {"s1", 150}}}},
    {"tensor_cores_of_a_window", R"(
graph(a: bf16[2, 32, 8, 8], w: bf16[32, 32, 1, 1], v: bf16[8, 16, 3, 3]) {
  y: bf16[2, 32, 8, 8] = aten::conv2d(a, w)
  c: bf16[2, 16, 8, 8] = aten::slice.Tensor(y, 1, 8, 24)
  l: bf16[2, 16, 6, 8] = aten::slice.Tensor(c, 2, 1, 7)
  z: bf16[2, 8, 4, 6] = aten::conv2d(l, v)
  return z
})"},
    {"depthwise", R"(
graph(a: bf16[2, 64, 33, 33], w: bf16[64, 1, 3, 3], v: bf16[64, 1, 5, 5], b: bf16[64]) {
  y: bf16[2, 64, 33, 33] = aten::conv2d(a, w, b, [1, 1], [1, 1], [1, 1], 64)
  r: bf16[2, 64, 33, 33] = aten::hardtanh(y, 0, 6)
  z: bf16[2, 64, 17, 17] = aten::conv2d(r, v, none, [2, 2], [2, 2], [1, 1], 64)
  return z
})"},
    {"depthwise_in_windows", R"(
graph(a: bf16[6, 128, 15, 24], w: bf16[128, 1, 5, 3], v: bf16[128, 1, 3, 3], b: bf16[128]) {
  y: bf16[6, 128, 15, 24] = aten::conv2d(a, w, none, [1, 1], [2, 1], [1, 1], 128)
  r: bf16[6, 128, 15, 24] = aten::relu(y)
  z: bf16[6, 128, 7, 11] = aten::conv2d(r, v, b, [2, 2], [0, 0], [1, 1], 128)
  return r, z
})"},
    {"depthwise_of_any_shape",
     R"(
sym s0 in [1, 16]
sym s1 in [9, 64]
graph(a: f32[s0, 16, s1, 10], w: f32[16, 1, 2, 3], b: f32[16], c: f16[s0, 8, s1], v: f16[8, 1, 7]) {
  y: f32[s0, 16, s1, 6] = aten::conv2d(a, w, b, [1, 2], [1, 3], [2, 2], 16)
  z: f32[s0, 16, s1, 6] = aten::silu(y)
  u: f16[s0, 8, s1] = aten::conv1d(c, v, none, [1], [3], [1], 8)
  return z, u
})",
     {{{"s0", 1}, {"s1", 9}}, {{"s0", 3}, {"s1", 41}}}},
    {"groups", R"(
graph(a: f32[2, 6, 7, 7], w: f32[9, 2, 3, 3]) {
  y: f32[2, 9, 7, 7] = aten::conv2d(a, w, none, [1, 1], [1, 1], [1, 1], 3)
  return y
})"},
    {"planes_of_float64", R"(
graph(a: f64[2, 4, 9], w: f64[6, 2, 3], b: f64[6], c: f64[2, 3, 4, 5, 6], v: f64[2, 3, 2, 2, 3]) {
  y: f64[2, 6, 9] = aten::conv1d(a, w, b, [1], [1], [1], 2)
  z: f64[2, 2, 3, 4, 4] = aten::conv3d(c, v, none, [1, 1, 1], [0, 0, 0])
  z1: f64[2, 2, 3, 3, 3] = aten::conv3d(c, v, none, [2, 2, 2], [1, 1, 1])
  return y, z, z1
})"},
    {"groups_on_tensor_cores", R"(
graph(a: bf16[2, 48, 9, 7], w: bf16[48, 16, 3, 3], b: bf16[48], c: f16[3, 160, 5, 5], v: f16[144, 80, 1, 1]) {
  y: bf16[2, 48, 5, 4] = aten::conv2d(a, w, b, [2, 2], [1, 1], [1, 1], 3)
  z: bf16[2, 48, 5, 4] = aten::relu(y)
  t: f16[3, 144, 5, 5] = aten::conv2d(c, v, none, [1, 1], [0, 0], [1, 1], 2)
  return z, t
})"},
    {"groups_of_few_channels", R"(
graph(a: bf16[2, 24, 9, 7], w: bf16[24, 4, 3, 3], b: bf16[24], v: bf16[48, 8, 3, 2], u: bf16[24, 16, 1, 1], r: bf16[2, 24, 9, 7]) {
  y: bf16[2, 24, 9, 7] = aten::conv2d(a, w, b, [1, 1], [1, 1], [1, 1], 6)
  s: bf16[2, 24, 9, 7] = aten::add.Tensor(y, r)
  z: bf16[2, 24, 9, 7] = aten::relu(s)
  t: bf16[2, 48, 5, 8] = aten::conv2d(z, v, none, [2, 1], [1, 2], [1, 3], 3)
  q: bf16[2, 24, 5, 8] = aten::conv2d(t, u, none, [1, 1], [0, 0], [1, 1], 3)
  return y, t, q
})"},
    {"groups_of_few_channels_of_any_shape",
     R"(
sym s0 in [1, 16]
sym s1 in [3, 64] hint 24
graph(a: f16[s0, 40, s1, 10], w: f16[40, 8, 3, 3], c: f16[s0, 24, s1], v: f16[24, 4, 5], b: f16[24]) {
  y: f16[s0, 40, s1, 10] = aten::conv2d(a, w, none, [1, 1], [1, 1], [1, 1], 5)
  z: f16[s0, 24, s1] = aten::conv1d(c, v, b, [1], [2], [1], 6)
  g: f16[s0, 24, s1] = aten::silu(z)
  return y, g
})",
     {{{"s0", 1}, {"s1", 3}}, {{"s0", 3}, {"s1", 41}}}},
    {"three_dims_on_tensor_cores", R"(
graph(a: bf16[2, 16, 5, 6, 7], w: bf16[24, 16, 3, 3, 3], b: bf16[24], v: bf16[8, 24, 3, 1, 1], u: bf16[16, 3, 1, 3, 3], c: bf16[1, 3, 4, 9, 8]) {
  y: bf16[2, 24, 5, 6, 7] = aten::conv3d(a, w, b, [1, 1, 1], [1, 1, 1])
  r: bf16[2, 24, 5, 6, 7] = aten::relu(y)
  z: bf16[2, 8, 2, 6, 7] = aten::conv3d(r, v, none, [2, 1, 1], [1, 0, 0], [2, 1, 1])
  t: bf16[1, 16, 4, 5, 4] = aten::conv3d(c, u, none, [1, 2, 2], [0, 1, 1])
  return r, z, t
})"},
    {"three_dims_of_any_shape",
     R"(
sym s0 in [1, 16]
sym s1 in [3, 64]
graph(a: f32[s0, 5, s1, 6, 7], w: f32[8, 5, 3, 2, 3], b: f32[8]) {
  y: f32[s0, 8, s1, 5, 7] = aten::conv3d(a, w, b, [1, 1, 1], [1, 0, 1])
  z: f32[s0, 8, s1, 5, 7] = aten::silu(y)
  return z
})",
     {{{"s0", 1}, {"s1", 3}}, {{"s0", 3}, {"s1", 4}}}},
    {"transposed", R"(
graph(a: f32[2, 6, 5, 4], w: f32[6, 3, 3, 2], b: f32[6], c: bf16[1, 4, 7], v: bf16[4, 5, 4]) {
  y: f32[2, 6, 11, 11] = aten::conv_transpose2d.input(a, w, b, [2, 3], [1, 0], [0, 0], 2, [2, 1])
  z: bf16[1, 5, 15] = aten::conv_transpose1d(c, v, none, [2], [1], [1])
  return y, z
})"},
    {"transposed_on_tensor_cores_by_phases", R"(
graph(a: bf16[2, 16, 5, 4], w: bf16[16, 24, 3, 2], b: bf16[24], c: f16[1, 8, 7], v: f16[8, 16, 4]) {
  y: bf16[2, 24, 10, 11] = aten::conv_transpose2d.input(a, w, b, [2, 3], [1, 0], [1, 0])
  z: f16[1, 16, 15] = aten::conv_transpose1d(c, v, none, [2], [1], [1])
  return y, z
})"},
    {"gradients_on_tensor_cores", R"(
graph(a: bf16[3, 24, 9, 10], w: bf16[136, 24, 3, 3], g: bf16[3, 136, 9, 10]) {
  p: bf16[3, 24, 9, 10] = aten::relu(a)
  y: bf16[3, 136, 9, 10] = aten::conv2d(p, w, none, [1, 1], [1, 1])
  d: bf16[3, 136, 9, 10] = aten::mul.Tensor(g, y)
  x: bf16[3, 24, 9, 10], v: bf16[136, 24, 3, 3], u: bf16[136] = aten::convolution_backward(d, p, w, [136], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, true])
  return x, v, u
})"},
    {"gradients_of_groups_on_tensor_cores", R"(
graph(a: bf16[2, 64, 9, 10], w: bf16[64, 4, 3, 3], g: bf16[2, 64, 5, 5], c: f16[1, 24, 40], v: f16[64, 12, 3], e: f16[1, 64, 38]) {
  p: bf16[2, 64, 9, 10] = aten::relu(a)
  x: bf16[2, 64, 9, 10], y: bf16[64, 4, 3, 3], z: bf16[64] = aten::convolution_backward(g, p, w, [64], [2, 2], [1, 1], [1, 1], false, [0, 0], 16, [true, true, true])
  q: f16[1, 24, 40], r: f16[64, 12, 3], s: f16[64] = aten::convolution_backward(e, c, v, [64], [1], [0], [1], false, [0], 2, [true, true, true])
  return x, y, z, q, r, s
})"},
    {"gradients_of_many_groups_on_tensor_cores", R"(
graph(a: bf16[2, 128, 6, 7], w: bf16[128, 8, 3, 3], g: bf16[2, 128, 6, 7]) {
  x: bf16[2, 128, 6, 7], y: bf16[128, 8, 3, 3], z: bf16[128] = aten::convolution_backward(g, a, w, [128], [1, 1], [1, 1], [1, 1], false, [0, 0], 16, [true, true, true])
  return x, y, z
})"},
    {"gradients_of_strides_on_tensor_cores", R"(
graph(a: bf16[2, 3, 20, 21], w: bf16[16, 3, 7, 7], v: bf16[72, 16, 1, 1], u: bf16[8, 72, 3, 2], g: bf16[2, 8, 2, 3]) {
  y: bf16[2, 16, 10, 11] = aten::conv2d(a, w, none, [2, 2], [3, 3])
  z: bf16[2, 72, 5, 6] = aten::conv2d(y, v, none, [2, 2], [0, 0])
  dz: bf16[2, 72, 5, 6], du: bf16[8, 72, 3, 2], db: bf16[8] = aten::convolution_backward(g, z, u, [8], [3, 2], [1, 0], [1, 1], false, [0, 0], 1, [true, true, true])
  dy: bf16[2, 16, 10, 11], dv: bf16[72, 16, 1, 1], dc: bf16[72] = aten::convolution_backward(dz, y, v, [72], [2, 2], [0, 0], [1, 1], false, [0, 0], 1, [true, true, true])
  da: bf16[2, 3, 20, 21], dw: bf16[16, 3, 7, 7], de: bf16[16] = aten::convolution_backward(dy, a, w, [16], [2, 2], [3, 3], [1, 1], false, [0, 0], 1, [true, true, true])
  return da, dw, de, dv, dc, du, db
})"},
    {"gradients_of_many_pixels_in_parts",
     R"(
sym s0 in [1, 64] hint 16
graph(a: f16[s0, 16, 300], w: f16[8, 16, 5], g: f16[s0, 8, 298]) {
  p: f16[s0, 16, 300] = aten::relu(a)
  x: f16[s0, 16, 300], v: f16[8, 16, 5], b: f16[8] = aten::convolution_backward(g, p, w, [8], [1], [1], [1], false, [0], 1, [true, true, true])
  return x, v, b
})",
     {{{"s0", 1}}, {{"s0", 5}}}},
    {"one_tap_of_one_channel", R"(
graph(a: f32[2, 4, 3, 3], w: f32[4, 1, 1, 1], b: f32[4]) {
  y: f32[2, 4, 3, 3] = aten::conv2d(a, w, b, [1, 1], [0, 0], [1, 1], 4)
  return y
})"},
    {"integers", R"(
graph(i: i64[1, 2, 5], w: i64[3, 2, 3]) {
  y: i64[1, 3, 5] = aten::conv1d(i, w, none, [1], [1])
  return y
})"},
    {"free_batch_and_size",
     R"(
sym s0 in [1, 16]
sym s1 in [3, 64]
graph(a: f32[s0, 3, s1, 8], w: f32[4, 3, 3, 3], b: f32[4]) {
  y: f32[s0, 4, s1, 8] = aten::conv2d(a, w, b, [1, 1], [1, 1])
  z: f32[s0, 4, s1, 8] = aten::silu(y)
  return z
})",
     {{{"s0", 1}, {"s1", 3}}, {{"s0", 5}, {"s1", 20}}}},
    {"no_elements", R"(
graph(a: f32[0, 3, 5, 5], w: f32[4, 3, 3, 3], b: f32[4]) {
  y: f32[0, 4, 3, 3] = aten::conv2d(a, w, b)
  return y
})"},
    {"chain_of_layouts", R"(
graph(a: f32[2, 3, 12, 12], w: f32[8, 3, 3, 3], b: f32[8], v: f32[8, 8, 3, 3], u: f32[16, 8, 1, 1]) {
  y: f32[2, 8, 6, 6] = aten::conv2d(a, w, b, [2, 2], [1, 1])
  r: f32[2, 8, 6, 6] = aten::relu(y)
  z: f32[2, 8, 6, 6] = aten::conv2d(r, v, none, [1, 1], [1, 1])
  s: f32[2, 8, 6, 6] = aten::add.Tensor(z, r)
  t: f32[2, 8, 6, 6] = aten::relu(s)
  q: f32[2, 16, 6, 6] = aten::conv2d(t, u)
  m: f32[2, 16] = aten::mean.dim(q, [2, 3])
  return m
})"},
};

class ConvolutionOnGpu : public testing::TestWithParam<ProgramCase> {};

TEST_P(ConvolutionOnGpu, ComputesAsTheEvaluator) {
  const CompiledModel model = compiled(GetParam().text, codegen::Target::EmulatedCuda);
  EXPECT_EQ(model.library_calls, 0);
  expect_as_evaluated(GetParam().text, GetParam().calls, 2, codegen::Target::EmulatedCuda);
}

// For GPUs before Hopper and after it, whose tensor cores have mma.sync alone.
TEST(ConvolutionsOnOtherGpus, AreKernelsOfTheProgram) {
  constexpr std::string_view kText = R"(
graph(a: bf16[2, 64, 9, 9], w: bf16[72, 64, 3, 3], b: bf16[72], l: bf16[40, 72]) {
  y: bf16[2, 72, 9, 9] = aten::conv2d(a, w, b, [1, 1], [1, 1])
  r: bf16[2, 72, 9, 9] = aten::relu(y)
  m: bf16[2, 72] = aten::mean.dim(r, [2, 3])
  z: bf16[2, 40] = aten::linear(m, l)
  g: bf16[2, 40] = aten::gelu(z)
  return r, g
})";
  const CompiledModel model = TestSession::get().compile(
      parse_text(kText), {.target = codegen::Target::EmulatedCuda, .architectures = {"sm_80", "sm_100a"}, .keep_program = true});
  EXPECT_EQ(model.library_calls, 0);
  const std::vector<HostTensor> inputs = example_inputs(*model.program);
  const std::vector<HostTensor> expected = evaluate(*model.program, inputs, {}), outputs = model.load(2).run(inputs);
  ASSERT_EQ(outputs.size(), 2U);
  for (size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(difference(outputs[i], expected[i], {.sums_or_products = true}), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Programs, ConvolutionOnGpu, testing::ValuesIn(kConvolutions), [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace toroid
