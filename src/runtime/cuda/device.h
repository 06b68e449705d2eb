// A GPU, its memory, and work on it in order.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/cuda/driver_api.h"

namespace toroid::cuda {

// One of the GPUs that the process sees (CUDA_VISIBLE_DEVICES), by its number from 0 on, in its primary context, which it shares with other
// libraries.
class Device {
 public:
  // How many there are. Throws Error{Environment} where there is no driver.
  static int count();
  // Throws Error{Environment} where there is none of this number.
  static const Device& get(int number = 0);

  int number() const { return number_; }
  std::string name() const;
  int compute_capability() const { return capability_; }  // 90 for 9.0; of AMD's the number of the architecture, 0x90a for gfx90a
  int multiprocessors() const { return multiprocessors_; }
  size_t l2_bytes() const { return l2_bytes_; }
  // Started when it is first asked for: that takes a third of a second.
  Context context() const;

 private:
  explicit Device(int number);
  int number_;
  DeviceNumber handle_ = 0;
  int capability_ = 0, multiprocessors_ = 0;
  size_t l2_bytes_ = 0;
  mutable std::mutex starting_;
  mutable Context context_ = nullptr;
};

// What this thread does is done on the device while this lives; then again where it was before. All that follows needs one.
class OnDevice {
 public:
  explicit OnDevice(const Device& device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
};

class Stream {
 public:
  // Whose kernels' blocks are started first where those of several streams wait.
  enum class Priority : uint8_t { Normal, Highest };
  explicit Stream(Priority priority = Priority::Normal);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  StreamHandle handle() const { return handle_; }
  // Waits for all that was started on it. Throws what went wrong with that.
  void synchronize() const;

 private:
  StreamHandle handle_ = nullptr;
};
void synchronize(StreamHandle stream);

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(StreamHandle stream) const;
  // What is started on the stream from here on waits for it.
  void hold(StreamHandle stream) const;
  void synchronize() const;
  // Between the two, which have been reached then.
  static double seconds(const Event& from, const Event& to);

 private:
  EventHandle handle_ = nullptr;
};

// The work of one program on its own stream and its callers', each piece behind the one before.
class StreamOrder {
 public:
  explicit StreamOrder(const Stream& own) : own_(own.handle()), last_(own.handle()) {}
  // Around a piece of work on the stream.
  void begin(StreamHandle stream);
  void end(StreamHandle stream);
  // What is started on `stream` from here on waits for all that was started on the other one, by whomever.
  void follow(StreamHandle stream, StreamHandle other);
  // Waits for the last piece, also where its stream is gone. Throws what went wrong.
  void wait() const;

 private:
  StreamHandle own_, last_;
  Event done_, other_;  // done: the last piece, if it was not on the own stream
};

// Bytes of the device, from the pool that it keeps: asked for and given back in the stream's order. Aligned to 256.
class Memory {
 public:
  Memory(const Stream& stream, size_t bytes) : Memory(stream, stream, bytes) {}
  // Given back in the order of another one.
  Memory(const Stream& stream, const Stream& freed_on, size_t bytes);
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

// Bytes of the process that the device writes too, at the same address; zeros at first.
class SharedBytes {
 public:
  explicit SharedBytes(size_t bytes);
  ~SharedBytes();
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

inline Address address_of(const void* data) { return reinterpret_cast<Address>(data); }
void copy_in(const Stream& stream, void* to, const void* from, size_t bytes);
// The bytes are there after Stream::synchronize.
void copy_out(const Stream& stream, void* to, const void* from, size_t bytes);
void copy_within(const Stream& stream, void* to, const void* from, size_t bytes);
void clear(const Stream& stream, void* to, size_t bytes);
// Is it an address of a device's memory?
bool is_on_device(const void* data);
// Throws Error{InvalidInput} unless the address is of the device's memory, at a multiple of 16 as kernels read, with so many bytes from
// there on. what: "input 'x'".
void require_on_device(const void* data, size_t bytes, const Device& device, const std::string& what);

// Copies bytes of a GPU's memory to the process's, on a stream of their own, and waits for that alone. Throws Error{InvalidInput} unless
// they are all of that GPU's memory. what: "tensor 0".
void read_from_device(void* to, const void* from, size_t bytes, const Device& device, const std::string& what);

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

}  // namespace toroid::cuda
