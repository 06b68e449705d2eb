// Swaps of two processes by mailboxes, on a driver that is played (tests/gpu/fake_gpu.c): what comes is what the other one has sent in the
// same operation, whatever stands where it came, one by one and in graphs.
#include "runtime/cuda/communication/peer_copies.h"

#include <array>

#include "collectives/ranks_for_test.h"
#include "library/collectives/collectives.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/graph.h"

namespace toroid::cuda {
namespace {

constexpr size_t kBytes = 1 << 10;

// The lane of each operation; where it is negative, what comes there is copied out.
struct Call {
  std::vector<int> lanes;
};

uint32_t content(int rank, int call, size_t operation) {
  return static_cast<uint32_t>(1000000 * (rank + 1) + 1000 * call + static_cast<int>(operation));
}

void swap_all(int rank, const Call& call, int calls, bool as_graph) {
  const Device& device = Device::get(rank);
  const OnDevice here(device);
  const Stream own;
  std::vector<Stream> lanes(5);
  PeerCopies peers(true);
  const std::array<double, 2> attributes = {2, static_cast<double>(rank)};
  const collectives::Group& group = collectives::group_of(attributes, 0);
  const size_t operations = call.lanes.size();
  const Memory sent(own, kBytes * operations), kept(own, kBytes * operations), copied(own, kBytes * operations);
  const auto at = [](const Memory& memory, size_t i) { return static_cast<char*>(memory.data()) + i * kBytes; };
  const Event fork, join;
  const auto start = [&] {
    peers.begin_call();
    fork.record(own.handle());
    for (const Stream& lane : lanes) fork.hold(lane.handle());
    // What is read where it came is read before the lane's next operation, and as late as that.
    std::vector<std::pair<size_t, const void*>> late(lanes.size());
    const auto read = [&](size_t lane) {
      const auto [operation, from] = std::exchange(late[lane], {0, nullptr});
      if (from != nullptr) copy_within(lanes[lane], at(kept, operation), from, kBytes);
    };
    for (size_t i = 0; i < operations; ++i) {
      const auto lane = static_cast<size_t>(std::abs(call.lanes[i]));
      const bool stays = call.lanes[i] > 0;
      read(lane);
      const void* const found =
          peers.swap(group, {at(sent, i), at(copied, i), kBytes, static_cast<int64_t>(lane), stays}, lanes[lane].handle());
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found == at(copied, i), !stays);
      late[lane] = {i, found};
    }
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      read(lane);
      join.record(lanes[lane].handle());
      join.hold(own.handle());
    }
    peers.end_call(own.handle());
  };
  Graph graph;
  for (int number = 0; number < calls; ++number) {
    std::vector<uint32_t> words(kBytes / sizeof(uint32_t) * operations);
    for (size_t i = 0; i < words.size(); ++i) words[i] = content(rank, number, i / (kBytes / sizeof(uint32_t)));
    copy_in(own, sent.data(), words.data(), kBytes * operations);
    if (as_graph && number == 1) graph.capture(own, start);
    as_graph&& number > 0 ? graph.launch(own.handle()) : start();
    own.synchronize();
    copy_out(own, words.data(), kept.data(), kBytes * operations);
    for (size_t i = 0; i < words.size(); ++i) {
      const size_t operation = i / (kBytes / sizeof(uint32_t));
      ASSERT_EQ(words[i], content(1 - rank, number, operation)) << "operation " << operation << " of call " << number;
    }
  }
  start();  // and nobody waits for it
}

// Which processes have the kernel by which they meet. Others have operations of streams on words.
enum class Meets : uint8_t { None, Both, TheFirst };
class Swaps : public testing::TestWithParam<std::tuple<bool, Meets>> {};

TEST_P(Swaps, BringWhatTheOtherProcessSends) {
  const Call in_turns = {{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}};
  const Call two = {{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1}};
  const Call mixed = {{0, 1, -2, 1, -2, -1, -2, 0, 0, 0, -2, 1, -1, 2, -1, -2, -1, -1, -1, -1, -1, -1, 1, 2}};
  expect_in_all_ranks(
      [&](int rank) {
        const ScopedVariable driver("TOROID_CUDA_DRIVER", FAKE_GPU), how("FAKE_GPU", "two");
        const auto [as_graph, meets] = GetParam();
        const bool has_kernel = meets == Meets::Both || (meets == Meets::TheFirst && rank == 0);
        if (has_kernel) setenv("FAKE_GPU_MEETS", "1", 1);  // of this process, which is the test's own
        for (const Call& call : {in_turns, two, mixed}) swap_all(rank, call, 4, as_graph);
        // One process has lanes, the other none: operations are in the same order.
        Call alone = two;
        if (rank == 1) std::fill(alone.lanes.begin(), alone.lanes.end(), 0);
        swap_all(rank, alone, 4, as_graph);
        const SystemLibrary played("the driver", "TOROID_CUDA_DRIVER", {FAKE_GPU});
        const std::string launches = played.function<const char*()>("fake_gpu_launches")();
        EXPECT_EQ(launches.find('m') != std::string::npos, has_kernel) << launches;
      },
      2);
}

INSTANTIATE_TEST_SUITE_P(ByKernelsAndWords, Swaps,
                         testing::Combine(testing::Bool(), testing::Values(Meets::None, Meets::Both, Meets::TheFirst)));

}  // namespace
}  // namespace toroid::cuda
