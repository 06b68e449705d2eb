#include "tensor/host_tensor.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/checked.h"
#include "base/error.h"
#include "base/fail.h"
#include "base/format.h"
#include "base/machine/out_of_memory.h"

namespace toroid {
namespace {

// Reads through memcpy: a file places its tensors at any alignment.
template <class T>
T load(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
constexpr bool kReduced = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
template <class T>
using Readable = std::conditional_t<kReduced<T>, float, T>;

// A double becomes a 16-bit float through float, as in PyTorch; an integer wraps.
template <class T, class Wide>
T narrowed(Wide value) {
  if constexpr (kReduced<T>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class Wide>
std::vector<Wide> widen(const HostTensor& tensor) {
  std::vector<Wide> values(static_cast<size_t>(tensor.numel()));
  const std::byte* data = tensor.bytes().data();
  visit_dtype(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<Wide>(static_cast<Readable<T>>(load<T>(data, static_cast<int64_t>(i))));
    }
  });
  return values;
}

template <class Wide>
HostTensor narrow(DType dtype, std::vector<int64_t> sizes, Span<const Wide> values) {
  HostTensor result(dtype, std::move(sizes));
  TOROID_CHECK(static_cast<int64_t>(values.size()) == result.numel(), "{} values for {}", values.size(), to_string(result));
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* out = result.mutable_data<T>();
    for (size_t i = 0; i < values.size(); ++i) out[i] = narrowed<T>(values[i]);
  });
  return result;
}

}  // namespace

HostTensor::HostTensor(DType dtype, std::vector<int64_t> sizes)
    : dtype_(dtype), sizes_(std::move(sizes)), numel_(toroid::numel(sizes_)), owned_(true) {
  const int64_t bytes = bytes_of(dtype, sizes_);
  void* block = ::operator new (static_cast<size_t>(bytes), std::align_val_t{64}, std::nothrow);
  if (block == nullptr) {
    out_of_memory(static_cast<uint64_t>(bytes), formatted("a tensor of shape {}", shape_text(sizes_)));
  }
  data_ = static_cast<std::byte*>(block);
  owner_ = std::shared_ptr<const void>(block, [](const void* p) { ::operator delete (const_cast<void*>(p), std::align_val_t{64}); });
}

HostTensor::HostTensor(DType dtype, std::vector<int64_t> sizes, std::shared_ptr<std::byte> block)
    : dtype_(dtype), sizes_(std::move(sizes)), numel_(toroid::numel(sizes_)), data_(block.get()), owner_(std::move(block)), owned_(true) {}

HostTensor::HostTensor(DType dtype, std::vector<int64_t> sizes, Span<const std::byte> bytes, std::shared_ptr<const void> owner)
    : dtype_(dtype), sizes_(std::move(sizes)), numel_(toroid::numel(sizes_)), data_(bytes.data()), owner_(std::move(owner)) {
  TOROID_CHECK(static_cast<int64_t>(bytes.size()) == bytes_of(dtype, sizes_), "{} bytes for {}", bytes.size(), to_string(*this));
}

std::byte* HostTensor::writable() {
  TOROID_CHECK(owned_ && owner_.use_count() == 1, "a shared tensor is not written to");
  return const_cast<std::byte*>(data_);
}

double HostTensor::double_at(int64_t index) const {
  return visit_dtype(dtype_, [&](auto zero) {
    using T = decltype(zero);
    return static_cast<double>(static_cast<Readable<T>>(load<T>(data_, index)));
  });
}

int64_t HostTensor::int_at(int64_t index) const {
  return visit_dtype(dtype_, [&](auto zero) {
    using T = decltype(zero);
    return static_cast<int64_t>(static_cast<Readable<T>>(load<T>(data_, index)));
  });
}

bool HostTensor::bool_at(int64_t index) const { return double_at(index) != 0; }

std::vector<double> HostTensor::to_doubles() const { return widen<double>(*this); }
std::vector<int64_t> HostTensor::to_ints() const { return widen<int64_t>(*this); }

HostTensor HostTensor::from_doubles(DType dtype, std::vector<int64_t> sizes, Span<const double> values) {
  TOROID_CHECK(is_floating(dtype), "doubles stored as {}", toroid::to_string(dtype));
  return narrow(dtype, std::move(sizes), values);
}

HostTensor HostTensor::from_ints(DType dtype, std::vector<int64_t> sizes, Span<const int64_t> values) {
  return narrow(dtype, std::move(sizes), values);
}

HostTensor HostTensor::reshaped(std::vector<int64_t> sizes) const {
  TOROID_CHECK(toroid::numel(sizes) == numel_, "{} reshaped to {}", to_string(*this), shape_text(sizes));
  HostTensor result = *this;
  result.sizes_ = std::move(sizes);
  return result;
}

HostTensor HostTensor::bitcast(DType dtype) const {
  TOROID_CHECK(size_bytes(dtype) == size_bytes(dtype_), "a bitcast of {} to {}", to_string(*this), toroid::to_string(dtype));
  HostTensor result = *this;
  result.dtype_ = dtype;
  return result;
}

namespace {

// The product of sizes and `factor`.
int64_t counted(Span<const int64_t> sizes, int64_t factor) {
  Checked count = factor;
  for (int64_t size : sizes) {
    TOROID_CHECK(size >= 0, "a size of {}", size);
    if (size == 0) return 0;
    count *= size;
  }
  if (const std::optional<int64_t> value = count.value()) return *value;
  fail(ErrorKind::InvalidInput, "a tensor of shape {} is too large", shape_text(sizes));
}

}  // namespace

int64_t numel(Span<const int64_t> sizes) { return counted(sizes, 1); }
int64_t bytes_of(DType dtype, Span<const int64_t> sizes) { return counted(sizes, size_bytes(dtype)); }

std::vector<int64_t> strides_of(Span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  uint64_t stride = 1;  // of sizes that no tensor can have it wraps, and means nothing
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(std::max<int64_t>(sizes[d], 1));
  }
  return strides;
}

std::string shape_text(Span<const int64_t> sizes) { return formatted("[{}]", joined(sizes, ", ")); }
std::string to_string(const HostTensor& tensor) { return formatted("{}{}", to_string(tensor.dtype()), shape_text(tensor.sizes())); }

void unsupported_dtype(DType dtype) { fail(ErrorKind::Unsupported, "toroid does not compute with dtype {}", to_string(dtype)); }

}  // namespace toroid
