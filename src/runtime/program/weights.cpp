#include "runtime/program/weights.h"

#include "runtime/contract/contract.h"
#include "runtime/program/loaded_variant.h"

namespace toroid {

char* Weights::prepared(const LoadedVariant& variant, size_t position, RuntimeCallbacks& host, std::string_view name) const {
  if (variant.tables.prepared_bytes == 0) return nullptr;
  return prepared_[position].get([&] {
    std::vector<const void*> its;
    for (int32_t each : rows(variant.tables.constants, variant.tables.num_constants)) its.push_back(constants_[static_cast<size_t>(each)]);
    return variant.prepare_in_memory(host, name, its.data(), memory_ ? &*memory_ : nullptr);
  });
}

}  // namespace toroid
