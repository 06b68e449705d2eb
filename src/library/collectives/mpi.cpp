#include "library/collectives/mpi.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file/system_library.h"
#include "base/float16.h"
#include "base/format.h"

namespace toroid::collectives {
namespace {

// A handle is an int in MPICH's interface and a pointer in Open MPI's; both pass as this. Where one is returned, the upper bits stay 0.
using Handle = uintptr_t;
using Combine = void(void* from, void* into, int* count, void* type);

// clang-format off
#define TOROID_MPI_FUNCTIONS(F)                                                              \
  F(initialized, "MPI_Initialized", int(int*))                                               \
  F(init_thread, "MPI_Init_thread", int(int*, char***, int, int*))                           \
  F(finalized, "MPI_Finalized", int(int*))                                                   \
  F(finalize, "MPI_Finalize", int())                                                         \
  F(abort, "MPI_Abort", int(Handle, int))                                                    \
  F(error_string, "MPI_Error_string", int(int, char*, int*))                                 \
  F(set_errhandler, "MPI_Comm_set_errhandler", int(Handle, Handle))                          \
  F(comm_size, "MPI_Comm_size", int(Handle, int*))                                           \
  F(comm_rank, "MPI_Comm_rank", int(Handle, int*))                                           \
  F(comm_group, "MPI_Comm_group", int(Handle, Handle*))                                      \
  F(group_incl, "MPI_Group_incl", int(Handle, int, const int*, Handle*))                     \
  F(comm_create_group, "MPI_Comm_create_group", int(Handle, Handle, int, Handle*))           \
  F(type_contiguous, "MPI_Type_contiguous", int(int, Handle, Handle*))                       \
  F(type_commit, "MPI_Type_commit", int(Handle*))                                            \
  F(op_create, "MPI_Op_create", int(Combine*, int, Handle*))                                 \
  F(all_reduce, "MPI_Allreduce", int(const void*, void*, int, Handle, Handle, Handle))       \
  F(reduce, "MPI_Reduce", int(const void*, void*, int, Handle, Handle, int, Handle))         \
  F(reduce_scatter, "MPI_Reduce_scatter_block", int(const void*, void*, int, Handle, Handle, Handle)) \
  F(all_gather, "MPI_Allgather", int(const void*, int, Handle, void*, int, Handle, Handle))  \
  F(all_to_all, "MPI_Alltoallv", int(const void*, const int*, const int*, Handle, void*, const int*, const int*, Handle, Handle)) \
  F(broadcast, "MPI_Bcast", int(void*, int, Handle, int, Handle))
// clang-format on

constexpr int kSerialized = 2;            // MPI_THREAD_SERIALIZED
constexpr int kMostErrorString = 8192;    // more than any library's MPI_MAX_ERROR_STRING
constexpr int64_t kMostAtOnce = 1 << 30;  // elements or bytes of a call, whose counts are int

// ---- what is combined ----
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>, float, T>;

template <Reduction kReduction, class T>
T combined(T a, T b) {
  if constexpr (kReduction == Reduction::Sum || kReduction == Reduction::Product) {
    // Integers wrap around.
    if constexpr (std::is_integral_v<T>) {
      const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
      return static_cast<T>(kReduction == Reduction::Sum ? x + y : x * y);
    } else {
      return kReduction == Reduction::Sum ? a + b : a * b;
    }
  } else if constexpr (kReduction == Reduction::Least || kReduction == Reduction::Largest) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a) || std::isnan(b)) return a + b;
    }
    return (kReduction == Reduction::Least) == (b < a) ? b : a;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(kReduction == Reduction::And ? a & b : kReduction == Reduction::Or ? a | b : a ^ b);
  } else {
    return a;
  }
}

template <Reduction kReduction, class T>
void combine(void* from, void* into, int* count, void*) {
  const auto* a = static_cast<const T*>(from);
  auto* b = static_cast<T*>(into);
  for (int i = 0; i < *count; ++i)
    b[i] = static_cast<T>(combined<kReduction, Wide<T>>(static_cast<Wide<T>>(a[i]), static_cast<Wide<T>>(b[i])));
}

