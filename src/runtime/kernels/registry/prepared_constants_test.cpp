#include "runtime/kernels/registry/prepared_constants.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/kernels/registry/implementations_for_test.h"
#include "runtime/kernels/registry/operands_for_test.h"

namespace toroid {
namespace {

struct Rows {
  int64_t rows, stride;
  bool operator==(const Rows&) const = default;
};
struct Columns {
  int64_t columns, stride;
  bool operator==(const Columns&) const = default;
};

TEST(PreparedConstants, AreMadeOnceOfEachConstantAndLayout) {
  PreparedConstants prepared;
  const float constants[2] = {};
  int made = 0;
  auto get = [&](const float& constant, const auto& layout) {
    return prepared.get(&constant, layout, 4, [&](float* to) { to[0] = static_cast<float>(++made); });
  };
  const float* const first = get(constants[0], Rows{2, 3});
  EXPECT_EQ(get(constants[0], Rows{2, 3}), first);
  EXPECT_EQ(made, 1);
  EXPECT_NE(get(constants[0], Rows{2, 4}), first);
  EXPECT_NE(get(constants[1], Rows{2, 3}), first);
  EXPECT_EQ(made, 3);
  EXPECT_EQ(*first, 1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  EXPECT_EQ(prepared.bytes(), int64_t{3 * 4 * sizeof(float)});
}

TEST(PreparedConstants, LayoutsOfTwoTypesAreApart) {
  PreparedConstants prepared;
  const float constant = 0;
  const float* const rows = prepared.get(&constant, Rows{2, 3}, 1, [](float* to) { *to = 1; });
  const float* const columns = prepared.get(&constant, Columns{2, 3}, 1, [](float* to) { *to = 2; });
  EXPECT_EQ(*rows, 1);
  EXPECT_EQ(*columns, 2);
}

// One call site's plan packs what another's has packed alike: in every family of products, any implementation's second plan adds nothing.
TEST(PreparedConstants, PlansShareWhatTheyPackAlike) {
  RuntimePool pool(2);
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    const HostTensor a = random_tensor(dtype, {5, 40}, 1), b = random_tensor(dtype, {40, 24}, 2);
    HostTensor c(dtype, {5, 24});
    c.mutable_data<std::byte>();
    Operands operands;
    ToroidOperand inputs[] = {operands.of(a), operands.of(b)};
    inputs[1].is_constant = 1;
    const ToroidOperand output = operands.of(c);
    for_each_implementation(std::string("matmul.") + std::string(to_string(dtype)), {pool, inputs, {&output, 1}, {}, {}},
                            [&](const Implementation& implementation) {
                              PreparedConstants prepared;
                              const KernelCall call = {pool, inputs, {&output, 1}, {}, {}, nullptr, &prepared};
                              implementation.plan(call)->run(call);
                              const int64_t bytes = prepared.bytes();
                              const std::vector<std::byte> first(c.bytes().begin(), c.bytes().end());
                              implementation.plan(call)->run(call);
                              EXPECT_EQ(prepared.bytes(), bytes) << implementation.name;
                              EXPECT_TRUE(std::equal(first.begin(), first.end(), c.bytes().begin())) << implementation.name;
                            });
  }
}

}  // namespace
}  // namespace toroid
