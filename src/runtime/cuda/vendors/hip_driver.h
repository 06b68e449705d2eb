// AMD's driver, HIP's runtime library, as a table of the calls that NVIDIA's has (driver_api.h): most are the same under other names.
//
// The library is libamdhip64.so.7, .6 or .5; TOROID_HIP in the environment names another one. Checked against the headers of HIP 5.2 and 7;
// no call but those that start it, count devices and say what is wrong has been made with a GPU behind it (docs/rocm.md).
#pragma once

#include <optional>
#include <string>

#include "runtime/cuda/driver_api.h"

namespace toroid::cuda {

// Why there is none: "no ROCm: libamdhip64.so.7, … cannot be opened". Else none, and `driver` is filled.
std::optional<std::string> open_hip(Driver& driver);

}  // namespace toroid::cuda