template <class T>
Combine* combine_of(Reduction reduction) {
  const bool is_of_bits = reduction == Reduction::And || reduction == Reduction::Or || reduction == Reduction::Xor;
  if (is_of_bits && !std::is_integral_v<T>) return nullptr;
  switch (reduction) {
    case Reduction::Sum:
    case Reduction::Average: return combine<Reduction::Sum, T>;
    case Reduction::Product: return combine<Reduction::Product, T>;
    case Reduction::Least: return combine<Reduction::Least, T>;
    case Reduction::Largest: return combine<Reduction::Largest, T>;
    case Reduction::And: return combine<Reduction::And, T>;
    case Reduction::Or: return combine<Reduction::Or, T>;
    case Reduction::Xor: return combine<Reduction::Xor, T>;
  }
  return nullptr;
}

// function(T{}) with the dtype's type; false where it is none that is reduced.
template <class Function>
bool with_type(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::F32: function(float{}); return true;
    case DType::F64: function(double{}); return true;
    case DType::BF16: function(BFloat16{}); return true;
    case DType::F16: function(Float16{}); return true;
    case DType::I64: function(int64_t{}); return true;
    case DType::I32: function(int32_t{}); return true;
    case DType::I16: function(int16_t{}); return true;
    case DType::I8: function(int8_t{}); return true;
    case DType::U8: function(uint8_t{}); return true;
    case DType::U16: function(uint16_t{}); return true;
    case DType::U32: function(uint32_t{}); return true;
    case DType::U64: function(uint64_t{}); return true;
    default: return false;
  }
}

Combine* combine_of(Reduction reduction, DType dtype) {
  Combine* found = nullptr;
  // Of truth values a sum is whether one is true, as PyTorch's is.
  if (dtype == DType::Bool) {
    const bool is_any = reduction == Reduction::Sum || reduction == Reduction::Largest || reduction == Reduction::Or;
    const bool is_every = reduction == Reduction::Product || reduction == Reduction::Least || reduction == Reduction::And;
    if (is_any || is_every) return combine_of<uint8_t>(is_any ? Reduction::Or : Reduction::And);
    return reduction == Reduction::Xor ? combine_of<uint8_t>(reduction) : nullptr;
  }
  with_type(dtype, [&](auto zero) { found = combine_of<decltype(zero)>(reduction); });
  return found;
}

void divide(DType dtype, std::byte* data, int64_t elements, int64_t by) {
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* values = reinterpret_cast<T*>(data);
    for (int64_t i = 0; i < elements; ++i) values[i] = static_cast<T>(static_cast<Wide<T>>(values[i]) / static_cast<Wide<T>>(by));
  });
}

