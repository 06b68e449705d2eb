// A write that fails may raise a signal that ends the process: SIGXFSZ beyond the limit on the size of files (ulimit -f), SIGPIPE into a
// pipe that nobody reads. Where they are ignored or blocked the write fails with EFBIG or EPIPE. A library must not change its host's
// handlers, so whoever writes blocks both, for its own thread, to which they go, and that long.
#pragma once

#include <signal.h>

namespace toroid {

// While alive, writes of this thread that fail are errors alone.
class WriteSignalsBlock {
 public:
  WriteSignalsBlock();
  ~WriteSignalsBlock();
  WriteSignalsBlock(const WriteSignalsBlock&) = delete;
  WriteSignalsBlock& operator=(const WriteSignalsBlock&) = delete;

 private:
  sigset_t before_;
};

}  // namespace toroid
