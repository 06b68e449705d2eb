// A dense array in host memory: what the evaluator computes on, and what goes in and out of it.
//
// Contiguous and row-major; the bytes are its own or borrowed from an owner it keeps alive (a mapped file, a caller's
// array). Copies share the bytes, which are written only while they are being made:
//
//   HostTensor x(DType::F32, {2, 3});
//   x.mutable_data<float>()[0] = 1;
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/float16.h"
#include "base/span.h"
#include "tensor/dtype.h"

namespace toroid {

class HostTensor {
 public:
  HostTensor() = default;  // f32, one element, no bytes: assign before use
  // Uninitialised bytes. Throws Error{Environment} when memory runs out, Error{InvalidInput} for a size beyond 2^63
  // bytes.
  HostTensor(DType dtype, std::vector<int64_t> sizes);
  // Uninitialised bytes in memory that was got elsewhere: at least as many as dtype and sizes say, and nobody else's.
  HostTensor(DType dtype, std::vector<int64_t> sizes, std::shared_ptr<std::byte> block);
  // Borrowed; `bytes` is exactly as long as dtype and sizes say.
  HostTensor(DType dtype, std::vector<int64_t> sizes, Span<const std::byte> bytes, std::shared_ptr<const void> owner);

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  int64_t rank() const { return static_cast<int64_t>(sizes_.size()); }
  int64_t numel() const { return numel_; }
  Span<const std::byte> bytes() const { return {data_, static_cast<size_t>(numel_ * size_bytes(dtype_))}; }

  // T must be as wide as the dtype. Borrowed bytes may lie at any alignment: use it for bytes made here, else
  // to_doubles()….
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(data_);
  }
  // Only on a tensor made with its own bytes and not copied yet.
  template <class T>
  T* mutable_data() {
    return reinterpret_cast<T*>(writable());
  }

  // One element, converted as C++ does; Bool is 0 or 1.
  double double_at(int64_t index) const;
  int64_t int_at(int64_t index) const;
  bool bool_at(int64_t index) const;

  // All elements, widened without loss (to_doubles: floats; to_ints: integers and Bool), and back: rounded to nearest
  // even and wrapped, which is how every operation of the evaluator ends.
  std::vector<double> to_doubles() const;
  std::vector<int64_t> to_ints() const;
  static HostTensor from_doubles(DType dtype, std::vector<int64_t> sizes, Span<const double> values);
  static HostTensor from_ints(DType dtype, std::vector<int64_t> sizes, Span<const int64_t> values);

  // The same elements under other sizes, or the same bits under a dtype of equal width; shares the bytes.
  HostTensor reshaped(std::vector<int64_t> sizes) const;
  HostTensor bitcast(DType dtype) const;

 private:
  std::byte* writable();

  DType dtype_ = DType::F32;
  std::vector<int64_t> sizes_;
  int64_t numel_ = 1;
  const std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
  bool owned_ = false;
};

// Elements and bytes. Throw Error{InvalidInput} where there are more than 63 bits count.
int64_t numel(Span<const int64_t> sizes);
int64_t bytes_of(DType dtype, Span<const int64_t> sizes);
std::vector<int64_t> strides_of(Span<const int64_t> sizes);  // contiguous, in elements
std::string shape_text(Span<const int64_t> sizes);           // "[2, 3]"
std::string to_string(const HostTensor& tensor);             // "f32[2, 3]", without elements

[[noreturn]] void unsupported_dtype(DType dtype);

// Calls `f` with a value of the C++ type that stores `dtype` (uint8_t for Bool). Throws Error{Unsupported} for the
// dtypes that toroid does not compute with.
template <class F>
decltype(auto) visit_dtype(DType dtype, F f) {
  switch (dtype) {
    case DType::Bool:
    case DType::U8: return f(uint8_t{});
    case DType::I8: return f(int8_t{});
    case DType::I16: return f(int16_t{});
    case DType::I32: return f(int32_t{});
    case DType::I64: return f(int64_t{});
    case DType::U16: return f(uint16_t{});
    case DType::U32: return f(uint32_t{});
    case DType::U64: return f(uint64_t{});
    case DType::F16: return f(Float16{});
    case DType::BF16: return f(BFloat16{});
    case DType::F32: return f(float{});
    case DType::F64: return f(double{});
    default: unsupported_dtype(dtype);
  }
}

}  // namespace toroid