const SystemLibrary& opened() {
  static const SystemLibrary* const library =
      new SystemLibrary("MPI", "TOROID_MPI", {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi.so"});
  library->require("programs of several processes need it: install Open MPI or MPICH (Debian: openmpi-bin), or name libmpi in TOROID_MPI");
  return *library;
}

}  // namespace

const std::string& open_mpi() { return opened().name(); }

// The library, once a process.
class Mpi {
 public:
  static Mpi& get() {
    static Mpi* const mpi = new Mpi;  // until the process has ended
    return *mpi;
  }
  // Among those of a communicator; null: among all.
  const Group& group(Span<const int64_t> ranks, const Communicator* given);

  // Calls are made one after the other.
  template <class Function, class... Arguments>
  void call(Function* function, const char* what, Arguments... arguments) {
    const std::lock_guard<std::mutex> lock(mutex_);
    check(function(arguments...), what);
  }
  Handle type_of_bytes(int64_t bytes);
  Handle operation(Reduction reduction, DType dtype);
  Handle bytes() const { return byte_; }
  const void* in_place() const { return in_place_; }

  TOROID_LIBRARY_FUNCTIONS(TOROID_MPI_FUNCTIONS)

 private:
  Mpi();
  void check(int status, const char* what);
  // At the end of the process: with an error the others would wait for this one for ever.
  static void end(int status, void*);

  const SystemLibrary& library_;
  std::mutex mutex_;
  Handle world_ = 0, byte_ = 0, errors_return_ = 0;
  const void* in_place_ = nullptr;
  std::map<std::pair<Handle, std::vector<int64_t>>, std::unique_ptr<const Group>> groups_;  // by communicator and ranks
  std::map<int64_t, Handle> types_;
  std::map<Combine*, Handle> operations_;
};

Mpi::Mpi() : library_(opened()) {
  look_up(library_);
  if (void* const world = library_.find("ompi_mpi_comm_world")) {
    world_ = reinterpret_cast<Handle>(world);
    byte_ = reinterpret_cast<Handle>(library_.find("ompi_mpi_byte"));
    errors_return_ = reinterpret_cast<Handle>(library_.find("ompi_mpi_errors_return"));
    in_place_ = reinterpret_cast<const void*>(1);
  } else {  // MPICH's mpi.h
    world_ = 0x44000000, byte_ = 0x4c00010d, errors_return_ = 0x54000001;
    in_place_ = reinterpret_cast<const void*>(-1);
  }
  int is_started = 0, level = 0;
  check(initialized(&is_started), "to say whether it was started");
  if (is_started == 0) {
    check(init_thread(nullptr, nullptr, kSerialized, &level), "to start");
#ifdef __GLIBC__
    on_exit(end, nullptr);
#endif
  }
  check(set_errhandler(world_, errors_return_), "to say who handles errors");
}

void Mpi::end(int status, void*) {
  Mpi& mpi = get();
  int is_finished = 0;
  if (mpi.finalized(&is_finished) != 0 || is_finished != 0) return;
  status == 0 ? mpi.finalize() : mpi.abort(mpi.world_, status);
}

void Mpi::check(int status, const char* what) {
  if (status == 0) return;
  std::string said(kMostErrorString, '\0');
  int length = 0;
  if (error_string(status, said.data(), &length) != 0) length = 0;
  said.resize(static_cast<size_t>(std::clamp(length, 0, kMostErrorString)));
  throw Error(ErrorKind::Environment, formatted("MPI fails {}: {}", what, said.empty() ? formatted("status {}", status) : said));
}

const Group& Mpi::group(Span<const int64_t> ranks, const Communicator* given) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Handle whole = given == nullptr ? world_ : static_cast<Handle>(given->mpi);
  std::unique_ptr<const Group>& slot = groups_[{whole, std::vector<int64_t>(ranks.begin(), ranks.end())}];
  if (slot) return *slot;
  Handle communicator = whole;
  int all = 0, size = 0, rank = 0;
  check(comm_size(whole, &all), "to count processes");
  if (!ranks.empty()) {
    std::vector<int> members;
    for (int64_t each : ranks) {
      if (each < 0 || each >= all) throw Error(ErrorKind::InvalidInput, formatted("a group with process {} of {}", each, all));
      members.push_back(static_cast<int>(each));
    }
    Handle everyone = 0, some = 0;
    check(comm_group(whole, &everyone), "to name processes");
    check(group_incl(everyone, static_cast<int>(members.size()), members.data(), &some), "to name processes");
    check(comm_create_group(whole, some, members[0], &communicator), "to make a group");
    check(set_errhandler(communicator, errors_return_), "to say who handles errors");
  }
  check(comm_size(communicator, &size), "to count processes");
  check(comm_rank(communicator, &rank), "to number processes");
  const bool is_whole = given != nullptr && ranks.empty();
  if (is_whole && (size != given->processes || rank != given->rank)) {
    throw Error(ErrorKind::InvalidInput, formatted("MPI's communicator has process {} of {}, and what is said of it is process {} of {}",
                                                   rank, size, given->rank, given->processes));
  }
  slot.reset(new Group(communicator, size, rank, is_whole ? given->nccl : nullptr));
  return *slot;
}

Handle Mpi::type_of_bytes(int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Handle& type = types_[bytes];
  if (type == 0) {
    check(type_contiguous(static_cast<int>(bytes), byte_, &type), "to describe elements");
    check(type_commit(&type), "to describe elements");
  }
  return type;
}

