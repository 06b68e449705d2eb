// Starts a GPU and cuBLASLt while the process still reads and compiles its program: the driver needs a quarter of a second for a context,
// and opening cuBLASLt takes a third of that.
#pragma once

#include <thread>

#include "runtime/cuda/driver_api.h"

namespace toroid::cuda {

class EarlyStart {
 public:
  // What goes wrong is told by whoever needs it.
  explicit EarlyStart(int gpu, Vendor vendor = Vendor::Nvidia);
  ~EarlyStart();
  EarlyStart(const EarlyStart&) = delete;
  EarlyStart& operator=(const EarlyStart&) = delete;

 private:
  std::thread device_, products_;
};

}  // namespace toroid::cuda
