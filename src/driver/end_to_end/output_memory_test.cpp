#include "runtime/program/output_memory.h"

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

HostTensor mebibytes(OutputMemory& memory, int64_t count) { return memory.tensor(DType::U8, {count, static_cast<int64_t>(kMiB)}); }

TEST(OutputMemory, LendsWhatWasDropped) {
  OutputMemory memory;
  const void* first = nullptr;
  {
    HostTensor tensor = mebibytes(memory, 5);
    first = tensor.bytes().data();
    std::memset(tensor.mutable_data<std::byte>(), 1, tensor.bytes().size());
    EXPECT_EQ(memory.kept_bytes(), 0u);
  }
  EXPECT_EQ(memory.kept_bytes(), 5 * kMiB);
  memory.begin_call();
  const HostTensor again = mebibytes(memory, 4), another = mebibytes(memory, 4);  // wasting a quarter of itself at most
  EXPECT_EQ(again.bytes().data(), first);
  EXPECT_NE(another.bytes().data(), first);
  EXPECT_EQ(again.bytes().size(), 4 * kMiB);
}

TEST(OutputMemory, KeepsAsMuchAsOneCallTook) {
  OutputMemory memory;
  std::vector<HostTensor> results;
  for (int call = 0; call < 3; ++call) {
    memory.begin_call();
    for (const int64_t each : {2, 3}) results.push_back(mebibytes(memory, each));
  }
  results.clear();
  EXPECT_EQ(memory.kept_bytes(), 5 * kMiB);
  memory.begin_call();
  results.push_back(mebibytes(memory, 1));  // nothing kept is of that size
  results.clear();
  EXPECT_EQ(memory.kept_bytes(), kMiB);
}

TEST(OutputMemory, LeavesWhatIsSmallToTheAllocator) {
  OutputMemory memory;
  { const HostTensor tensor = memory.tensor(DType::F32, {1000}); }
  { const HostTensor none = memory.tensor(DType::F32, {0, 1 << 30}); }
  EXPECT_EQ(memory.kept_bytes(), 0u);
  EXPECT_THROW(memory.tensor(DType::F64, {int64_t{1} << 61}), Error);
}

TEST(OutputMemory, ResultsOutliveIt) {
  std::optional<OutputMemory> memory(std::in_place);
  HostTensor tensor = mebibytes(*memory, 2);
  memory.reset();
  std::memset(tensor.mutable_data<std::byte>(), 7, tensor.bytes().size());
  EXPECT_EQ(tensor.int_at(2 * static_cast<int64_t>(kMiB) - 1), 7);
}

// Results are dropped on another thread than that of the calls; each has memory of its own, and no more is kept than a call took.
TEST(OutputMemory, TakesBackFromOtherThreads) {
  OutputMemory memory;
  std::atomic<HostTensor*> handed{nullptr};
  std::atomic<bool> is_over{false};
  std::thread dropper([&] {
    while (!is_over || handed != nullptr) delete handed.exchange(nullptr);
  });
  for (int call = 0; call < 300; ++call) {
    memory.begin_call();
    HostTensor kept = mebibytes(memory, 1);
    auto* const dropped = new HostTensor(mebibytes(memory, 2));
    EXPECT_NE(kept.bytes().data(), dropped->bytes().data());
    std::memset(kept.mutable_data<std::byte>(), call % 100, kMiB);
    std::memset(dropped->mutable_data<std::byte>(), 100, kMiB);
    HostTensor* nobody = nullptr;
    while (!handed.compare_exchange_weak(nobody, dropped)) nobody = nullptr;
    EXPECT_EQ(std::to_integer<int>(kept.bytes()[kMiB - 1]), call % 100);
  }
  is_over = true;
  dropper.join();
  EXPECT_LE(memory.kept_bytes(), 3 * kMiB);
}

// A program does not write to results that its caller still has.
TEST(OutputMemory, IsNotSharedByCalls) {
  Executable executable =
      TestSession::get().compile(parse_text("graph(x: f32[1024, 1024]) { y: f32[1024, 1024] = aten::neg(x) return y }"), {}).load(2);
  auto filled = [](float value) {
    HostTensor tensor(DType::F32, {1024, 1024});
    std::fill_n(tensor.mutable_data<float>(), tensor.numel(), value);
    return tensor;
  };
  const HostTensor ones = filled(1), twos = filled(2);
  std::vector<HostTensor> first = executable.run(std::vector{ones}), second = executable.run(std::vector{twos});
  EXPECT_EQ(first[0].double_at(77), -1);
  EXPECT_EQ(second[0].double_at(77), -2);
  const void* place = first[0].bytes().data();
  first.clear();
  EXPECT_EQ(executable.run(std::vector{ones})[0].bytes().data(), place);
  EXPECT_EQ(second[0].double_at(77), -2);
}

}  // namespace
}  // namespace toroid
