#include "runtime/cuda/device.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "base/error.h"

namespace toroid::cuda {
namespace {

constexpr Address kAlignment = 16;
constexpr unsigned kNonBlocking = 1, kPortable = 1, kDeviceMap = 2;

}  // namespace

int Device::count() {
  int count = 0;
  check(driver().device_count(&count), "counting the GPUs");
  return count;
}

Device::Device(int number) : number_(number) {
  const Driver& call = driver();
  if (number < 0 || number >= count())
    throw Error(ErrorKind::Environment, formatted("there is no GPU {}: the driver sees {}", number, count()))
        .help(vendor() == Vendor::Amd ? "GPUs have numbers from 0 on: '--device rocm:0' is the first that HIP_VISIBLE_DEVICES shows"
                                      : "GPUs have numbers from 0 on: '--device cuda:0' is the first that CUDA_VISIBLE_DEVICES shows");
  check(call.device_get(&handle_, number), "finding the GPU");
  const auto attribute = [&](int which) {
    int value = 0;
    check(call.device_attribute(&value, which, handle_), "asking the GPU for its kind");
    return value;
  };
  capability_ = 10 * attribute(kComputeCapabilityMajor) + attribute(kComputeCapabilityMinor);
  multiprocessors_ = attribute(kMultiprocessors);
  l2_bytes_ = static_cast<size_t>(attribute(kL2Bytes));
}

Context Device::context() const {
  const std::lock_guard lock(starting_);
  if (context_ != nullptr) return context_;
  Context made = nullptr;
  check(driver().context_retain(&made, handle_), "starting the GPU");
  // What is given back stays for the next who asks.
  PoolHandle pool = nullptr;
  uint64_t threshold = std::numeric_limits<uint64_t>::max();
  check(driver().default_pool(&pool, handle_), "finding the GPU's memory");
  check(driver().pool_set(pool, kReleaseThreshold, &threshold), "keeping the GPU's memory");
  return context_ = made;
}

const Device& Device::get(int number) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<const Device>> devices;
  const std::lock_guard lock(mutex);
  std::unique_ptr<const Device>& device = devices[number];
  if (!device) device.reset(new Device(number));
  return *device;
}

std::string Device::name() const {
  char text[256] = {};
  check(driver().device_name(text, sizeof text - 1, handle_), "asking the GPU for its name");
  return text;
}

OnDevice::OnDevice(const Device& device) { check(driver().context_push(device.context()), "using the GPU"); }
OnDevice::~OnDevice() {
  Context left = nullptr;
  driver().context_pop(&left);
}

// The driver takes the highest there is for a lower number.
Stream::Stream(Priority priority) {
  constexpr int kHighest = -100;
  check(driver().stream_create(&handle_, kNonBlocking, priority == Priority::Highest ? kHighest : 0), "making a stream");
}
Stream::~Stream() {
  if (handle_ != nullptr) driver().stream_destroy(handle_);
}
void Stream::synchronize() const { cuda::synchronize(handle_); }
void synchronize(StreamHandle stream) { check(driver().stream_synchronize(stream), "running on the GPU"); }

void StreamOrder::begin(StreamHandle stream) {
  if (stream == own_ && last_ == own_)
    return;  // else also where the streams are the same: a new one may have the handle of one that is gone
  if (last_ == own_) done_.record(own_);
  done_.hold(stream);
}
void StreamOrder::end(StreamHandle stream) {
  last_ = stream;
  if (stream != own_) done_.record(stream);  // a caller's stream may be gone when the next piece begins
}
void StreamOrder::wait() const { last_ == own_ ? synchronize(own_) : done_.synchronize(); }
void StreamOrder::follow(StreamHandle stream, StreamHandle other) {
  other_.record(other);
  other_.hold(stream);
}

