// Two processes of one machine swap tensors by their GPUs' copy engines, which take no multiprocessors from the kernels that run meanwhile.
//
// Each process has a mailbox of four slots in its GPU's memory, into which the other one copies (CUDA's interprocess communication). The
// streams wait for each other by words of memory, in the order of the program; graphs have both as nodes:
//
//   the operation's stream                          a stream beside it
//                                                   wait until their slot is free, mark it taken
//   copy the tensor there, mark it full
//   wait until the own slot is full, mark it empty
//   copy the tensor out                             mark the slot free there
//
// What kernels read where it came, in a program with lanes (program/streams/lanes.h), is not copied out; its slot is free when the lane
// comes to its next operation.
//
// NVIDIA's driver API: cuIpcGetMemHandle, cuStreamBatchMemOp.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "library/collectives/mpi.h"
#include "runtime/cuda/driver_api.h"

namespace toroid::cuda {

// Of one context: its calls, and those of the other process's context, are made one after the other. Every function needs the device.
class PeerCopies {
 public:
  // is_used: false in both processes, or in none.
  explicit PeerCopies(bool is_used);
  // Waits for what was started on the streams that it was given. Graphs that were captured from these have ended before.
  ~PeerCopies();
  PeerCopies(const PeerCopies&) = delete;
  PeerCopies& operator=(const PeerCopies&) = delete;

  // A call of the program begins. Its swaps take the slots in turn, so that both processes take the same ones, by graphs or one by one.
  void begin_call();
  // Behind all of its work on the stream: what is read where it came is free, and the stream has all that was started beside it behind it.
  void end_call(StreamHandle stream);

  // A tensor for the other process of the group, of two, and where its own comes.
  struct Swap {
    const void* from;
    void* to;
    size_t bytes;
    int64_t lane = 0;    // of the program, 0: none
    bool stays = false;  // in the mailbox: what reads it is started before the lane's next swap, at most three later
  };
  // Starts on the stream, and gives where the other process's bytes are then. Null, in both processes, where they cannot reach each other's
  // memory, as on different machines and on AMD's GPUs. The first of a group and of a size waits until the other process has come to it.
  const void* swap(const collectives::Group& group, const Swap& what, StreamHandle stream);

 private:
  class Mailbox;
  const bool is_used_;
  // By the least power of two that has room.
  std::map<std::pair<const collectives::Group*, size_t>, std::unique_ptr<Mailbox>> mailboxes_;
};

}  // namespace toroid::cuda
