// A tensor in a GPU's memory that somebody else keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace toroid {

struct DeviceTensor {
  DType dtype = DType::F32;
  std::vector<int64_t> sizes;
  void* data = nullptr;
  std::vector<int64_t> strides = {};  // in elements; empty: contiguous
};

// Of calls that were timed on a GPU.
struct DeviceTimes {
  std::vector<double> seconds;  // of each call, on the device
  double host_seconds = 0;      // that starting a call takes
};
struct DeviceTimesOptions {
  double seconds = 1;  // about how long
  int calls = 0;       // so many instead, if not 0: processes of one program must make the same ones
  bool graphs = true;  // started as graphs where that can be
};

}  // namespace toroid
