#include "runtime/cuda/communication/nccl.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file/system_library.h"
#include "library/collectives/collectives.h"
#include "library/collectives/mpi.h"
#include "tensor/host_tensor.h"

namespace toroid::cuda {
namespace {

using collectives::Group;
using collectives::Reduction;
using NcclStatus = int;
using Communicator = void*;

// nccl.h's.
struct UniqueId {
  std::array<char, 128> bytes;
};

// clang-format off
#define TOROID_NCCL_FUNCTIONS(F)                                                                     \
  F(unique_id, "ncclGetUniqueId", NcclStatus(UniqueId*))                                                 \
  F(init_rank, "ncclCommInitRank", NcclStatus(Communicator*, int, UniqueId, int))                        \
  F(error_string, "ncclGetErrorString", const char*(NcclStatus))                                         \
  F(group_start, "ncclGroupStart", NcclStatus())                                                         \
  F(group_end, "ncclGroupEnd", NcclStatus())                                                             \
  F(all_reduce, "ncclAllReduce", NcclStatus(const void*, void*, size_t, int, int, Communicator, StreamHandle)) \
  F(all_gather, "ncclAllGather", NcclStatus(const void*, void*, size_t, int, Communicator, StreamHandle)) \
  F(reduce_scatter, "ncclReduceScatter", NcclStatus(const void*, void*, size_t, int, int, Communicator, StreamHandle)) \
  F(broadcast, "ncclBroadcast", NcclStatus(const void*, void*, size_t, int, int, Communicator, StreamHandle)) \
  F(send, "ncclSend", NcclStatus(const void*, size_t, int, int, Communicator, StreamHandle))             \
  F(receive, "ncclRecv", NcclStatus(void*, size_t, int, int, Communicator, StreamHandle))
// clang-format on

struct NcclFunctions {
  TOROID_LIBRARY_FUNCTIONS(TOROID_NCCL_FUNCTIONS)
};

NcclFunctions look_up_nccl() {
  // AMD's RCCL has the same functions.
  const bool is_amd = vendor() == Vendor::Amd;
  static const SystemLibrary library =
      is_amd ? SystemLibrary("RCCL", "TOROID_RCCL", {"librccl.so.1"}) : SystemLibrary("NCCL", "TOROID_NCCL", {"libnccl.so.2"});
  library.require(is_amd ? "programs of several GPUs need it: install ROCm's rccl, or name the file in TOROID_RCCL"
                         : "programs of several GPUs need it: install NVIDIA's libnccl2, or name the file in TOROID_NCCL");
  NcclFunctions functions;
  functions.look_up(library);
  return functions;
}

const NcclFunctions& nccl() {
  static const NcclFunctions functions = look_up_nccl();
  return functions;
}

void check_nccl(NcclStatus status, const char* what) {
  if (status != 0) throw Error(ErrorKind::Environment, formatted("NCCL fails {}: {}", what, nccl().error_string(status)));
}

constexpr int kNcclBytes = 1;  // ncclUint8

std::optional<int> nccl_type(DType dtype) {
  switch (dtype) {
    case DType::I8: return 0;
    case DType::U8: return 1;
    case DType::I32: return 2;
    case DType::U32: return 3;
    case DType::I64: return 4;
    case DType::U64: return 5;
    case DType::F16: return 6;
    case DType::F32: return 7;
    case DType::F64: return 8;
    case DType::BF16: return 9;
    default: return std::nullopt;
  }
}
std::optional<int> nccl_operation(Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum: return 0;
    case Reduction::Product: return 1;
    case Reduction::Largest: return 2;
    case Reduction::Least: return 3;
    case Reduction::Average: return 4;
    default: return std::nullopt;
  }
}

// The GPU with that number, which is this thread's, among those of the group. A host's own is of whatever GPU it says.
Communicator communicator_of(const Group& group, int device) {
  if (group.nccl() != nullptr) return group.nccl();
  static std::mutex mutex;
  static std::map<std::pair<const Group*, int>, Communicator> all;
  const std::lock_guard<std::mutex> lock(mutex);
  Communicator& made = all[{&group, device}];
  if (made == nullptr) {
    UniqueId id{};
    if (group.rank() == 0) check_nccl(nccl().unique_id(&id), "to name a group");
    group.broadcast(0, reinterpret_cast<std::byte*>(id.bytes.data()), static_cast<int64_t>(id.bytes.size()));
    check_nccl(nccl().init_rank(&made, static_cast<int>(group.size()), id, static_cast<int>(group.rank())), "to start a group");
  }
  return made;
}

Span<const int64_t> sizes_of(const ToroidOperand& operand) { return {operand.sizes, static_cast<size_t>(operand.rank)}; }

class Collective {
 public:
  Collective(const ToroidLibraryCall& call, const Communication& where)
      : call_(call),
        where_(where),
        stream_(where.stream),
        from_(static_cast<const char*>(call.inputs[0].data)),
        to_(static_cast<char*>(call.outputs[0].data)),
        dtype_(static_cast<DType>(call.inputs[0].dtype)),
        sizes_(sizes_of(call.inputs[0])),
        bytes_(static_cast<size_t>(bytes_of(dtype_, sizes_))) {}

