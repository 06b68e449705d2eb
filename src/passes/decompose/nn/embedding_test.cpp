// Bags of embeddings against PyTorch 2.11's on a CPU, with what it keeps for the backward pass: in sum mode no sizes.
#include "passes/decompose/engine/operator_cases.h"

namespace toroid {
namespace {

// A table of four rows; bags of two, none and three indices.
#define TOROID_BAGS \
  { "f32[4, 2] = [1, 2, 3, 4, 5, 6, 7, 8]", "i64[5] = [1, 3, 0, 0, 2]", "i64[3] = [0, 2, 2]" }

const OperatorCase kBags[] = {
    {"aten::_embedding_bag(x0, x1, x2, false, 0, false, none, false, 3)",
     TOROID_BAGS,
     {"f32[3, 2] = [3, 4, 0, 0, 7, 10]", "i64[5] = [0, 0, 2, 2, 2]", "i64[3] = [0, 0, 0]", "i64[3] = [0, 0, 0]"}},
    {"aten::_embedding_bag(x0, x1, x2, false, 1, false, none, false, 3)",
     TOROID_BAGS,
     {"f32[3, 2] = [3, 4, 0, 0, 2.3333333, 3.3333333]", "i64[5] = [0, 0, 2, 2, 2]", "i64[3] = [1, 0, 3]", "i64[3] = [1, 0, 3]"}},
    {"aten::_embedding_bag(x0, x1, x2, false, 2, false, none, false, -1)",
     TOROID_BAGS,
     {"f32[3, 2] = [7, 8, 0, 0, 5, 6]", "i64[5] = [0, 0, 2, 2, 2]", "i64[3] = [2, 0, 3]", "i64[3, 2] = [3, 3, 0, 0, 2, 2]"}},
};

class EmbeddingBags : public testing::TestWithParam<OperatorCase> {};
TEST_P(EmbeddingBags, ArePyTorchs) { check(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Rows, EmbeddingBags, testing::ValuesIn(kBags));

}  // namespace
}  // namespace toroid