Memory::Memory(const Stream& stream, const Stream& freed_on, size_t bytes) : stream_(freed_on.handle()), bytes_(bytes) {
  // Tensors without elements have an address too.
  check(driver().allocate(&address_, std::max<size_t>(bytes, 256), stream.handle()),
        formatted("asking the GPU for {} bytes", bytes).c_str());
}
Memory::~Memory() {
  if (address_ != 0) driver().free(address_, stream_);
}

SharedBytes::SharedBytes(size_t bytes) {
  check(driver().allocate_host(&data_, bytes, kPortable | kDeviceMap), "asking for memory that the GPU shares");
  std::memset(data_, 0, bytes);
}
SharedBytes::~SharedBytes() {
  if (data_ != nullptr) driver().free_host(data_);
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
  return driver().pointer_attribute(&kind, kPointerMemoryType, address_of(data)) == 0 && kind == kDeviceMemory;
}

namespace {

[[noreturn]] void refuse_memory(const std::string& what, const std::string& why, const char* help) {
  throw Error(ErrorKind::InvalidInput, formatted("{} {}", what, why)).help(help);
}

void require_in_device_memory(const void* data, const std::string& what) {
  if (!is_on_device(data))
    refuse_memory(what, "is not in a GPU's memory", "give a device pointer, or run the program with tensors of the host");
}

// Unless the driver does not know.
std::optional<int> device_of(const void* data) {
  int number = 0;
  return driver().pointer_attribute(&number, kPointerDevice, address_of(data)) == 0 ? std::optional(number) : std::nullopt;
}

// There are so many bytes from there on; memory of some kinds has no range.
void require_room(const void* data, size_t bytes, const std::string& what) {
  Address start = 0;
  size_t size = 0;
  if (driver().pointer_attribute(&start, kPointerRangeStart, address_of(data)) != 0 ||
      driver().pointer_attribute(&size, kPointerRangeBytes, address_of(data)) != 0)
    return;
  const size_t left = size - static_cast<size_t>(address_of(data) - start);
  if (left < bytes)
    refuse_memory(what, formatted("needs {} bytes, and its memory ends after {}", bytes, left), "give memory for all of its elements");
}

}  // namespace

void require_on_device(const void* data, size_t bytes, const Device& device, const std::string& what) {
  if (bytes == 0) return;
  require_in_device_memory(data, what);
  if (const std::optional<int> number = device_of(data); number && *number != device.number())
    refuse_memory(what, formatted("is on GPU {}, and the program on GPU {}", *number, device.number()),
                  "copy it there, or load the program on the other GPU");
  if (address_of(data) % kAlignment != 0)
    refuse_memory(what, formatted("begins at an address that is no multiple of {}", kAlignment),
                  "copy it to where it is, as memory of its own");
  require_room(data, bytes, what);
}

void read_from_device(void* to, const void* from, size_t bytes, const Device& device, const std::string& what) {
  if (bytes == 0) return;
  const OnDevice here(device);
  require_in_device_memory(from, what);
  if (const std::optional<int> number = device_of(from); number && *number != device.number())
    refuse_memory(what, formatted("is on GPU {}, and said to be on GPU {}", *number, device.number()), "name the GPU that it is on");
  require_room(from, bytes, what);
  const Stream stream;
  copy_out(stream, to, from, bytes);
  stream.synchronize();
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
void Event::record(StreamHandle stream) const { check(driver().event_record(handle_, stream), "recording an event"); }
void Event::hold(StreamHandle stream) const { check(driver().stream_wait(stream, handle_, 0), "waiting for an event"); }
void Event::synchronize() const { check(driver().event_synchronize(handle_), "running on the GPU"); }
double Event::seconds(const Event& from, const Event& to) {
  check(driver().event_synchronize(to.handle_), "waiting for an event");
  float milliseconds = 0;
  check(driver().event_elapsed(&milliseconds, from.handle_, to.handle_), "timing");
  return milliseconds * 1e-3;
}

}  // namespace toroid::cuda
