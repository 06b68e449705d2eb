// In the place of src/runtime/cuda/ and src/api/gpu_runs.cpp in packages of programs for processors, which call none of it. The linker takes these definitions, for
// their archive comes first.
#include "api/gpu_runs.h"
#include "base/error.h"
#include "runtime/cuda/driver_api.h"
#include "runtime/cuda/program_on_device.h"

namespace toroid::cuda {
namespace {

[[noreturn]] void refuse() { throw Error(ErrorKind::Unsupported, "this package holds no driver of GPUs"); }

}  // namespace

void use(Vendor) { refuse(); }
const Device& Device::get(int) { refuse(); }
std::string Device::name() const { refuse(); }
OnDevice::OnDevice(const Device&) { refuse(); }
OnDevice::~OnDevice() = default;
Stream::Stream(Priority) { refuse(); }
Stream::~Stream() = default;
void Stream::synchronize() const { refuse(); }
Memory::Memory(const Stream&, const Stream&, size_t) { refuse(); }
Memory::~Memory() = default;

void ProgramOnDevice::Delete::operator()(ProgramOnDevice*) const {}
ProgramOnDevice::Owner ProgramOnDevice::load(const Device&, RuntimePool&, const ToroidProgram&, const ToroidGpuProgram&, DeviceWeights&) {
  refuse();
}
void ProgramOnDevice::run(const Call&, Span<const Span<const std::byte>>, std::vector<HostTensor>&) { refuse(); }
void ProgramOnDevice::start(const Call&, Span<const Span<const std::byte>>, Span<DeviceTensor>, StreamHandle) { refuse(); }
void ProgramOnDevice::wait() { refuse(); }
bool CudaCallbacks::has_failed() const { refuse(); }
DeviceTimes ProgramOnDevice::time(const Call&, Span<const Span<const std::byte>>, const DeviceTimesOptions&) { refuse(); }
void ProgramOnDevice::forget_buffer(size_t) { refuse(); }
void ProgramOnDevice::read_buffer(size_t, Span<std::byte>) { refuse(); }
void ProgramOnDevice::use_weights(const Weights&) { refuse(); }
std::shared_ptr<DeviceWeights> DeviceWeights::make() { refuse(); }

}  // namespace toroid::cuda

namespace toroid::api {

void run_with_copies(Context&) { cuda::refuse(); }
void run_on_stream(Context&, void*) { cuda::refuse(); }
HostTensor values_on_gpu(const InputView&, int, const std::string&) { cuda::refuse(); }

}  // namespace toroid::api
