#include "runtime/cuda/device.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace toroid::cuda {
namespace {

constexpr unsigned kNonBlocking = 1;

}  // namespace

Device::Device() {
  const Driver& call = driver();
  check(call.device_get(&number_, 0), "finding the GPU");
  int major = 0, minor = 0;
  check(call.device_attribute(&major, kComputeCapabilityMajor, number_), "asking the GPU for its kind");
  check(call.device_attribute(&minor, kComputeCapabilityMinor, number_), "asking the GPU for its kind");
  capability_ = 10 * major + minor;
  check(call.device_attribute(&multiprocessors_, kMultiprocessors, number_), "asking the GPU for its size");
  check(call.context_retain(&context_, number_), "starting the GPU");
  make_current();
  // What is given back stays for the next who asks.
  PoolHandle pool = nullptr;
  uint64_t threshold = std::numeric_limits<uint64_t>::max();
  check(call.default_pool(&pool, number_), "finding the GPU's memory");
  check(call.pool_set(pool, kReleaseThreshold, &threshold), "keeping the GPU's memory");
}

const Device& Device::get() {
  static const Device device;
  return device;
}

void Device::make_current() const { check(driver().context_set(context_), "using the GPU"); }

std::string Device::name() const {
  char text[256] = {};
  check(driver().device_name(text, sizeof text - 1, number_), "asking the GPU for its name");
  return text;
}

Stream::Stream() { check(driver().stream_create(&handle_, kNonBlocking), "making a stream"); }
Stream::~Stream() {
  if (handle_ != nullptr) driver().stream_destroy(handle_);
}
void Stream::synchronize() const { check(driver().stream_synchronize(handle_), "running on the GPU"); }

Memory::Memory(const Stream& stream, size_t bytes) : stream_(stream.handle()), bytes_(bytes) {
  // Tensors without elements have an address too.
  check(driver().allocate(&address_, std::max<size_t>(bytes, 256), stream_), formatted("asking the GPU for {} bytes", bytes).c_str());
}
Memory::~Memory() {
  if (address_ != 0) driver().free(address_, stream_);
}

void copy_in(const Stream& stream, void* to, const void* from, size_t bytes) {
  if (bytes > 0) check(driver().copy_in(address_of(to), from, bytes, stream.handle()), "copying to the GPU");
}
void copy_out(const Stream& stream, void* to, const void* from, size_t bytes) {
  if (bytes > 0) check(driver().copy_out(to, address_of(from), bytes, stream.handle()), "copying from the GPU");
}
void copy_within(const Stream& stream, void* to, const void* from, size_t bytes) {
  if (bytes > 0) check(driver().copy_within(address_of(to), address_of(from), bytes, stream.handle()), "copying on the GPU");
}
void clear(const Stream& stream, void* to, size_t bytes) {
  if (bytes > 0) check(driver().set_bytes(address_of(to), 0, bytes, stream.handle()), "clearing memory of the GPU");
}
bool is_on_device(const void* data) {
  unsigned kind = 0;
  return driver().pointer_attribute(&kind, kMemoryType, address_of(data)) == 0 && kind == kDeviceMemory;
}

Binaries::Binaries(std::vector<const void*> images) {
  for (const void* image : images) {
    ModuleHandle made = nullptr;
    check(driver().module_load(&made, image), "loading kernels");
    modules_.push_back(made);
  }
}
Binaries::~Binaries() {
  for (ModuleHandle each : modules_) driver().module_unload(each);
}

FunctionHandle Binaries::function(const char* name, int shared_bytes) {
  const auto [found, is_new] = functions_.try_emplace(name);
  if (!is_new) return found->second;
  for (ModuleHandle each : modules_) {
    if (driver().module_function(&found->second, each, name) != 0) continue;
    if (shared_bytes > 0) check(driver().function_set(found->second, kMostDynamicShared, shared_bytes), "giving a kernel shared memory");
    return found->second;
  }
  functions_.erase(found);
  throw Error(ErrorKind::Internal, formatted("no binary of the program has the kernel '{}'", name));
}

Event::Event() { check(driver().event_create(&handle_, 0), "making an event"); }
Event::~Event() {
  if (handle_ != nullptr) driver().event_destroy(handle_);
}
void Event::record(const Stream& stream) const { check(driver().event_record(handle_, stream.handle()), "recording an event"); }
double Event::seconds(const Event& from, const Event& to) {
  check(driver().event_synchronize(to.handle_), "waiting for an event");
  float milliseconds = 0;
  check(driver().event_elapsed(&milliseconds, from.handle_, to.handle_), "timing");
  return milliseconds * 1e-3;
}

}  // namespace toroid::cuda
