#include "tune/measure/guarded_tensor.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <fmt/format.h>

#include "base/error_for_test.h"

namespace toroid::tune {
namespace {

OperandMeta meta(std::string_view operand) { return parse_problem(fmt::format("x() -> {}", operand)).outputs[0]; }

TEST(GuardedTensor, IsAlignedAsTheOperandAndNoBetter) {
  for (int64_t alignment : {1, 2, 4, 8, 16, 32, 64}) {
    for (int64_t bytes : {0, 1, 63, 64, 65, 4095, 4096, 4097}) {
      const GuardedTensor tensor(meta(fmt::format("u8[{}]@{}", bytes, alignment)), "tensor");
      const auto address = reinterpret_cast<uintptr_t>(tensor.bytes().data());
      EXPECT_EQ(address % static_cast<uintptr_t>(alignment), 0u);
      const bool is_better = alignment < 64 && address % static_cast<uintptr_t>(2 * alignment) == 0;
      EXPECT_FALSE(is_better) << bytes << " bytes, alignment " << alignment;
      EXPECT_EQ(tensor.bytes().size(), static_cast<size_t>(bytes));
      std::fill(tensor.bytes().begin(), tensor.bytes().end(), std::byte{1});
      EXPECT_EQ(tensor.trespass(), std::nullopt);
    }
  }
}

TEST(GuardedTensor, HoldsWhatStridesReach) {
  const GuardedTensor tensor(meta("f32[3, 4]/[10, 2]"), "tensor");
  EXPECT_EQ(tensor.bytes().size(), 4u * (20 + 6 + 1));
  EXPECT_EQ(tensor.operand().strides[0], 10);
  EXPECT_EQ(tensor.operand().rank, 2);
}

TEST(GuardedTensor, WritingBesideItShows) {
  const GuardedTensor tensor(meta("u8[100]"), "output 3");
  tensor.bytes().data()[100] = std::byte{0};
  EXPECT_EQ(tensor.trespass(), "wrote beyond the end of output 3");
  tensor.bytes().data()[100] = std::byte{0xa5};
  tensor.bytes().data()[-1] = std::byte{0};
  EXPECT_EQ(tensor.trespass(), "wrote before output 3");
}

TEST(GuardedTensor, RandomElementsDependOnTheSeedAlone) {
  GuardedTensor a(meta("f32[1000]"), "a"), b(meta("f32[1000]"), "b");
  a.fill_random(1);
  b.fill_random(1);
  EXPECT_TRUE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin()));
  b.fill_random(2);
  EXPECT_FALSE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin()));
  const auto* values = reinterpret_cast<const float*>(a.bytes().data());
  EXPECT_GE(*std::min_element(values, values + 1000), -1.0f);
  EXPECT_LT(*std::max_element(values, values + 1000), 1.0f);
  EXPECT_LT(*std::min_element(values, values + 1000), -0.9f);
  EXPECT_GT(*std::max_element(values, values + 1000), 0.9f);
}

TEST(GuardedTensor, MoreThanThereIsIsAnError) {
  EXPECT_EQ(error_of([] { GuardedTensor(meta("u8[4000000000000000000]"), "input 1"); }).report(),
            "error: cannot allocate 4000000000000000000 bytes for input 1\n  help: close other programs, or tune on a larger machine");
}

// Accesses a byte at this offset from the tensor's first, as a kernel would.
void access(GuardedTensor& tensor, ptrdiff_t offset, bool write) {
  report_bad_accesses();
  volatile std::byte& place = tensor.bytes().data()[offset];
  if (write) {
    place = std::byte{0};
  } else {
    [[maybe_unused]] const std::byte read = place;
  }
}

TEST(GuardedTensorDeathTest, BadAccessesEndTheProcessAndAreNamed) {
  GuardedTensor tensor(meta("u8[4096]"), "input 1");
  EXPECT_EXIT(access(tensor, 4096, false), testing::KilledBySignal(SIGSEGV), "accessed memory 0 bytes beyond the end of input 1");
  EXPECT_EXIT(access(tensor, 4096 + 77, true), testing::KilledBySignal(SIGSEGV), "accessed memory 77 bytes beyond the end of input 1");
  EXPECT_EXIT(access(tensor, -4097, false), testing::KilledBySignal(SIGSEGV), "accessed memory 4097 bytes before input 1");
  tensor.forbid_writing();
  EXPECT_EXIT(access(tensor, 5, true), testing::KilledBySignal(SIGSEGV), "wrote to input 1");
}

}  // namespace
}  // namespace toroid::tune
