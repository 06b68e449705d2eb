// Norms and condition numbers of matrices against PyTorch 2.11's, where there is no inverse.
#include "passes/decompose/engine/operator_cases.h"

namespace toroid {
namespace {

const OperatorCase kConditions[] = {
    {"aten::linalg_cond(x0, 1)", {"f32[3, 2, 2] = [0, 0, 0, 0, 1, 2, 2, 4, 1, 2, 3, 4]"}, {"f32[3] = [inf, inf, 21]"}},
    {"aten::linalg_cond(x0, -inf)", {"f32[2, 2] = [1, 2, 2, 4]"}, {"f32[] = [inf]"}},
    {"aten::linalg_cond(x0, inf)", {"f32[2, 2] = [nan, 1, 1, 2]"}, {"f32[] = [inf]"}},
    {"aten::linalg_cond.p_str(x0, \"fro\")", {"f32[2, 2, 2] = [0, 0, 0, 0, 1, 0, 0, 1]"}, {"f32[2] = [inf, 2]"}},
    {"aten::linalg_cond.p_str(x0, \"nuc\")", {"f32[2, 2, 2] = [0, 0, 0, 0, 2, 0, 0, 1]"}, {"f32[2] = [nan, 4.5]"}},
    {"aten::linalg_cond(x0)", {"f32[2, 2, 2] = [0, 0, 0, 0, 2, 0, 0, 1]"}, {"f32[2] = [nan, 2]"}},
};

class Conditions : public testing::TestWithParam<OperatorCase> {};
TEST_P(Conditions, ArePyTorchs) { check(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Rows, Conditions, testing::ValuesIn(kConditions));

}  // namespace
}  // namespace toroid
