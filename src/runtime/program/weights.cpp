#include "runtime/program/weights.h"

#include "runtime/contract/contract.h"
#include "runtime/program/loaded_variant.h"

namespace toroid {

char* Weights::prepared(const LoadedVariant& variant, size_t position, RuntimeCallbacks& host, std::string_view name) const {
  if (variant.tables.prepared_bytes == 0) return nullptr;
  // Not std::call_once, which would bring the C++ library's thread-local objects into each package.
  Prepared& prepared = prepared_[position];
  if (char* const known = prepared.data.load(std::memory_order_acquire)) return known;
  const std::lock_guard lock(prepared.mutex);
  if (!prepared.bytes) {
    std::vector<const void*> its;
    for (int32_t each : rows(variant.tables.constants, variant.tables.num_constants)) its.push_back(constants_[static_cast<size_t>(each)]);
    prepared.bytes = variant.prepare_in_memory(host, name, its.data(), memory_ ? &*memory_ : nullptr);
    prepared.data.store(prepared.bytes->data(), std::memory_order_release);
  }
  return prepared.bytes->data();
}

}  // namespace toroid
