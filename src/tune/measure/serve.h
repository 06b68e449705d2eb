// The tuning worker: a process that runs kernels which may crash, hang or write where they must not, in the place of the
// compilation that started it (worker.h).
#pragma once

#include "tune/measure/trial.h"

namespace toroid::tune {

// Answers requests from standard input, a socket, until it is closed; returns the exit status. What kernels print, also to
// standard output, goes to standard error. Ends at once when the parent ends.
int serve_tuning(const TrialMaker& make);

}  // namespace toroid::tune
