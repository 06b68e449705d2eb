// Quotients are the rounded ones: compiled code divides a row by one number without dividing each element.
#include <bit>
#include <cstring>
#include <random>

#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

constexpr size_t kDivisionRows = 512, kDivisionColumns = 1003;

// Bits at random: numbers of all sizes, denormals, infinities and NaN among them. `narrow`: exponents from -30 to 29.
HostTensor random_bits(std::vector<int64_t> sizes, uint64_t seed, bool narrow) {
  std::mt19937_64 generator(seed);
  HostTensor result(DType::F32, std::move(sizes));
  float* out = result.mutable_data<float>();
  for (int64_t i = 0; i < result.numel(); ++i) {
    auto bits = static_cast<uint32_t>(generator());
    if (narrow) bits = (bits & 0x807fffffu) | (97 + (bits >> 23) % 60) << 23;
    out[i] = std::bit_cast<float>(bits);
  }
  return result;
}

void expect_exact_quotients(bool narrow) {
  const CompiledModel model = compiled(R"(
graph(x: f32[512, 1003], s: f32[512, 1]) {
  q: f32[512, 1003] = aten::div.Tensor(x, s)
  return q
})");
  Executable executable = model.load(2);
  const HostTensor x = random_bits({kDivisionRows, kDivisionColumns}, 1, narrow), s = random_bits({kDivisionRows, 1}, 2, narrow);
  const HostTensor result = executable.run(std::vector<HostTensor>{x, s})[0];
  const auto* dividends = reinterpret_cast<const float*>(x.bytes().data());
  const auto* divisors = reinterpret_cast<const float*>(s.bytes().data());
  const auto* quotients = reinterpret_cast<const float*>(result.bytes().data());
  size_t differ = 0;
  for (size_t i = 0; i < kDivisionRows * kDivisionColumns; ++i) {
    const float expected = dividends[i] / divisors[i / kDivisionColumns];
    const bool same = expected != expected ? quotients[i] != quotients[i] : std::memcmp(&expected, &quotients[i], sizeof expected) == 0;
    if (!same && differ++ == 0)
      ADD_FAILURE() << dividends[i] << " / " << divisors[i / kDivisionColumns] << " is " << expected << ", not " << quotients[i];
  }
  EXPECT_EQ(differ, 0u);
}

TEST(Division, OfARowByOneNumberIsExact) { expect_exact_quotients(true); }
TEST(Division, OfARowByOneNumberIsExactForNumbersOfAnySize) { expect_exact_quotients(false); }

}  // namespace
}  // namespace toroid
