// Arguments that PyTorch refuses: the words of the errors. tests/hostile/ tries all operators, without the words.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "graph/text/text.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

Error error_of_program(std::string_view inputs, std::string_view call) {
  const std::string text = fmt::format("graph({}) {{\n  out: f32[] = {}\n  return out\n}}\n", inputs, call);
  return error_of([&] {
    Program program = parse_text(text);
    decompose(program);
  });
}

struct HostileCase {
  std::string_view inputs, call, message;
};

TEST(HostileArguments, AreNamedInTheUsersTerms) {
  const HostileCase cases[] = {
      // ranks
      {"x: f32[]", "aten::slice.Tensor(x, 0, 0, 1)", "argument 'self' (f32[]) has no dim 0"},
      {"x: f32[]", "aten::select.int(x, 0, 0)", "argument 'self' (f32[]) has no dim 0"},
      {"x: f32[2], y: f32[]", "aten::dot(x, y)", "argument 'tensor' (f32[]) has no dim 0"},
      {"x: f32[1]", "aten::upsample_nearest2d.vec(x, [8, 8], none)", "argument 'input' (f32[1]) has too few dims: 2 are needed"},
      {"x: f32[2, 3]", "aten::linalg_inv(x)", "linalg.inv: sizes 2 and 3 of f32[2, 3] differ, but must be equal"},
      // lists
      {"x: f32[2]", "aten::_foreach_addcmul.Scalar([x, x], [], [x, x])",
       "argument 'tensor1' of aten::_foreach_addcmul.Scalar has 0 entries, fewer than the list beside it"},
      {"x: f32[2]", "aten::_foreach_add.List([x, x], [x])",
       "argument 'other' of aten::_foreach_add.List has 1 entries, fewer than the list beside it"},
      {"x: f32[2]",
       "aten::_fused_adamw([x, x], [x], [x, x], [x, x], [], [x, x], lr=0.1, beta1=0.9, beta2=0.9, weight_decay=0.0, eps=0.1, "
       "amsgrad=false, "
       "maximize=false)",
       "argument 'grads' of aten::_fused_adamw has 1 tensors, the list beside it 2"},
      {"x: f32[1, 4, 4]", "aten::avg_pool2d(x, [2, 2, 2])", "argument 'kernel_size' of aten::avg_pool2d has 3 numbers, not 2"},
      {"x: f32[2]", "aten::stack([])", "an operator that joins tensors got an empty list"},
      // None
      {"x: f32[2]", "aten::add.Tensor(x, none)", "argument 'other' of aten::add.Tensor is none, not a tensor"},
      {"x: f32[2]", "aten::stack([x, none])", "argument 'tensors' of aten::stack is [%0, none], not a list of tensors without gaps"},
      // dtypes
      {"x: f32[2]", "aten::bitwise_and.Tensor(x, x)", "bit_and is not defined on f32"},
      {"x: f32[2]", "aten::to.dtype(x, dtype.f8e4m3fnuz)", "aten::to.dtype would need a tensor of f8e4m3fnuz, which is not computed with"},
      {"x: u64[2], y: i32[2]", "aten::add.Tensor(x, y)", "u64 and i32 have no common dtype"},
      {"x: i32[2]", "aten::hardtanh(x, -1e300, 5)", "a bound of -1e+300 for integers"},
      // memory
      {"x: f32[1, 3, 2, 2] strides [12, 1, 6, 3]", "aten::resize(x, [12])",
       "resize of what does not lie in row-major order, or to another memory format"},
      {"x: f32[1, 3, 2, 2]", "aten::resize(x, [1, 2, 2, 3], memory_format=format.channels_last)",
       "resize of what does not lie in row-major order, or to another memory format"},
      {"x: f32[4], y: f32[2, 2] strides [1, 2]", "aten::resize_as(x, y)",
       "resize of what does not lie in row-major order, or to another memory format"},
      // sizes
      {"x: f32[4]", "aten::zeros([2, -3])", "aten::zeros would need a tensor of shape [2, -3], where a size is negative"},
      {"x: f32[4]", "aten::unfold(x, 0, 7, 1)", "aten::unfold would need a tensor of shape [-2, 7], where a size is negative"},
      {"x: f32[1, 1, 4, 4]", "aten::upsample_nearest2d(x, [8, -9223372036854775808])",
       "resampling a dim of 4 elements to -9223372036854775808"},
      {"x: f32[1, 1, 4]", "aten::upsample_linear1d_backward(x, [-7], [1, 1, 4], false)", "resampling a dim of 4 elements to -7"},
      {"x: f32[4]", "aten::histogram.bin_ct(x, 9223372036854775807)", "a histogram of 9223372036854775807 bins"},
      {"x: f32[2, 3]", "aten::unfold_backward(x, [5], 0, 4, 2)", "the number of unfolded windows: sizes 2 and 1 do not agree"},
      {"x: f32[2, 3]", "aten::unfold_backward(x, [5], 0, 2, 3)", "the size of unfolded windows: sizes 3 and 2 do not agree"},
      {"x: f32[2]", "aten::unfold_backward(x, [5], 0, 4, 2)", "the gradient of an unfolded tensor of rank 1 has rank 1"},
      {"x: f32[2, 3]", "aten::topk(x, 7)", "aten::topk over a dim of 3 elements: 'k' is 7"},
      {"x: f32[2, 3]", "aten::kthvalue(x, 0)", "aten::kthvalue over a dim of 3 elements: 'k' is 0"},
      {"x: f32[1, 1, 4, 4], w: f32[1, 1, 1, 1]", "aten::conv2d(x, w, stride=[0, 0])", "a convolution's stride is 0, but must be 1 or more"},
      {"x: f32[1, 1, 4, 4], w: f32[1, 1, 1, 1]", "aten::conv2d(x, w, groups=0)", "a convolution of 0 groups with weights f32[1, 1, 1, 1]"},
      {"x: f32[4, 4]", "aten::hsplit.int(x, 0)", "a split into 0 sections"},
  };
  for (const HostileCase& each : cases) {
    const Error error = error_of_program(each.inputs, each.call);
    EXPECT_EQ(error.message(), each.message) << each.call;
    EXPECT_NE(error.kind(), ErrorKind::Internal) << each.call;
  }
}

