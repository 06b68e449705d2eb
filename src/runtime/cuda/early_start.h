// Starts a GPU and cuBLASLt while the process still reads and compiles its program: the driver needs a quarter of a second for a context,
// and opening cuBLASLt takes a third of that.
#pragma once

#include <thread>

namespace toroid::cuda {

class EarlyStart {
 public:
  // What goes wrong is told by whoever needs it.
  explicit EarlyStart(int gpu);
  ~EarlyStart();
  EarlyStart(const EarlyStart&) = delete;
  EarlyStart& operator=(const EarlyStart&) = delete;

 private:
  std::thread device_, products_;
};

}  // namespace toroid::cuda