Handle Mpi::operation(Reduction reduction, DType dtype) {
  Combine* const function = combine_of(reduction, dtype);
  if (function == nullptr) throw Error(ErrorKind::Unsupported, formatted("such a reduction of {} over processes", to_string(dtype)));
  const std::lock_guard<std::mutex> lock(mutex_);
  Handle& made = operations_[function];
  constexpr int kCommutes = 1;
  if (made == 0) check(op_create(function, kCommutes, &made), "to describe a reduction");
  return made;
}

namespace {

// By thread: thread-local memory would make packages need the dynamic linker's. It changes with a call, not with an operation. A list, for
// only the threads that run are in it, and each package has its code.
struct Given {
  struct OfThread {
    std::thread::id thread;
    const Communicator* communicator;
  };
  std::list<OfThread>::iterator here() {
    return std::find_if(of_threads.begin(), of_threads.end(),
                        [](const OfThread& each) { return each.thread == std::this_thread::get_id(); });
  }

  std::mutex mutex;
  std::list<OfThread> of_threads;
};
Given& given() {
  static Given* const given = new Given;
  return *given;
}
const Communicator* given_here() {
  const std::lock_guard<std::mutex> lock(given().mutex);
  const auto found = given().here();
  return found == given().of_threads.end() ? nullptr : found->communicator;
}
void give(const Communicator* communicator) {
  const std::lock_guard<std::mutex> lock(given().mutex);
  const auto found = given().here();
  const bool is_there = found != given().of_threads.end();
  if (communicator != nullptr && is_there)
    found->communicator = communicator;
  else if (communicator != nullptr)
    given().of_threads.push_front({std::this_thread::get_id(), communicator});
  else if (is_there)
    given().of_threads.erase(found);
}

}  // namespace

UseCommunicator::UseCommunicator(const Communicator& communicator) : before_(given_here()) { give(&communicator); }
UseCommunicator::~UseCommunicator() { give(before_); }

// Without MPI: NCCL's alone.
const Group& Group::of_all(const Communicator& given) {
  static std::mutex mutex;
  static std::map<void*, std::unique_ptr<const Group>> all;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<const Group>& slot = all[given.nccl];
  if (!slot) slot.reset(new Group(0, given.processes, given.rank, given.nccl));
  return *slot;
}

const Group& Group::of(Span<const int64_t> ranks, int64_t size, int64_t rank) {
  // A program for one process needs nobody else.
  static const Group alone(0, 1, 0);
  if (size == 1) return alone;
  const Communicator* const here = given_here();
  if (here != nullptr && here->mpi == 0 && !ranks.empty()) {
    throw Error(ErrorKind::InvalidInput, "a group of some of the processes, of which only NCCL's communicator is known")
        .help("give MPI's, too: some processes are brought together by it");
  }
  const Group& group = here != nullptr && here->mpi == 0 ? of_all(*here) : Mpi::get().group(ranks, here);
  if (size != 0 && size != group.size()) {
    throw Error(ErrorKind::InvalidInput,
                formatted("the program is one of {} processes, of which {} {}", size, group.size(), group.size() == 1 ? "runs" : "run"))
        .help(formatted("start it by MPI's launcher: mpirun -n {} …", size));
  }
  if (rank >= 0 && rank != group.rank()) {
    throw Error(ErrorKind::InvalidInput, formatted("the program is for process {} of {}, and this is process {}", rank, size, group.rank()))
        .help("each process runs the program that was compiled for its rank");
  }
  return group;
}

Mpi& Group::mpi() const {
  if (communicator_ == 0) {
    throw Error(ErrorKind::InvalidInput, "an operation on the host, of processes of which only NCCL's communicator is known")
        .help("give MPI's, too");
  }
  return Mpi::get();
}

void Group::all_reduce(Reduction reduction, DType dtype, const std::byte* from, std::byte* to, int64_t elements) const {
  const int64_t width = size_bytes(dtype);
  std::memcpy(to, from, static_cast<size_t>(elements * width));
  if (size_ == 1) return;
  Mpi& mpi = this->mpi();
  const Handle type = mpi.type_of_bytes(width), operation = mpi.operation(reduction, dtype);
  for (int64_t done = 0; done < elements; done += kMostAtOnce) {
    const auto count = static_cast<int>(std::min(kMostAtOnce, elements - done));
    mpi.call(mpi.all_reduce, "to reduce", mpi.in_place(), to + done * width, count, type, operation, communicator_);
  }
  if (reduction == Reduction::Average) divide(dtype, to, elements, size_);
}

