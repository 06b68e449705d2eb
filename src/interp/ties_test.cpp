#include "interp/ties.h"

#include <gtest/gtest.h>

#include "interp/program_for_test.h"

namespace toroid {
namespace {

using Tensors = std::vector<Tensor>;
const TensorType kRows{.dtype = DType::F32, .sizes = {2, 3}};
const HostTensor kTied = f32({2, 3}, {3, 1, 3, 5, 5, 5});

TEST(Ties, ArgmaxMayNameAnyOfTheLargest) {
  const Program program = make_program({kRows}, [](Builder& b, Tensors x) { return b.reduce(ReduceOp::ArgMax, x[0], {1}); });
  const std::vector inputs = {kTied};
  EXPECT_TRUE(point_at_equal_values(program, inputs, 0, i64({2}, {0, 1}), i64({2}, {2, 2})));
  EXPECT_FALSE(point_at_equal_values(program, inputs, 0, i64({2}, {0, 0}), i64({2}, {1, 0})));
  EXPECT_FALSE(point_at_equal_values(program, inputs, 0, i64({2}, {0, 0}), i64({2}, {0, 3})));
}

// topk: the first two of a descending sort.
TEST(Ties, ASortNamesEachElementOnce) {
  const Program program = make_program({kRows}, [](Builder& b, Tensors x) {
    Tensor indices = b.sort(x[0], 1, true, false).second;
    return Tensors{b.transpose(b.slice(indices, 1, 0, 2), 0, 1)};
  });
  const std::vector inputs = {kTied};
  const HostTensor stable = i64({2, 2}, {0, 0, 2, 1});
  EXPECT_TRUE(point_at_equal_values(program, inputs, 0, stable, i64({2, 2}, {2, 2, 0, 0})));
  EXPECT_FALSE(point_at_equal_values(program, inputs, 0, stable, i64({2, 2}, {2, 2, 2, 0})));  // 2 twice
  EXPECT_FALSE(point_at_equal_values(program, inputs, 0, stable, i64({2, 2}, {0, 0, 1, 1})));  // 1 is smaller
}

TEST(Ties, OtherIntegersMustBeEqual) {
  const Program program = make_program({kRows}, [](Builder& b, Tensors x) { return Tensors{b.cast(x[0], DType::I64)}; });
  const std::vector inputs = {kTied};
  EXPECT_FALSE(point_at_equal_values(program, inputs, 0, i64({2, 3}, {3, 1, 3, 5, 5, 5}), i64({2, 3}, {0, 1, 2, 3, 4, 5})));
}

}  // namespace
}  // namespace toroid
