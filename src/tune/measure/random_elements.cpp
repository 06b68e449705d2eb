#include "tune/measure/random_elements.h"

#include <cstring>

#include "support/split_mix.h"
#include "tensor/host_tensor.h"

namespace toroid::tune {
namespace {

template <class T>
T element_of_bits(DType dtype, uint64_t bits) {
  if (dtype == DType::Bool) return static_cast<T>(bits & 1);
  if (!is_floating(dtype)) return static_cast<T>(static_cast<int>(bits & 15) - (is_signed(dtype) ? 8 : 0));
  return static_cast<T>(static_cast<float>(static_cast<int32_t>(bits >> 40)) * 0x1p-23f - 1.0f);
}

}  // namespace

void write_random_elements(DType dtype, std::span<std::byte> bytes, uint64_t seed) {
  SplitMix random(seed);
  visit_dtype(dtype, [&]<class T>(T) {
    for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      const T value = element_of_bits<T>(dtype, random.next());
      std::memcpy(bytes.data() + at, &value, sizeof value);
    }
  });
}

}  // namespace toroid::tune
