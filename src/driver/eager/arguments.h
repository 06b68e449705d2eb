// The arguments of one operator, as a framework that dispatches operators one at a time has them: tensors as windows on its own memory,
// numbers, lists and words, by position in the operator's schema.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/schema.h"
#include "tensor/host_tensor.h"

namespace toroid {

// A strided window on the caller's memory, borrowed for the call: neither the elements nor the lists of sizes and strides are copied.
struct TensorView {
  // Strides in elements; none: contiguous.
  TensorView(void* data, DType dtype, std::span<const int64_t> sizes, std::span<const int64_t> strides = {}, Device device = {})
      : data(data), sizes(sizes), strides(strides), dtype(dtype), device(device) {}
  // To be read only: a call that would write to it is refused.
  TensorView(const HostTensor& tensor)  // NOLINT: implicit, so that calls read well
      : data(const_cast<std::byte*>(tensor.bytes().data())), sizes(tensor.sizes()), dtype(tensor.dtype()), is_writable(false) {}

  void* data;  // of the first element
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
  DType dtype;
  Device device = {};
  bool is_writable = true;
};
// "f32[2, 3]", with strides where they were given.
std::string to_string(const TensorView& tensor);

using TensorViewList = std::span<const std::optional<TensorView>>;

// What is borrowed must live until the call is over. An `int` becomes an int64_t, a `float` a double.
using EagerArgument = std::variant<None, TensorView, TensorViewList, bool, int64_t, double, std::span<const bool>, std::span<const int64_t>,
                                   std::span<const double>, std::string_view, DType, Layout, Device, MemoryFormat>;

// A call whose arguments fit the operator's schema. Refers to the caller's arguments.
struct OperatorCall {
  struct Tensor {
    const TensorView* view;
    uint32_t parameter;  // in schema->parameters
    std::string name;    // the parameter's, with a number for elements of a list
  };
  const Schema* schema;
  std::vector<Tensor> tensors;      // lists flattened, in order
  std::vector<Argument> arguments;  // one per parameter; InputRefs count in `tensors`, integers are constants

  // "aten::add.Tensor(f32[2, 3], f32[3], 1)"
  std::string text() const;
};

// Throws Error{InvalidInput} for an operator that PyTorch does not have, with the overloads of that name, for too many or missing
// arguments, for one of the wrong kind, by its name, and for read-only memory that would be written; Error{Unsupported} for tensors that
// are not on the CPU.
OperatorCall check_call(std::string_view op, std::span<const EagerArgument> arguments);

// Appends bytes that are equal for two calls if and only if they have the same operator (by the same spelling), the same metadata of
// tensors (dtype, sizes, strides, device, whether the elements are aligned) and the same other arguments.
void append_call_key(std::string& key, std::string_view op, std::span<const EagerArgument> arguments);

// The tensors of a call alone, in the order of OperatorCall::tensors.
void append_tensors(std::vector<const TensorView*>& tensors, std::span<const EagerArgument> arguments);

inline bool is_aligned(const TensorView& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(size_bytes(tensor.dtype)) == 0;
}

}  // namespace toroid
