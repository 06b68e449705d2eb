// A GPU, its memory, and work on it in order.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/cuda/driver_api.h"

namespace toroid::cuda {

// The first GPU that the process sees (CUDA_VISIBLE_DEVICES), in its primary context, which it shares with other libraries.
class Device {
 public:
  // Throws Error{Environment} where there is none.
  static const Device& get();

  // For this thread. Every function below needs it.
  void make_current() const;
  std::string name() const;
  int compute_capability() const { return capability_; }  // 90 for 9.0
  int multiprocessors() const { return multiprocessors_; }

 private:
  Device();
  Context context_ = nullptr;
  DeviceNumber number_ = 0;
  int capability_ = 0, multiprocessors_ = 0;
};

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  StreamHandle handle() const { return handle_; }
  // Waits for all that was started on it. Throws what went wrong with that.
  void synchronize() const;

 private:
  StreamHandle handle_ = nullptr;
};

// Bytes of the device, from the pool that it keeps: asked for and given back in the stream's order. Aligned to 256.
class Memory {
 public:
  Memory(const Stream& stream, size_t bytes);
  Memory(Memory&& other) noexcept : stream_(other.stream_), address_(std::exchange(other.address_, 0)), bytes_(other.bytes_) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(stream_, other.stream_), std::swap(address_, other.address_), std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory();
  void* data() const { return reinterpret_cast<void*>(address_); }
  size_t size() const { return bytes_; }

 private:
  StreamHandle stream_;
  Address address_ = 0;
  size_t bytes_;
};

inline Address address_of(const void* data) { return reinterpret_cast<Address>(data); }
void copy_in(const Stream& stream, void* to, const void* from, size_t bytes);
// The bytes are there after Stream::synchronize.
void copy_out(const Stream& stream, void* to, const void* from, size_t bytes);
void copy_within(const Stream& stream, void* to, const void* from, size_t bytes);
void clear(const Stream& stream, void* to, size_t bytes);
// Is it an address of a device's memory?
bool is_on_device(const void* data);

// Kernels, loaded.
class Binaries {
 public:
  explicit Binaries(std::vector<const void*> images);
  ~Binaries();
  Binaries(const Binaries&) = delete;
  Binaries& operator=(const Binaries&) = delete;
  // `name` must last as long as this: it is looked up by its address. `shared_bytes`: of a block, with which it is always started.
  FunctionHandle function(const char* name, int shared_bytes);

 private:
  std::vector<ModuleHandle> modules_;
  std::unordered_map<const char*, FunctionHandle> functions_;
};

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(const Stream& stream) const;
  // Between the two, which have been reached then.
  static double seconds(const Event& from, const Event& to);

 private:
  EventHandle handle_ = nullptr;
};

}  // namespace toroid::cuda