void Group::all_gather(const std::byte* from, std::byte* to, int64_t bytes) const {
  if (size_ == 1) return static_cast<void>(std::memcpy(to, from, static_cast<size_t>(bytes)));
  Mpi& mpi = this->mpi();
  if (bytes <= kMostAtOnce) {
    const auto count = static_cast<int>(bytes);
    return mpi.call(mpi.all_gather, "to gather", from, count, mpi.bytes(), to, count, mpi.bytes(), communicator_);
  }
  std::memcpy(to + rank_ * bytes, from, static_cast<size_t>(bytes));
  for (int64_t process = 0; process < size_; ++process) broadcast(process, to + process * bytes, bytes);
}

void Group::reduce_scatter(Reduction reduction, DType dtype, const std::byte* from, std::byte* to, int64_t elements) const {
  const int64_t width = size_bytes(dtype);
  if (size_ == 1) return static_cast<void>(std::memcpy(to, from, static_cast<size_t>(elements * width)));
  Mpi& mpi = this->mpi();
  const Handle type = mpi.type_of_bytes(width), operation = mpi.operation(reduction, dtype);
  if (elements <= kMostAtOnce) {
    mpi.call(mpi.reduce_scatter, "to reduce", from, to, static_cast<int>(elements), type, operation, communicator_);
  } else {
    for (int64_t process = 0; process < size_; ++process) {
      for (int64_t done = 0; done < elements; done += kMostAtOnce) {
        const auto count = static_cast<int>(std::min(kMostAtOnce, elements - done));
        mpi.call(mpi.reduce, "to reduce", from + (process * elements + done) * width, to + done * width, count, type, operation,
                 static_cast<int>(process), communicator_);
      }
    }
  }
  if (reduction == Reduction::Average) divide(dtype, to, elements, size_);
}

void Group::all_to_all(const std::byte* from, std::byte* to, Span<const int64_t> sent, Span<const int64_t> received,
                       int64_t row_bytes) const {
  if (size_ == 1) return static_cast<void>(std::memcpy(to, from, static_cast<size_t>(sent[0] * row_bytes)));
  const auto counts = [](Span<const int64_t> rows) {
    std::vector<int> result;
    for (int64_t each : rows) {
      if (each < 0 || each > kMostAtOnce) throw Error(ErrorKind::InvalidInput, formatted("an exchange of {} rows", each));
      result.push_back(static_cast<int>(each));
    }
    return result;
  };
  const auto places = [](const std::vector<int>& counts) {
    std::vector<int> result;
    int64_t place = 0;
    for (int count : counts) {
      if (place > kMostAtOnce) throw Error(ErrorKind::InvalidInput, formatted("an exchange of more than {} rows", kMostAtOnce));
      result.push_back(static_cast<int>(place));
      place += count;
    }
    return result;
  };
  if (row_bytes == 0) return;
  Mpi& mpi = this->mpi();
  const Handle type = mpi.type_of_bytes(row_bytes);
  const std::vector<int> out = counts(sent), in = counts(received), out_at = places(out), in_at = places(in);
  mpi.call(mpi.all_to_all, "to exchange", from, out.data(), out_at.data(), type, to, in.data(), in_at.data(), type, communicator_);
}

void Group::broadcast(int64_t source, std::byte* data, int64_t bytes) const {
  if (size_ == 1) return;
  Mpi& mpi = this->mpi();
  for (int64_t done = 0; done < bytes; done += kMostAtOnce) {
    const auto count = static_cast<int>(std::min(kMostAtOnce, bytes - done));
    mpi.call(mpi.broadcast, "to broadcast", data + done, count, mpi.bytes(), static_cast<int>(source), communicator_);
  }
}

}  // namespace toroid::collectives