TEST(HostileArguments, SizesBeyondAnyMachineAreRefusedBeforeWork) {
  const HostileCase cases[] = {
      {"x: f32[1, 1, 4, 4]", "aten::_adaptive_avg_pool2d(x, [4611686018427387904, 4611686018427387904])",
       "aten::_adaptive_avg_pool2d would need a tensor f32[1, 1, 4611686018427387904, 4611686018427387904, 1, 1], more than "
       "140737488355328 "
       "bytes"},
      {"x: f32[4]", "aten::eye(1099511627776)",
       "aten::eye would need a tensor i64[1099511627776, 1099511627776], more than 140737488355328 bytes"},
      {"x: f32[4, 4]", "aten::vsplit.int(x, 2147483648)", "2147483648 sections are more than one operator may take (131072)"},
      {"x: f32[4]", "aten::triu_indices(65536, 65536)", "a table of 4294967296 elements or more, which would be a constant of the program"},
      {"x: f32[64]", "aten::combinations(x, 32)", "a table of 4194336 elements or more, which would be a constant of the program"},
      {"x: f32[4]", "aten::arange(9223372036854775807)", "integer overflow in size arithmetic: 9223372036854775807 + 1"},
      {"x: f32[4]", "aten::special_legendre_polynomial_p.n_scalar(x, 1e300)",
       "aten::special_legendre_polynomial_p.n_scalar of degree 1e+300: 65536 is the most"},
  };
  for (const HostileCase& each : cases) EXPECT_EQ(error_of_program(each.inputs, each.call).message(), each.message) << each.call;
}

// What its formula reads of the gradient is what the convolution gave.
TEST(HostileArguments, AConvolutionsGradientHasItsResultsSizes) {
  const auto refused = [](std::string_view grad, std::string_view stride, std::string_view transposed, std::string_view words) {
    const std::string inputs = fmt::format("g: {}, x: f32[2, 3, 8], w: f32[{}, 5]", grad, transposed == "true" ? "3, 4" : "4, 3");
    const std::string call =
        fmt::format("aten::convolution_backward(g, x, w, [4], {}, [0], [1], {}, [0], 1, [true, true, true])", stride, transposed);
    EXPECT_EQ(error_of_program(inputs, call).message(), words) << call;
  };
  refused("f32[2, 4, 4]", "[2]", "false", "size 2 of the convolution's gradient: sizes 4 and 2 do not agree");
  refused("f32[2, 3, 2]", "[2]", "false", "size 1 of the convolution's gradient: sizes 3 and 4 do not agree");
  refused("f32[1, 4, 2]", "[2]", "false", "size 0 of the convolution's gradient: sizes 1 and 2 do not agree");
  refused("f32[2, 4, 8]", "[2]", "true", "size 2 of the convolution's gradient: sizes 8 and 19 do not agree");
  refused("f32[2, 4]", "[2]", "false",
          "the gradient of a convolution takes tensors of one rank, 3 or more: argument 'grad_output' (f32[2, 4]), argument 'input' "
          "(f32[2, 3, 8]) "
          "and argument 'weight' (f32[4, 3, 5])");
  refused("f32[2, 4, 2]", "[2, 2]", "false", "a list of 2 entries for 1 spatial dims");
  refused("f32[2, 4, 1]", "[0]", "false", "a convolution's stride is 0, but must be 1 or more");
}

TEST(HostileArguments, TheOperatorIsShownWithItsArguments) {
  const Error error = error_of_program("x: f32[]", "aten::slice.Tensor(x, 0, 0, 1)");
  EXPECT_EQ(error.report(),
            "error: argument 'self' (f32[]) has no dim 0\n"
            "  while computing aten::slice.Tensor(self: f32[], dim: 0, start: 0, end: 1, step: 1)\n"
            "  while compiling node 'out' (aten::slice.Tensor)");
}

// Windows of adaptive pooling differ in length by one or two; the longest decides the shape of the view.
TEST(HostileArguments, LargeAdaptiveWindowsAreCountedAtOnce) {
  Program program =
      parse_text("graph(x: f32[1, 1000003]) {\n  y: f32[1, 1048576] = aten::adaptive_avg_pool1d(x, [1048576])\n  return y\n}\n");
  EXPECT_NO_THROW(decompose(program));
}

}  // namespace
}  // namespace toroid
