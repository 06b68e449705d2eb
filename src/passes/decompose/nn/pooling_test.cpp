// Pools of NaN, against PyTorch's results: of several in a window the last one is where the maximum is. The samples have none.
#include "passes/decompose/engine/operator_cases.h"

namespace toroid {
namespace {

constexpr const char* kWithNan = "f32[1, 4, 4] = [1, nan, 3, 4, nan, 2, 7, -1, 5, 6, nan, nan, 8, 9, 0, nan]";
const OperatorCase kPools[] = {
    {"aten::max_pool2d_with_indices(x0, [2, 2])", {kWithNan}, {"f32[1, 2, 2] = [nan, 7, 9, nan]", "i64[1, 2, 2] = [4, 6, 13, 15]"}},
    {"aten::adaptive_max_pool2d(x0, [2, 2])", {kWithNan}, {"f32[1, 2, 2] = [nan, 7, 9, nan]", "i64[1, 2, 2] = [4, 6, 13, 15]"}},
    {"aten::fractional_max_pool2d(x0, [2, 2], [2, 2], x1)",
     {kWithNan, "f32[1, 1, 2] = [0.5, 0.5]"},
     {"f32[1, 2, 2] = [nan, 7, 9, nan]", "i64[1, 2, 2] = [4, 6, 13, 15]"}},
    {"aten::max_pool2d_with_indices(x0, [1, 2])", {"i64[1, 1, 4] = [3, 3, 1, 2]"}, {"i64[1, 1, 2] = [3, 2]", "i64[1, 1, 2] = [0, 3]"}},
};

class Pools : public testing::TestWithParam<OperatorCase> {};
TEST_P(Pools, ArePyTorchs) { check(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Decompose, Pools, testing::ValuesIn(kPools));

}  // namespace
}  // namespace toroid
