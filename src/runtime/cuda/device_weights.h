// The weights of a program on GPUs: one copy on each device, for all contexts there, and what is prepared of them once.
//
// Copies are found by the values' place in the process's memory, so weights that replace others (LoadedProgram::replace_weights) share with
// them what is in both. A context holds what its calls use; a copy that nobody holds any more is freed behind the work that used it. What
// calls update is not here: each context has its own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/span.h"
#include "runtime/cuda/device.h"
#include "runtime/program/weights.h"

namespace toroid::cuda {

class DeviceWeights {
 public:
  class Copies;
  // Neither asks for a driver.
  static std::shared_ptr<DeviceWeights> make();
  std::shared_ptr<Copies> on(const Device& device);

 private:
  std::mutex mutex_;
  std::map<int, std::shared_ptr<Copies>> copies_;  // by the device's number
};

// A tensor on a device, and what it was made of.
struct DeviceCopy {
  std::shared_ptr<DeviceWeights::Copies> copies;  // whose stream frees the memory
  std::shared_ptr<const void> owner;              // of the values, whose address no others have meanwhile
  const void* values;
  Memory memory;
};
using SharedCopy = std::shared_ptr<const DeviceCopy>;

// On one device. All of it is called on that (OnDevice), by any thread.
class DeviceWeights::Copies : public std::enable_shared_from_this<Copies> {
 public:
  explicit Copies(const Device& device) : device_(device) {}

  // Of the constants' values in the process's memory: those that are not here are copied, which is waited for. Throws Error{Environment}
  // where the device has not enough memory.
  struct Wanted {
    size_t constant, bytes;
  };
  std::vector<SharedCopy> get(const Weights& weights, Span<const Wanted> wanted);
  // What the variant's calls are given as prepared: the first who asks computes it, by `prepare`, which waits for it.
  SharedCopy prepared(const std::shared_ptr<const Weights>& weights, const LoadedVariant& variant, size_t bytes,
                      const std::function<void(void*)>& prepare);
  // What is let go after this is freed behind all that was started in this order.
  void free_behind(StreamOrder& order);

 private:
  struct Streams {
    Stream copying, freeing;  // a copy does not wait for work that still uses another one
  };
  Streams& streams();
  SharedCopy make(std::shared_ptr<const void> owner, const void* values, size_t bytes);

  const Device& device_;
  std::mutex mutex_;
  std::unique_ptr<Streams> streams_;
  std::map<std::pair<const void*, size_t>, std::weak_ptr<const DeviceCopy>> constants_;  // by values and bytes
  std::map<std::pair<const Weights*, const LoadedVariant*>, std::weak_ptr<const DeviceCopy>> prepared_;
};

}  // namespace toroid::cuda