  bool start(std::string_view name) const {
    if (name == "all_reduce") return reduce(nccl().all_reduce, numel(sizes_));
    if (name == "reduce_scatter") return reduce(nccl().reduce_scatter, numel(sizes_of(call_.outputs[0])));
    if (name == "all_gather") {
      const Communicator all = communicator(0);
      check_nccl(nccl().all_gather(from_, to_, bytes_, kNcclBytes, all, stream_), "to gather");
    } else if (name == "broadcast") {
      const Group& group = collectives::group_of(attributes(), 1);
      const auto source = static_cast<int>(collectives::source_of(attributes(), group));
      const Communicator all = communicator(group);
      check_nccl(nccl().broadcast(from_, to_, bytes_, kNcclBytes, source, all, stream_), "to broadcast");
    } else if (name == "swap") {
      swap();
    } else {
      exchange();
    }
    return true;
  }

 private:
  Span<const double> attributes() const { return {call_.numbers, static_cast<size_t>(call_.num_numbers)}; }

  Communicator communicator(const Group& group) const {
    where_.in_order();
    return communicator_of(group, where_.device.number());
  }
  Communicator communicator(size_t group_at) const { return communicator(collectives::group_of(attributes(), group_at)); }

  bool reduce(NcclFunctions::all_reduce_t* function, int64_t elements) const {
    const std::optional<int> type = nccl_type(dtype_), operation = nccl_operation(static_cast<Reduction>(call_.numbers[0]));
    if (!type || !operation) return false;
    const Communicator all = communicator(1);
    check_nccl(function(from_, to_, static_cast<size_t>(elements), *type, *operation, all, stream_), "to reduce");
    return true;
  }

  void exchange() const {
    const collectives::Exchange parts(attributes());
    const Group& group = collectives::group_of(attributes(), parts.group_at);
    const Communicator all = communicator(group);
    parts.check(group);
    const auto row = static_cast<size_t>(bytes_of(dtype_, sizes_.subspan(1)));
    check_nccl(nccl().group_start(), "to exchange");
    size_t sent = 0, received = 0;
    for (size_t process = 0; process < parts.sent.size(); ++process) {
      const auto to = static_cast<size_t>(parts.sent[process]) * row, from = static_cast<size_t>(parts.received[process]) * row;
      check_nccl(nccl().send(from_ + sent, to, kNcclBytes, static_cast<int>(process), all, stream_), "to send");
      check_nccl(nccl().receive(to_ + received, from, kNcclBytes, static_cast<int>(process), all, stream_), "to receive");
      sent += to, received += from;
    }
    check_nccl(nccl().group_end(), "to exchange");
  }

  void swap() const {
    const Group& group = collectives::group_of(attributes(), 0);
    const auto other = static_cast<int>(collectives::other_of(group));
    *where_.swapped = to_;
    if (bytes_ == 0) return;
    if (const void* at = where_.peers.swap(group, {from_, to_, bytes_, where_.lane, where_.stays}, stream_)) {
      *where_.swapped = at;
      return;
    }
    const Communicator all = communicator(group);
    check_nccl(nccl().group_start(), "to swap");
    check_nccl(nccl().send(from_, bytes_, kNcclBytes, other, all, stream_), "to send");
    check_nccl(nccl().receive(to_, bytes_, kNcclBytes, other, all, stream_), "to receive");
    check_nccl(nccl().group_end(), "to swap");
  }

  const ToroidLibraryCall& call_;
  const Communication& where_;
  StreamHandle stream_;
  const char* from_;
  char* to_;
  DType dtype_;
  Span<const int64_t> sizes_;
  size_t bytes_;
};

}  // namespace

bool communicate(const ToroidLibraryCall& call, const Communication& where) {
  constexpr std::string_view kPrefix = "library.collectives.";
  const std::string_view name = call.name;
  if (name.substr(0, kPrefix.size()) != kPrefix) return false;
  return Collective(call, where).start(name.substr(kPrefix.size()));
}

}  // namespace toroid::cuda
