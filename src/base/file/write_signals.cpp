#include "base/file/write_signals.h"

#include <cerrno>
#include <ctime>
#include <initializer_list>

namespace toroid {

WriteSignalsBlock::WriteSignalsBlock() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  sigaddset(&set, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
}

WriteSignalsBlock::~WriteSignalsBlock() {
  const int error_number = errno;
  sigset_t ours;  // those that were not blocked before
  sigemptyset(&ours);
  for (const int signal : {SIGXFSZ, SIGPIPE}) {
    if (sigismember(&before_, signal) != 1) sigaddset(&ours, signal);
  }
  const timespec at_once = {};
  while (::sigtimedwait(&ours, nullptr, &at_once) > 0) {  // what a write raised would come now
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error_number;
}

}  // namespace toroid
