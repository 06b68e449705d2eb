// PyTorch's primitive operators, against its own results.
#include "passes/decompose/engine/operator_cases.h"

namespace toroid {
namespace {

const OperatorCase kPointwisePrims[] = {
    {"prims::div(x0, x1)", {"i64[3] = [-7, 7, 5]", "i64[3] = [2, -2, 3]"}, {"i64[3] = [-3, -3, 1]"}},
    {"prims::div(x0, x1)",
     {"f32[3] = [-1.5, 0.25, -1.25]", "f32[3] = [4.25, 6, 4.5]"},
     {"f32[3] = [-0.352941185, 0.0416666679, -0.277777791]"}},
    {"prims::cbrt(x0)", {"f32[3] = [-8, 0, 27]"}, {"f32[3] = [-2, 0, 3]"}},
    {"prims::remainder(x0, x1)", {"i64[3] = [-7, 7, 5]", "i64[3] = [2, -2, 3]"}, {"i64[3] = [1, -1, 2]"}},
    {"prims::shift_right_arithmetic(x0, x1)", {"i64[3] = [-7, 7, 5]", "i64[3] = [1, 1, 1]"}, {"i64[3] = [-4, 3, 2]"}},
    {"prims::signbit(x0)", {"f32[3] = [-0, 1, -2]"}, {"bool[3] = [true, false, true]"}},
    {"prims::frexp(x0)", {"f32[2] = [6, -0.75]"}, {"f32[2] = [0.75, -0.75]", "i32[2] = [3, 0]"}},
    {"prims::erfcx(x0)", {"f32[1] = [0.5]"}, {"f32[1] = [0.615690231]"}},
    {"prims::zeta(x0, x1)", {"f32[1] = [2]", "f32[1] = [1.5]"}, {"f32[1] = [0.934802175]"}},
    {"prims::convert_element_type(x0, dtype.i32)", {"f32[2] = [1.75, -2.5]"}, {"i32[2] = [1, -2]"}},
    {"prims::where(x0, x1, x2)", {"bool[2] = [true, false]", "f32[2] = [1, 2]", "f32[2] = [3, 4]"}, {"f32[2] = [1, 4]"}},
};

// An empty list of dims reduces nothing.
const OperatorCase kReductionPrims[] = {
    {"prims::amax(x0, [1])", {"f32[2, 3] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75]"}, {"f32[2] = [0.25, 0.75]"}},
    {"prims::sum(x0, [0, 1])", {"f32[2, 3] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75]"}, {"f32[] = [-2.25]"}},
    {"prims::sum(x0, [])", {"f32[2, 3] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75]"}, {"f32[2, 3] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75]"}},
    {"prims::sum(x0, none)", {"f32[2, 3] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75]"}, {"f32[] = [-2.25]"}},
    {"prims::prod(x0, [0])", {"f32[2, 3] = [0.5, 2.25, 0.75, 2.5, 1, 2.75]"}, {"f32[3] = [1.25, 2.25, 2.0625]"}},
    {"prims::var(x0, [1], 1.0)", {"f32[2, 3] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75]"}, {"f32[2] = [0.895833313, 0.895833313]"}},
    {"prims::var(x0, [0], 0.0)", {"f32[2, 3] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75]"}, {"f32[3] = [1, 0.390625, 1]"}},
};

const OperatorCase kViewPrims[] = {
    {"prims::broadcast_in_dim(x0, [2, 3], [0])", {"f32[2] = [1, 2]"}, {"f32[2, 3] = [1, 1, 1, 2, 2, 2]"}},
    {"prims::broadcast_in_dim(x0, [2, 2], [1])", {"f32[2] = [1, 2]"}, {"f32[2, 2] = [1, 2, 1, 2]"}},
    {"prims::collapse_view(x0, 0, 1)",
     {"f32[2, 1, 3] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75]"},
     {"f32[2, 3] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75]"}},
    {"prims::split_dim(x0, 0, 2)", {"i64[6] = [0, 1, 2, 3, 4, 5]"}, {"i64[2, 3] = [0, 1, 2, 3, 4, 5]"}},
    {"prims::squeeze(x0, [0, 2])", {"f32[1, 2, 1] = [-1.5, 0.25]"}, {"f32[2] = [-1.5, 0.25]"}},
    {"prims::transpose(x0, [1, 0])",
     {"f32[2, 3] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75]"},
     {"f32[3, 2] = [-1.5, 0.5, 0.25, -1, -1.25, 0.75]"}},
    {"prims::rev(x0, [0])", {"i64[3] = [0, 1, 2]"}, {"i64[3] = [2, 1, 0]"}},
};

class Prims : public testing::TestWithParam<OperatorCase> {};
TEST_P(Prims, ArePyTorchs) { check(GetParam()); }
INSTANTIATE_TEST_SUITE_P(PointwisePrims, Prims, testing::ValuesIn(kPointwisePrims));
INSTANTIATE_TEST_SUITE_P(ReductionPrims, Prims, testing::ValuesIn(kReductionPrims));
INSTANTIATE_TEST_SUITE_P(ViewPrims, Prims, testing::ValuesIn(kViewPrims));

}  // namespace
}  // namespace toroid
