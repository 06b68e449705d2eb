// Arrays of other libraries as inputs, and outputs as arrays of theirs; nothing is copied either way.
//
// An input is read by the first of these that its type has: DLPack's table of functions (PyTorch 2.10 and later: no Python in the way),
// the buffer protocol (NumPy), __dlpack__ (all others). A number is an array of rank 0.
#pragma once

#include <memory>
#include <vector>

#include "api.h"
#include "dlpack.h"

namespace toroid::python {

// Whose arrays results become.
enum class Kind { Toroid, Numpy, Torch, Jax };
Kind kind_named(const char* name);  // "toroid", "numpy", "torch", "jax"; else ArgumentError

// What arrays of a Python type are.
struct ArrayType {
  Kind kind = Kind::Toroid;
  const ExchangeApi* exchange = nullptr;
};
const ArrayType& array_type(PyTypeObject* type);

// One input while a call runs. The Python object must live as long; but for what release() drops no Python is needed then.
class Argument {
 public:
  Argument() = default;
  Argument(const Argument&) = delete;
  Argument& operator=(const Argument&) = delete;
  ~Argument() { release(); }

  // name: of the input, for errors. wanted: its dtype, for numbers and for nothing else.
  void set(nb::handle object, const char* name, DLDataType wanted);
  // Needs the GIL.
  void release();
  const DLTensor* tensor() const { return &tensor_; }
  Kind kind() const { return kind_; }
  const ExchangeApi* exchange() const { return exchange_; }

 private:
  bool set_from_exchange(nb::handle object, const char* name);
  bool set_from_buffer(nb::handle object, const char* name);
  bool set_from_bfloat16(nb::handle object, const char* name);
  bool set_from_dlpack(nb::handle object, const char* name);
  bool set_from_number(nb::handle object, const char* name, DLDataType wanted);

  DLTensor tensor_{};
  Kind kind_ = Kind::Toroid;
  const ExchangeApi* exchange_ = nullptr;
  std::unique_ptr<Py_buffer> buffer_;
  std::vector<int64_t> sizes_;  // and strides, of a buffer
  nb::object capsule_;
  alignas(16) unsigned char number_[16] = {};
};

// An output, toroid.Tensor in Python. Whoever has a part of it keeps the memory.
class Tensor {
 public:
  explicit Tensor(DLManagedTensor* tensor);
  // Memory of somebody else's, who is kept.
  const DLTensor& dlpack() const { return tensor_->dl_tensor; }
  const std::shared_ptr<DLManagedTensor>& owner() const { return tensor_; }

 private:
  std::shared_ptr<DLManagedTensor> tensor_;
};

// The output as an array of `kind`; exchange: the table of that kind, if there is one.
nb::object converted(Tensor tensor, Kind kind, const ExchangeApi* exchange);

// "float32", as NumPy and PyTorch say.
std::string dtype_name(DLDataType dtype);

void register_arrays(nb::module_& module);

}  // namespace toroid::python
