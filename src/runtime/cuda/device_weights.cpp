#include "runtime/cuda/device_weights.h"

#include <iterator>
#include <map>
#include <optional>

#include "base/error.h"

namespace toroid::cuda {
namespace {

// On its device. Where the context is lost, so is all memory.
template <class T>
void destroy_on(const Device& device, T* object) {
  std::optional<OnDevice> here;
  try {
    here.emplace(device);
  } catch (const Error&) {
  }
  delete object;
}

template <class Key>
void remove_expired(std::map<Key, std::weak_ptr<const DeviceCopy>>& copies) {
  for (auto each = copies.begin(); each != copies.end();) each = each->second.expired() ? copies.erase(each) : std::next(each);
}

}  // namespace

std::shared_ptr<DeviceWeights> DeviceWeights::make() { return std::make_shared<DeviceWeights>(); }

std::shared_ptr<DeviceWeights::Copies> DeviceWeights::on(const Device& device) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Copies>& copies = copies_[device.number()];
  if (!copies) copies.reset(new Copies(device), [&device](Copies* its) { destroy_on(device, its); });
  return copies;
}

DeviceWeights::Copies::Streams& DeviceWeights::Copies::streams() {
  if (!streams_) streams_ = std::make_unique<Streams>();
  return *streams_;
}

SharedCopy DeviceWeights::Copies::make(std::shared_ptr<const void> owner, const void* values, size_t bytes) {
  Memory memory(streams().copying, streams().freeing, bytes);
  auto* const made = new DeviceCopy{shared_from_this(), std::move(owner), values, std::move(memory)};
  return {made, [&device = device_](const DeviceCopy* copy) { destroy_on(device, copy); }};
}

std::vector<SharedCopy> DeviceWeights::Copies::get(const Weights& weights, Span<const Wanted> wanted) {
  std::vector<SharedCopy> copies;
  std::vector<size_t> made;
  const std::lock_guard lock(mutex_);
  // Where memory runs out, what was begun is over before the copies go: they are freed on another stream.
  struct Finish {
    const Stream& stream;
    ~Finish() {
      try {
        stream.synchronize();
      } catch (const Error&) {  // the context is lost
      }
    }
  } finish{streams().copying};
  for (const auto& [constant, bytes] : wanted) {
    const void* const values = weights.constants()[constant];
    const auto found = constants_.find({values, bytes});
    copies.push_back(found == constants_.end() ? nullptr : found->second.lock());
    if (copies.back()) continue;
    copies.back() = make(weights.owners()[constant], values, bytes);
    copy_in(streams_->copying, copies.back()->memory.data(), values, bytes);
    made.push_back(copies.size() - 1);
  }
  if (made.empty()) return copies;
  streams_->copying.synchronize();
  remove_expired(constants_);
  for (const size_t i : made) constants_[{copies[i]->values, wanted[i].bytes}] = copies[i];
  return copies;
}

SharedCopy DeviceWeights::Copies::prepared(const std::shared_ptr<const Weights>& weights, const LoadedVariant& variant, size_t bytes,
                                           const std::function<void(void*)>& prepare) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const DeviceCopy>& known = prepared_[{weights.get(), &variant}];
  if (SharedCopy copy = known.lock()) return copy;
  SharedCopy copy = make(weights, weights.get(), bytes);
  streams_->copying.synchronize();  // other streams may use it from here on
  prepare(copy->memory.data());
  known = copy;
  remove_expired(prepared_);
  return copy;
}

void DeviceWeights::Copies::free_behind(StreamOrder& order) {
  const std::lock_guard lock(mutex_);
  order.begin(streams().freeing.handle());
}

}  // namespace toroid::cuda
