#include "runtime/cuda/communication/peer_copies.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/file/file.h"
#include "library/branch_calls.h"
#include "library/collectives/collectives.h"
#include "runtime/cuda/device.h"

namespace toroid::cuda {
namespace {

using collectives::Group;

// CUipcMemHandle, CUstreamBatchMemOpParams.
struct MemoryHandle {
  std::array<char, 64> bytes;
};
enum class WordOperation : uint32_t { Wait = 1, Write = 2 };
struct WordStep {
  WordOperation operation;
  uint32_t padding;
  Address word;
  uint64_t value;
  uint32_t flags, more_padding;
  uint64_t unused[2];
};
static_assert(sizeof(WordStep) == 48);
constexpr uint32_t kUntilEqual = 1;

// clang-format off
#define TOROID_PEER_FUNCTIONS(F)                                                              \
  F(allocate, "cuMemAlloc_v2", Result(Address*, size_t))                                      \
  F(free, "cuMemFree_v2", Result(Address))                                                    \
  F(give, "cuIpcGetMemHandle", Result(MemoryHandle*, Address))                                \
  F(open, "cuIpcOpenMemHandle_v2", Result(Address*, MemoryHandle, unsigned))                  \
  F(close, "cuIpcCloseMemHandle", Result(Address))                                            \
  F(work_on_words, "cuStreamBatchMemOp_v2", Result(StreamHandle, unsigned, WordStep*, unsigned))
// clang-format on

struct PeerFunctions {
  TOROID_LIBRARY_FUNCTIONS(TOROID_PEER_FUNCTIONS)
  bool is_known = false;
};

const PeerFunctions& peer() {
  static const PeerFunctions functions = [] {
    PeerFunctions found;
    if (vendor() != Vendor::Nvidia) return found;
    try {
      found.look_up(nvidia_library());
      found.is_known = true;
    } catch (const Error&) {  // an old driver
    }
    return found;
  }();
  return functions;
}

// What the processes tell each other. GPUs of one machine have the same start of its system.
struct Offer {
  bool is_able;
  std::array<char, 40> machine;
  MemoryHandle handle;
};

WordStep write(Address word, uint64_t value) { return {WordOperation::Write, 0, word, value, 0, 0, {}}; }
WordStep wait_for(Address word, uint64_t value) { return {WordOperation::Wait, 0, word, value, kUntilEqual, 0, {}}; }

// What is read where it came gives its slot back two operations later, with two lanes (program/streams/lanes.h).
constexpr size_t kSlots = 4, kWordBytes = 64;

// One thread, for which there is room beside other kernels' blocks: marks the other process's word, waits for the own one, and clears it.
// Operations of streams on words would take longer: such a write stands behind all copies that are under way.
constexpr char kMeet[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry toroid_meet(.param .u64 theirs, .param .u64 own) {
  .reg .u64 %there, %here;
  .reg .u32 %word;
  .reg .pred %waits;
  ld.param.u64 %there, [theirs];
  ld.param.u64 %here, [own];
  st.release.sys.global.u32 [%there], 1;
again:
  ld.acquire.sys.global.u32 %word, [%here];
  setp.eq.u32 %waits, %word, 0;
  @%waits bra again;
  st.relaxed.sys.global.u32 [%here], 0;
  ret;
}
)";

// The kernel on the device that is current; none where the driver does not compile it.
class Meeting {
 public:
  Meeting() {
    if (driver().module_load(&module_, kMeet) != 0) module_ = nullptr;
    if (module_ != nullptr && driver().module_function(&function_, module_, "toroid_meet") != 0) function_ = nullptr;
  }
  ~Meeting() {
    if (module_ != nullptr) driver().module_unload(module_);
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  bool is_there() const { return function_ != nullptr; }
  void start(Address theirs, Address own, StreamHandle stream) const {
    void* arguments[] = {&theirs, &own};
    const LaunchConfiguration how = {{1, 1, 1}, {1, 1, 1}, 0, stream, nullptr, 0};
    check(driver().launch(&how, function_, arguments, nullptr), "swapping with another process");
  }

 private:
  ModuleHandle module_ = nullptr;
  FunctionHandle function_ = nullptr;
};

}  // namespace

class PeerCopies::Mailbox {
 public:
  Mailbox(const Group& group, size_t slot_bytes) : slot_bytes_(slot_bytes) {
    Offer own{};
    own.is_able = peer().is_known && make(own.handle);
    start_of_file("/proc/sys/kernel/random/boot_id").copy(own.machine.data(), own.machine.size());
    std::array<Offer, 2> all;
    const auto gather = [&] { group.all_gather(bytes_of(own), bytes_of(all), sizeof(Offer)); };
    gather();
    const Offer& other = all[static_cast<size_t>(collectives::other_of(group))];
    constexpr unsigned kLazily = 1;  // what of the peer's access is set up: the only one there is
    own.is_able = all[0].is_able && all[1].is_able && all[0].machine == all[1].machine && peer().open(&theirs_, other.handle, kLazily) == 0;
    gather();
    is_usable_ = all[0].is_able && all[1].is_able;
  }

  // What the other process may still write to is not given back: where that has ended without having taken what was sent.
  ~Mailbox() {
    for (const auto& [number, lane] : lanes_) {
      if (lane.stream != nullptr) driver().stream_synchronize(lane.stream);
      driver().stream_synchronize(lane.beside.handle());
    }
    if (theirs_ != 0) peer().close(theirs_);
    if (mine_ != 0 && (!is_usable_ || all_is_free())) peer().free(mine_);
  }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  bool is_usable() const { return is_usable_; }

  // What a call that failed has begun is forgotten.
  void begin_call() {
    turn_ = 0;
    for (auto& [number, lane] : lanes_) lane.is_open = lane.has_taken = false;
  }

