// Losses of tensors of several dtypes, as PyTorch 2.15 gives them.
#include "passes/decompose/engine/operator_cases.h"

namespace toroid {
namespace {

const OperatorCase kLosses[] = {
    // The exponential and the logarithm of integers are F32, whatever the result is.
    {"aten::poisson_nll_loss(x0, x1, true, false, 1e-8, 0)",
     {"i64[3] = [1, 2, 0]", "f16[3] = [0.5, 1, 2]"},
     {"f32[3] = [2.2182817, 5.389056, 1]"}},
    {"aten::poisson_nll_loss(x0, x1, false, true, 1e-8, 0)",
     {"i64[3] = [1, 2, 0]", "f64[3] = [0.5, 1, 2]"},
     {"f64[3] = [1, 1.3068528175354004, 37.493168484116254]"}},
    {"aten::poisson_nll_loss(x0, x1, false, false, 1e-8, 0)", {"f16[3] = [0, 1, 2]", "i64[3] = [1, 2, 0]"}, {"f16[3] = [inf, 1, 2]"}},
    {"aten::cosine_embedding_loss(x0, x1, x2, reduction=0)",
     {"i64[2, 2] = [1, 2, 3, 4]", "f16[2, 2] = [1, 0.5, 0, 2]", "i64[2] = [1, -1]"},
     {"f32[2] = [0.2, 0.8]"}},
    {"aten::cosine_similarity(x0, x1)",
     {"i64[2, 2] = [1, 2, 3, 4]", "f16[2, 2] = [1, 0.5, 0, 2]"},
     {"f16[2] = [0.80029296875, 0.7998046875]"}},
    // What the model records: PyTorch's kernel gives the first one's dtype, its tracer that of both.
    {"aten::huber_loss(x0, x1, 0, 1.0)", {"f16[3] = [1, 2, 0.5]", "f32[3] = [0, 0, 0]"}, {"f16[3] = [0.5, 1.5, 0.125]"}},
    {"aten::huber_loss(x0, x1, 0, 1.0)", {"f16[3] = [1, 2, 0.5]", "f32[3] = [0, 0, 0]"}, {"f32[3] = [0.5, 1.5, 0.125]"}},
    {"aten::soft_margin_loss(x0, x1)", {"f32[2] = [0, 0]", "f64[2] = [1, -1]"}, {"f32[] = [0.6931472]"}},
    {"aten::soft_margin_loss(x0, x1)", {"f32[2] = [0, 0]", "f64[2] = [1, -1]"}, {"f64[] = [0.6931471805599453]"}},
    // Integers stay integers, and those of eight bits wrap around.
    {"aten::hinge_embedding_loss(x0, x1, 2.5, 0)", {"u8[3] = [1, 2, 3]", "i64[3] = [1, -1, -1]"}, {"u8[3] = [1, 0, 255]"}},
    {"aten::hinge_embedding_loss(x0, x1, 2.5, 2)", {"u8[3] = [1, 2, 3]", "bool[3] = [true, false, true]"}, {"i64[] = [6]"}},
    {"aten::margin_ranking_loss(x0, x1, x2, 0.0, 0)",
     {"u8[3] = [1, 2, 3]", "u8[3] = [3, 2, 1]", "f32[3] = [-0.5, -1, -2]"},
     {"f32[3] = [127, 0, 4]"}},
    {"aten::l1_loss(x0, x1, 0)", {"u8[3] = [1, 2, 3]", "u8[3] = [3, 2, 1]"}, {"u8[3] = [254, 0, 2]"}},
    {"aten::l1_loss(x0, x1, 2)", {"i64[3] = [1, 2, 0]", "i64[3] = [0, 2, 1]"}, {"i64[] = [2]"}},
    {"aten::kl_div(x0, x1, 0)",
     {"f32[3] = [0.5, 1, 2]", "f64[3] = [0.5, 1, 2]"},
     {"f64[3] = [-0.5965735902799727, -1, -2.613705638880109]"}},
    {"aten::triplet_margin_loss(x0, x1, x2)",
     {"u8[2, 2] = [1, 2, 3, 4]", "u8[2, 2] = [3, 4, 1, 2]", "u8[2, 2] = [5, 5, 5, 5]"},
     {"f32[] = [1.5603027]"}},
};

class Losses : public testing::TestWithParam<OperatorCase> {};
TEST_P(Losses, ArePyTorchs) { check(GetParam()); }
INSTANTIATE_TEST_SUITE_P(OfSeveralDtypes, Losses, testing::ValuesIn(kLosses));

}  // namespace
}  // namespace toroid
