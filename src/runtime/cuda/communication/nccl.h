// Collective operations among GPUs by NCCL, opened when the first of them runs: libnccl.so.2, or what TOROID_NCCL names. Processes find
// each other by MPI (library/collectives/mpi.h); each has one GPU.
//
// What NCCL does not do runs on the host: 16-bit integers, bits of integers. All processes of a group decide the same, since that goes by
// the operation and the dtype. The least and the largest of floats with a NaN among them are as NCCL has them.
#pragma once

#include <functional>

#include "runtime/cuda/communication/peer_copies.h"
#include "runtime/cuda/device.h"
#include "toroid/program_abi.h"

namespace toroid::cuda {

// Where a program communicates.
struct Communication {
  const Device& device;
  PeerCopies& peers;
  StreamHandle stream;
  int64_t lane = 0;                       // of the program, 0: none
  bool stays = false;                     // what is swapped may stay where it comes (PeerCopies::Swap)
  const void** swapped;                   // where it is then
  const std::function<void()>& in_order;  // what the stream gets from here on is behind all operations of the call before, of all streams
};

// Starts "library.collectives.…" (library/collectives/collectives.h) on the stream; its token stays as it is. False for other calls and for
// what NCCL does not do. The first of a group waits until all its processes have come to it. Throws Error{Environment} where NCCL or MPI is
// absent or fails.
bool communicate(const ToroidLibraryCall& call, const Communication& where);

}  // namespace toroid::cuda
