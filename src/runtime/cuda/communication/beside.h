// The stream of a call's collective operations that run beside its kernels (library/branch_calls.h):
//
//   own stream   …  fork  kernels …        await 1   kernels …  finish
//   beside            \\  operation 1     /                    /
//
// Of the highest priority: an operation has few blocks, for which the other processes wait. Operations of a program with lanes
// (program/streams/lanes.h) are on their lane's stream in its place, and are counted here, too.
#pragma once

#include <list>
#include <optional>

#include "runtime/cuda/device.h"

namespace toroid::cuda {

class Beside {
 public:
  explicit Beside(const Stream& own) : own_(own) {}

  // Where collective operations are started.
  StreamHandle stream() const { return open_ != nullptr ? open_ : own_.handle(); }
  // A call begins; its operations are beside its kernels or not. What one that fails has begun is forgotten.
  void begin_call(bool is_used);
  // What is started on stream() from here on is beside what is started behind close(), and waits for what was started before.
  void open();
  void close();
  // The same of an operation on a lane.
  void open_on(StreamHandle lane) { open_ = lane; }
  // What is started on the stream from here on waits for the first `count` of the call.
  void await(int64_t count, StreamHandle stream);
  // The same for all of them.
  void await_all(StreamHandle stream) { await(static_cast<int64_t>(closed_), stream); }

 private:
  const Stream& own_;
  std::optional<Stream> stream_;
  Event fork_;
  struct End {
    Event event;
    StreamHandle stream = nullptr;
  };
  std::list<End> ends_;              // of the operations of a call, in order; those behind `closed_` are of earlier calls
  size_t closed_ = 0, awaited_ = 0;  // awaited_: by the own stream
  StreamHandle open_ = nullptr;
  bool is_used_ = false;
};

}  // namespace toroid::cuda
