// In the place of src/runtime/kernels/onednn/ in packages that name no kernel of oneDNN's.
#include "base/error.h"
#include "runtime/kernels/onednn/onednn.h"

namespace toroid {
namespace {

constexpr const char* kAbsence = "the package was linked without oneDNN";

}  // namespace

std::optional<std::string> onednn_refuses_matmul(const Problem&) { return kAbsence; }
std::optional<std::string> onednn_refuses_convolution(const Problem&) { return kAbsence; }
std::unique_ptr<const KernelPlan> plan_matmul_onednn(const KernelCall&) { throw Error(ErrorKind::Environment, kAbsence); }
std::unique_ptr<const KernelPlan> plan_convolution_onednn(const KernelCall&) { throw Error(ErrorKind::Environment, kAbsence); }

}  // namespace toroid
