// The streams of a call's branches, while it is captured into a graph (library/branch_calls.h). Branch 1 stays on the call's own stream:
//
//   own stream   …  fork  branch 1 …        join  …
//   stream 2            \\  branch 2 …     /
//
// Outside of captures all that is started is on the own stream, in the program's order.
#pragma once

#include <list>

#include "runtime/cuda/device.h"

namespace toroid::cuda {

class Branches {
 public:
  explicit Branches(const Stream& own) : own_(own), current_(own.handle()) {}

  // Where what comes next is started.
  StreamHandle stream() const { return current_; }
  int64_t branch() const { return branch_; }
  void begin(int64_t branch);

  // As long as it lives a call is captured, with branches or without. What one that fails has begun is forgotten.
  class Capture {
   public:
    Capture(Branches& branches, bool with_branches) : branches_(branches) { branches_.set_capturing(with_branches); }
    ~Capture() { branches_.set_capturing(false); }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;

   private:
    Branches& branches_;
  };

 private:
  void set_capturing(bool capturing);

  struct Other {
    Stream stream;
    Event done;
    bool is_used = false;  // since the fork
  };

  const Stream& own_;
  StreamHandle current_;
  int64_t branch_ = 0;
  Event fork_;
  std::list<Other> others_;  // of branch 2 and those that follow
  bool is_capturing_ = false, is_forked_ = false;
};

}  // namespace toroid::cuda