  void end_call(StreamHandle stream) {
    for (auto& [number, lane] : lanes_) {
      if (!std::exchange(lane.is_open, false)) continue;
      lane.here.record(stream);
      lane.here.hold(lane.beside.handle());
      give_back(lane);
      lane.there.record(lane.beside.handle());
      lane.there.hold(stream);
    }
  }

  const void* swap(const Swap& what, StreamHandle stream) {
    const size_t slot = turn_++ % kSlots;
    Lane& lane = lanes_[what.lane];
    const StreamHandle beside = lane.beside.handle();
    lane.here.record(stream);
    if (!std::exchange(lane.is_open, true)) lane.here.hold(beside);
    work(beside, wait_for(is_free(mine_, slot), 1), write(is_free(mine_, slot), 0));
    lane.there.record(beside);
    lane.there.hold(stream);
    copy(theirs_ + slot * slot_bytes_, address_of(what.from), what.bytes, stream);
    if (meeting_.is_there()) {
      meeting_.start(is_full(theirs_, slot), is_full(mine_, slot), stream);
    } else {
      work(stream, write(is_full(theirs_, slot), 1), wait_for(is_full(mine_, slot), 1), write(is_full(mine_, slot), 0));
    }
    lane.stream = stream;
    const Address own = mine_ + slot * slot_bytes_;
    if (lane.has_taken || !what.stays) {
      if (!what.stays) {
        copy(address_of(what.to), own, what.bytes, stream);
        lane.here.record(stream);
      }
      lane.here.hold(beside);
      give_back(lane);
      if (!what.stays) work(beside, write(is_free(theirs_, slot), 1));
    }
    if (!what.stays) return what.to;
    lane.taken = slot;
    lane.has_taken = true;
    return reinterpret_cast<const void*>(own);
  }

 private:
  template <class T>
  static std::byte* bytes_of(T& value) {
    return reinterpret_cast<std::byte*>(&value);
  }

  // Of the swaps of one lane.
  struct Lane {
    Stream beside;                  // waits for free slots, and gives them back
    Event here, there;              // on the lane's stream, on the one beside
    StreamHandle stream = nullptr;  // the latest
    bool is_open = false;           // since the call began
    bool has_taken = false;
    size_t taken = 0;  // the slot that kernels read, if so
  };

  template <class... Steps>
  static void work(StreamHandle stream, Steps... steps) {
    std::array<WordStep, sizeof...(steps)> list = {steps...};
    check(peer().work_on_words(stream, static_cast<unsigned>(list.size()), list.data(), 0), "swapping with another process");
  }
  static void copy(Address to, Address from, size_t bytes, StreamHandle stream) {
    check(driver().copy_within(to, from, bytes, stream), "swapping with another process");
  }
  void give_back(Lane& lane) const {
    if (std::exchange(lane.has_taken, false)) work(lane.beside.handle(), write(is_free(theirs_, lane.taken), 1));
  }

  // Words, which stand behind the slots: of the other process's slot, whether it is free; of the own one, whether it is full.
  Address is_free(Address mailbox, size_t slot) const { return mailbox + kSlots * slot_bytes_ + slot * kWordBytes; }
  Address is_full(Address mailbox, size_t slot) const { return is_free(mailbox, kSlots + slot); }

  bool make(MemoryHandle& handle) {
    std::array<char, 2 * kSlots * kWordBytes> words{};
    for (size_t slot = 0; slot < kSlots; ++slot) words[slot * kWordBytes] = 1;
    if (peer().allocate(&mine_, kSlots * slot_bytes_ + words.size()) != 0) return false;
    // A stream of its own: the program's may be captured from.
    const Stream own;
    copy_in(own, reinterpret_cast<void*>(is_free(mine_, 0)), words.data(), words.size());
    own.synchronize();
    return peer().give(&handle, mine_) == 0;
  }

  // False, too, where nothing can be asked any more: the context is lost.
  bool all_is_free() const {
    try {
      return becomes_free();
    } catch (const Error&) {
      return false;
    }
  }

  bool becomes_free() const {
    const Stream own;
    std::array<char, kSlots * kWordBytes> words{};
    for (int attempt = 0; attempt < 1000; ++attempt) {
      copy_out(own, words.data(), reinterpret_cast<void*>(is_free(mine_, 0)), words.size());
      own.synchronize();
      bool all = true;
      for (size_t slot = 0; slot < kSlots; ++slot) all = all && words[slot * kWordBytes] == 1;
      if (all) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  const size_t slot_bytes_;
  Address mine_ = 0, theirs_ = 0;  // theirs: the other process's mailbox
  size_t turn_ = 0;
  std::map<int64_t, Lane> lanes_;
  Meeting meeting_;
  bool is_usable_ = false;
};

PeerCopies::PeerCopies(bool is_used) : is_used_(is_used) {}
PeerCopies::~PeerCopies() = default;

void PeerCopies::begin_call() {
  for (auto& [key, mailbox] : mailboxes_) mailbox->begin_call();
}

void PeerCopies::end_call(StreamHandle stream) {
  for (auto& [key, mailbox] : mailboxes_) mailbox->end_call(stream);
}

const void* PeerCopies::swap(const Group& group, const Swap& what, StreamHandle stream) {
  // Processes that a host has brought together may have no MPI to find each other by.
  if (!is_used_ || group.nccl() != nullptr) return nullptr;
  const size_t slot = slot_bytes(what.bytes);
  std::unique_ptr<Mailbox>& mailbox = mailboxes_[{&group, slot}];
  if (mailbox == nullptr) mailbox = std::make_unique<Mailbox>(group, slot);
  return mailbox->is_usable() ? mailbox->swap(what, stream) : nullptr;
}

}  // namespace toroid::cuda
