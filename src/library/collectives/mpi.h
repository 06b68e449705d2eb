// Processes that compute together, by MPI (MPI: A Message-Passing Interface Standard, version 3.1): Open MPI's libmpi, or MPICH's and those
// with its binary interface (Intel MPI, MVAPICH). The library is opened when the first collective operation runs, and started then unless
// the program has done so; it is finished at the end of the process. A process that ends with an error ends the others too.
//
// The launcher is MPI's or the cluster's: mpirun, srun. Calls of one process are made one after the other, whatever threads they come from;
// all processes must make the same ones in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/span.h"
#include "tensor/dtype.h"

namespace toroid::collectives {

// Opens MPI, and does not start it. Gives the library's file; throws Error{Environment} where there is none.
const std::string& open_mpi();

// In the order of the names in passes/decompose/collectives/collectives.cpp.
enum class Reduction : uint8_t { Sum, Average, Product, Least, Largest, And, Or, Xor };

class Mpi;

// Processes that a host has brought together: what stands in the place of all that MPI knows.
struct Communicator {
  uintptr_t mpi = 0;     // an MPI_Comm, whose errors are its owner's to handle; 0: there is none
  void* nccl = nullptr;  // an ncclComm_t of this process's GPU, of the same processes in the same order; null: one is made, by MPI
  int64_t rank = 0, processes = 1;
};

// While it lives, Group::of on this thread means the communicator. It is read then only.
class UseCommunicator {
 public:
  explicit UseCommunicator(const Communicator& communicator);
  ~UseCommunicator();
  UseCommunicator(const UseCommunicator&) = delete;
  UseCommunicator& operator=(const UseCommunicator&) = delete;

 private:
  const Communicator* before_;
};

// Some of the processes, numbered from 0: a communicator of MPI's. All of them must ask for it, and make its calls.
// Everything throws Error{Environment} where MPI is absent or fails.
class Group {
 public:
  // The processes with these ranks, which this one must be among; none: all there are, in MPI or in the thread's communicator. `size`: how
  // many the program was made for, 0 where it does not say. `rank`: for which of them, -1 where for any. Throws Error{InvalidInput} where
  // there are others, or this is another one. Lives as long as the process.
  static const Group& of(Span<const int64_t> ranks, int64_t size, int64_t rank = -1);

  int64_t size() const { return size_; }
  int64_t rank() const { return rank_; }
  // The communicator's, of all its processes; null: there is none.
  void* nccl() const { return nccl_; }

  // Elementwise over the processes, into memory of its own. 16-bit floats are added in float32 and rounded after each addition. Of floats
  // the least and the largest with a NaN among them is NaN. Averages of integers are cut.
  void all_reduce(Reduction reduction, DType dtype, const std::byte* from, std::byte* to, int64_t elements) const;
  // The bytes of all processes, one after the other.
  void all_gather(const std::byte* from, std::byte* to, int64_t bytes) const;
  // Of size() * `elements`, those of this process's turn.
  void reduce_scatter(Reduction reduction, DType dtype, const std::byte* from, std::byte* to, int64_t elements) const;
  // `sent[i]` rows to process i, one process after the other, and `received[i]` from it.
  void all_to_all(const std::byte* from, std::byte* to, Span<const int64_t> sent, Span<const int64_t> received, int64_t row_bytes) const;
  // What process `source` has, in place.
  void broadcast(int64_t source, std::byte* data, int64_t bytes) const;

 private:
  Group(uintptr_t communicator, int64_t size, int64_t rank, void* nccl = nullptr)
      : communicator_(communicator), size_(size), rank_(rank), nccl_(nccl) {}
  static const Group& of_all(const Communicator& given);
  Mpi& mpi() const;  // throws Error{InvalidInput} where only NCCL's communicator is known
  friend class Mpi;

  uintptr_t communicator_;  // of MPI; 0: none
  int64_t size_, rank_;
  void* nccl_;
};

}  // namespace toroid::collectives
