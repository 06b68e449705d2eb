// In the place of src/runtime/kernels/registry/machine_limits.cpp in packages: what measures a machine is as large as the kernels of a small
// model, and says the same in every library.
#include "base/error.h"
#include "runtime/kernels/registry/machine_limits.h"

namespace toroid {

MachineLimits measure_machine_limits(RuntimePool&) {
  throw Error(ErrorKind::Unsupported, "a package does not measure the machine").help("call measure_machine of libtoroid.so's toroid_api");
}

}  // namespace toroid
