#include "passes/decompose/engine/operator_cases.h"

namespace toroid {
namespace {

const OperatorCase kPointwise[] = {
    // Numbers and tensors of other dtypes are rounded to float16 first.
    {"aten::fmod.Scalar(x0, 0.1)", {"f16[3] = [1, -2, 3]"}, {"f16[3] = [0.000244140625, -0.00048828125, 0.000732421875]"}},
    {"aten::remainder.Scalar(x0, 0.1)", {"f16[2] = [1, 3]"}, {"f16[2] = [0.000244140625, 0.000732421875]"}},
    {"aten::fmod.Tensor(x0, x1)", {"f16[1] = [1]", "f32[] = [0.1]"}, {"f16[1] = [0.000244140625]"}},
    {"aten::rsub.Scalar(x0, -1.7)", {"f16[1] = [-2]"}, {"f16[1] = [0.2998046875]"}},
    {"aten::add.Scalar(x0, 300)", {"u8[2] = [1, 255]"}, {"u8[2] = [45, 43]"}},
    // A bound that the dtype cannot reach is none.
    {"aten::clamp(x0, -3, 300)", {"u8[2] = [1, 200]"}, {"u8[2] = [1, 200]"}},
    {"aten::clamp_min(x0, -1)", {"u8[2] = [1, 200]"}, {"u8[2] = [1, 200]"}},
    {"aten::clamp(x0, 5, -3)", {"i8[2] = [1, 100]"}, {"i8[2] = [-3, -3]"}},
    {"aten::bitwise_right_shift.Tensor_Scalar(x0, -1)", {"u8[2] = [255, 7]"}, {"u8[2] = [0, 0]"}},
    {"aten::bitwise_right_shift.Tensor_Scalar(x0, 300)", {"i8[2] = [-100, 7]"}, {"i8[2] = [-1, 0]"}},
    {"aten::masked_fill.Scalar(x0, x0, 2)", {"bool[2] = [true, false]"}, {"bool[2] = [true, false]"}},
    {"aten::index_fill.int_Scalar(x0, 0, x1, 5)", {"bool[3] = [false, true, false]", "i64[1] = [0]"}, {"bool[3] = [true, true, false]"}},
    {"aten::full_like(x0, 2)", {"bool[2] = [false, false]"}, {"bool[2] = [true, true]"}},
    {"aten::fill.Scalar(x0, 2)", {"bool[2] = [false, false]"}, {"bool[2] = [true, true]"}},
    {"aten::scatter.value(x0, 0, x1, 7)", {"u8[2] = [1, 2]", "i64[1] = [1]"}, {"u8[2] = [1, 7]"}},
    // Numbers beside bfloat16 are rounded to it.
    {"aten::clamp(x0, 0.1)", {"bf16[3] = [-1, 0.25, 2]"}, {"bf16[3] = [0.10009765625, 0.25, 2]"}},
    {"aten::masked_fill.Scalar(x0, x1, 0.1)", {"bf16[2] = [-1, 0.25]", "bool[2] = [false, true]"}, {"bf16[2] = [-1, 0.10009765625]"}},
    {"aten::full_like(x0, 0.1)", {"bf16[1] = [0]"}, {"bf16[1] = [0.10009765625]"}},
    {"aten::fill.Scalar(x0, 0.1)", {"bf16[1] = [0]"}, {"bf16[1] = [0.10009765625]"}},
    {"aten::where.ScalarOther(x1, x0, 0.1)", {"bf16[2] = [-1, 0.25]", "bool[2] = [true, false]"}, {"bf16[2] = [-1, 0.10009765625]"}},
    {"aten::constant_pad_nd(x0, [1, 0], 1.7)", {"i64[1] = [5]"}, {"i64[2] = [1, 5]"}},
    {"aten::ldexp.Tensor(x0, x1)", {"f16[3] = [1024, 0.5, 1]", "i64[3] = [-25, 16, 20]"}, {"f16[3] = [3.0517578125e-05, 32768, inf]"}},
    {"aten::ldexp.Tensor(x0, x1)", {"f32[1] = [1]", "f16[1] = [-1.4267578125]"}, {"f32[1] = [0.3720703125]"}},
    {"aten::ldexp.Tensor(x0, x1)", {"f32[2] = [1e-30, 0]", "i64[2] = [200, 2000]"}, {"f32[2] = [1.606938e+30, 0]"}},
    {"aten::ldexp.Tensor(x0, x1)", {"i64[1] = [3]", "i64[1] = [-1]"}, {"f32[1] = [1.5]"}},
    {"aten::gelu(x0, approximate=\"tanh\")", {"f64[1] = [-5.42]"}, {"f64[1] = [-1.1058200719788458e-08]"}},
    {"aten::add.Tensor(x0, x1, alpha=2)", {"f32[2] = [1, 2]", "f32[] = [3]"}, {"f32[2] = [7, 8]"}},
    {"aten::add.Tensor(x0, x1)", {"bool[2] = [true, false]", "bool[2] = [true, false]"}, {"bool[2] = [true, false]"}},
    {"aten::add.Scalar(x0, 0.5)", {"i64[2] = [1, 2]"}, {"f32[2] = [1.5, 2.5]"}},            // a number of a higher class decides
    {"aten::mul.Tensor(x0, x1)", {"f32[2] = [1, 2]", "f64[] = [3]"}, {"f32[2] = [3, 6]"}},  // rank 0 gives way
    {"aten::rsub.Scalar(x0, 1, 3)", {"i64[2] = [1, 2]"}, {"i64[2] = [-2, -5]"}},
    {"aten::div.Tensor(x0, x1)", {"i64[2] = [1, -7]", "i64[2] = [2, 2]"}, {"f32[2] = [0.5, -3.5]"}},
    {"aten::div.Tensor_mode(x0, x1, rounding_mode=\"floor\")", {"i64[2] = [1, -7]", "i64[2] = [2, 2]"}, {"i64[2] = [0, -4]"}},
    {"aten::div.Tensor_mode(x0, x1, rounding_mode=\"trunc\")", {"i64[2] = [1, -7]", "i64[2] = [2, 2]"}, {"i64[2] = [0, -3]"}},
    {"aten::remainder.Scalar(x0, 3)", {"i64[2] = [-7, 7]"}, {"i64[2] = [2, 1]"}},
    {"aten::remainder.Scalar_Tensor(7, x0)", {"f32[3] = [-inf, inf, 2]"}, {"f32[3] = [-inf, 7, 1]"}},
    {"aten::fmod.Scalar(x0, 3)", {"i64[2] = [-7, 7]"}, {"i64[2] = [-1, 1]"}},
    {"aten::pow.Tensor_Scalar(x0, 2)", {"bool[2] = [true, false]"}, {"i64[2] = [1, 0]"}},
    {"aten::pow.Tensor_Scalar(x0, 0.5)", {"f32[2] = [4, -1]"}, {"f32[2] = [2, nan]"}},
    {"aten::pow.Scalar(2, x0)", {"i64[3] = [0, 3, 10]"}, {"i64[3] = [1, 8, 1024]"}},
    {"aten::float_power.Tensor_Scalar(x0, 2)", {"i64[2] = [3, -4]"}, {"f64[2] = [9, 16]"}},
    {"aten::lerp.Scalar(x0, x1, 0.25)", {"f32[2] = [0, 4]", "f32[2] = [4, 8]"}, {"f32[2] = [1, 5]"}},
    {"aten::addcmul(x0, x1, x2, value=2)", {"f32[1] = [1]", "f32[1] = [3]", "f32[1] = [5]"}, {"f32[1] = [31]"}},
    {"aten::lcm(x0, x1)", {"i8[3] = [-127, 16, -128]", "i8[3] = [16, 13, 3]"}, {"i8[3] = [-16, -48, -128]"}},
    // A pixel beyond a filter's window does not meet it.
    {"aten::_upsample_bilinear2d_aa(x0, [1, 3], false)",
     {"f32[1, 1, 1, 8] = [1, 2, 3, 4, 5, 6, 7, inf]"},
     {"f32[1, 1, 1, 3] = [2.1052632, 4.5, inf]"}},
    {"aten::hardtanh(x0, -3, 5)", {"u8[4] = [0, 2, 7, 255]"}, {"u8[4] = [0, 2, 5, 5]"}},
    {"aten::lcm(x0, x1)", {"i64[3] = [4, 0, -6]", "i64[3] = [6, 0, 4]"}, {"i64[3] = [12, 0, 12]"}},
    {"aten::heaviside(x0, x1)", {"f32[4] = [-1, 0, 2, nan]", "f32[] = [0.5]"}, {"f32[4] = [0, 0.5, 1, 0]"}},
    // A lower bound above the upper one: the upper one wins. NaN stays.
    {"aten::clamp(x0, 3, 2)", {"f32[3] = [1, 5, nan]"}, {"f32[3] = [2, 2, nan]"}},
    {"aten::clamp(x0, min=1.5)", {"i64[2] = [1, 5]"}, {"f32[2] = [1.5, 5]"}},
    {"aten::maximum(x0, x1)", {"f32[3] = [1, nan, 3]", "f32[3] = [2, 1, nan]"}, {"f32[3] = [2, nan, nan]"}},
    {"aten::fmax(x0, x1)", {"f32[3] = [1, nan, 3]", "f32[3] = [2, 1, nan]"}, {"f32[3] = [2, 1, 3]"}},
    {"aten::where.ScalarOther(x0, x1, 0)", {"bool[2] = [true, false]", "f32[2] = [5, 6]"}, {"f32[2] = [5, 0]"}},
    {"aten::eq.Scalar(x0, 2)", {"i64[3] = [1, 2, 3]"}, {"bool[3] = [false, true, false]"}},
    {"aten::isclose(x0, x1)", {"f32[3] = [1, inf, inf]", "f32[3] = [1.000001, inf, 5]"}, {"bool[3] = [true, true, false]"}},
    {"aten::nan_to_num(x0, 7)", {"f32[3] = [nan, inf, 1]"}, {"f32[3] = [7, 3.4028234663852886e+38, 1]"}},
    {"aten::isfinite(x0)", {"f32[3] = [1, inf, nan]"}, {"bool[3] = [true, false, false]"}},
    {"aten::__lshift__.Scalar(x0, 3)", {"i64[2] = [1, -2]"}, {"i64[2] = [8, -16]"}},
    {"aten::logical_xor(x0, x1)", {"f32[2] = [0, 2]", "f32[2] = [1, 3]"}, {"bool[2] = [true, false]"}},
    {"aten::round.decimals(x0, decimals=1)", {"f32[2] = [1.26, -1.74]"}, {"f32[2] = [1.3, -1.7]"}},
    {"aten::round(x0)", {"f32[4] = [0.5, 1.5, 2.5, -0.5]"}, {"f32[4] = [0, 2, 2, -0.0]"}},
    {"aten::frexp.Tensor(x0)", {"f32[4] = [1, -6, 0, 1e-40]"}, {"f32[4] = [0.5, -0.75, 0, 0.5444517]", "i32[4] = [1, 3, 0, -132]"}},
    {"aten::exp(x0)", {"i64[2] = [0, 1]"}, {"f32[2] = [1, 2.7182818]"}},
    {"aten::xlogy.Tensor(x0, x1)", {"f32[3] = [0, 0, 2]", "f32[3] = [-1, nan, 1]"}, {"f32[3] = [0, nan, 0]"}},
    {"aten::logaddexp(x0, x1)", {"f32[2] = [1000, -inf]", "f32[2] = [1000, -inf]"}, {"f32[2] = [1000.6931, -inf]"}},
    {"aten::polygamma(1, x0)", {"f32[2] = [1, 0.5]"}, {"f32[2] = [1.6449341, 4.9348022]"}},
    {"aten::mvlgamma(x0, 2)", {"f32[1] = [2]"}, {"f32[1] = [0.4515827]"}},
    {"aten::sinc(x0)", {"f32[2] = [0, 0.5]"}, {"f32[2] = [1, 0.63661977]"}},
    {"aten::special_legendre_polynomial_p.n_scalar(x0, 2)", {"f32[2] = [0.5, 2]"}, {"f32[2] = [-0.125, 5.5]"}},
    {"aten::special_shifted_chebyshev_polynomial_t(x0, x1)", {"f32[1] = [0.75]", "f32[1] = [2]"}, {"f32[1] = [-0.5]"}},
};

class PointwiseDecompositions : public testing::TestWithParam<OperatorCase> {};
TEST_P(PointwiseDecompositions, IsPyTorchs) { check(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Rows, PointwiseDecompositions, testing::ValuesIn(kPointwise));

const OperatorCase kActivations[] = {
    {"aten::relu(x0)", {"f32[3] = [-1, 2, nan]"}, {"f32[3] = [0, 2, nan]"}},
    {"aten::gelu(x0)", {"f32[2] = [1, -1]"}, {"f32[2] = [0.8413447, -0.15865526]"}},
    {"aten::gelu(x0, approximate=\"tanh\")", {"f32[2] = [1, -1]"}, {"f32[2] = [0.841192, -0.158808]"}},
    {"aten::silu(x0)", {"f32[2] = [0, 1]"}, {"f32[2] = [0, 0.7310586]"}},
    {"aten::softplus(x0)", {"f32[2] = [0, 100]"}, {"f32[2] = [0.6931472, 100]"}},
    {"aten::elu(x0, 2)", {"f32[2] = [1, -1]"}, {"f32[2] = [1, -1.2642411]"}},
    {"aten::leaky_relu(x0, 0.1)", {"f32[2] = [1, -1]"}, {"f32[2] = [1, -0.1]"}},
    {"aten::hardswish(x0)", {"f32[3] = [-4, 1, 4]"}, {"f32[3] = [0, 0.6666667, 4]"}},
    {"aten::hardshrink(x0)", {"f32[3] = [-1, 0.25, 0.5]"}, {"f32[3] = [-1, 0, 0]"}},
    {"aten::softshrink(x0)", {"f32[3] = [-1, 0.25, 2]"}, {"f32[3] = [-0.5, 0, 1.5]"}},
    {"aten::prelu(x0, x1)", {"f32[1, 2] = [-1, -1]", "f32[2] = [0.5, 0.25]"}, {"f32[1, 2] = [-0.5, -0.25]"}},
    {"aten::glu(x0)", {"f32[4] = [1, 2, 0, 0]"}, {"f32[2] = [0.5, 1]"}},
    {"aten::threshold(x0, 1, 9)", {"f32[3] = [1, 2, nan]"}, {"f32[3] = [9, 2, nan]"}},
    // Steps in between are F32: BF16 could not tell 1 + 2^-9 from 1.
    {"aten::log_sigmoid(x0)", {"bf16[1] = [6]"}, {"bf16[1] = [-0.00247568]"}},
};

class Activations : public testing::TestWithParam<OperatorCase> {};
TEST_P(Activations, ArePyTorchs) { check(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Rows, Activations, testing::ValuesIn(kActivations));

}  // namespace
}  // namespace toroid
