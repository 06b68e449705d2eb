// Numbers that kernels round to bfloat16, bit for bit: the instruction for it takes what is not normal as 0.
#include <cstring>
#include <iterator>
#include <limits>
#include <vector>

#include "base/float16.h"
#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

TEST(RoundedToBFloat16, WhatIsNotNormalStays) {
  const CompiledModel model = compiled("graph(x: f32[100]) {\n  y: bf16[100] = aten::to.dtype(x, dtype=dtype.bf16)\n  return y\n}\n");
  HostTensor x = example_input("x", DType::F32, {100});
  const float numbers[] = {1e-39f,
                           -3e-40f,
                           1e-45f,
                           0x1p-126f,
                           -0x1p-127f,
                           0.0f,
                           -0.0f,
                           0x1.01p0f,
                           0x1.03p0f,
                           std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::max(),
                           0x1.fffffep-127f};
  // A vector without any, others with one or several, and what fills no vector.
  std::vector<float> values(100);
  std::memcpy(values.data(), x.bytes().data(), x.bytes().size());
  for (size_t i = 16; i < values.size(); i += i < 48 ? 16 : 3) values[i] = numbers[i % std::size(numbers)];
  std::memcpy(x.mutable_data<float>(), values.data(), x.bytes().size());
  const std::vector<HostTensor> y = model.load(1).run({&x, 1});
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, y[0].bytes().data() + i * sizeof bits, sizeof bits);
    EXPECT_EQ(bits, BFloat16(values[i]).bits) << values[i];
  }
}

}  // namespace
}  // namespace toroid
