#include "arrays.h"

#include <cstring>
#include <deque>
#include <utility>

namespace toroid::python {
namespace {

std::string name_of_type(nb::handle object) { return nb::cast<std::string>(object.type().attr("__qualname__")); }

std::string root_module(nb::handle type) {
  const nb::object module = nb::getattr(type, "__module__", nb::str(""));
  std::string name = nb::isinstance<nb::str>(module) ? nb::cast<std::string>(module) : "";
  return name.substr(0, name.find('.'));
}

// A subclass is what its first known ancestor is.
Kind kind_of(nb::handle type) {
  for (nb::handle each : nb::cast<nb::tuple>(type.attr("__mro__"))) {
    const std::string root = root_module(each);
    if (root == "numpy") return Kind::Numpy;
    if (root == "torch") return Kind::Torch;
    if (root == "jax" || root == "jaxlib") return Kind::Jax;
  }
  return Kind::Toroid;
}

const ExchangeApi* exchange_of(nb::handle type) {
  const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  const auto* api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (api != nullptr && api->version.major > kDlpackMajor) api = api->previous;
  return api != nullptr && api->version.major == kDlpackMajor && api->tensor_from_object != nullptr ? api : nullptr;
}

// The dtype of a format of the struct module, for one element of so many bytes; bits 0: there is none.
DLDataType dtype_of_format(const char* format, int64_t bytes) {
  if (format == nullptr) format = "B";
  if (*format == '<' || *format == '=' || *format == '@') ++format;
  const auto bits = static_cast<uint8_t>(8 * bytes);
  if (format[0] == 'Z' && (format[1] == 'f' || format[1] == 'd') && format[2] == 0) return {kDLComplex, bits, 1};
  if (format[0] == 0 || format[1] != 0) return {};
  if (*format == '?') return {kDLBool, 8, 1};
  if (std::strchr("bhilqn", *format) != nullptr) return {kDLInt, bits, 1};
  if (std::strchr("BHILQN", *format) != nullptr) return {kDLUInt, bits, 1};
  if (std::strchr("efd", *format) != nullptr) return {kDLFloat, bits, 1};
  return {};
}

bool is_true(nb::handle object, const char* attribute) {
  const nb::object value = nb::getattr(object, attribute, nb::none());
  return value.ptr() == Py_True;
}

bool gradients_are_on() { return nb::cast<bool>(nb::module_::import_("torch").attr("is_grad_enabled")()); }

// A torch.Tensor may stand for the negative or the conjugate of what is in its memory: then a copy that does not; else nothing.
nb::object resolved(nb::handle object) {
  if (!nb::cast<bool>(object.attr("is_neg")()) && !nb::cast<bool>(object.attr("is_conj")())) return {};
  return object.attr("resolve_neg")().attr("resolve_conj")();
}

// A compiled program gives no gradients, so a caller who expects some is told.
void refuse_gradient(nb::handle object, const char* name) {
  if (is_true(object, "requires_grad") && gradients_are_on())
    raise_named("InputError", "input '" + std::string(name) +
                                  "' requires a gradient, which a compiled program does not give: pass x.detach(), or call "
                                  "under torch.no_grad()");
}

}  // namespace

Kind kind_named(const char* name) {
  constexpr std::pair<const char*, Kind> kKinds[] = {
      {"toroid", Kind::Toroid}, {"numpy", Kind::Numpy}, {"torch", Kind::Torch}, {"jax", Kind::Jax}};
  for (const auto& [each, kind] : kKinds)
    if (std::strcmp(each, name) == 0) return kind;
  raise_named("ArgumentError", "results are 'numpy', 'torch', 'jax' or 'toroid', not '" + std::string(name) + "'");
}

// Few types ever come, and each is kept for good, so that its address stays its own.
const ArrayType& array_type(PyTypeObject* type) {
  static std::deque<std::pair<PyTypeObject*, ArrayType>>& types = *new std::deque<std::pair<PyTypeObject*, ArrayType>>;
  for (const auto& [each, known] : types)
    if (each == type) return known;
  const nb::handle handle(reinterpret_cast<PyObject*>(type));
  ArrayType made{kind_of(handle), exchange_of(handle)};
  handle.inc_ref();
  types.emplace_back(type, made);
  return types.back().second;
}

void Argument::release() {
  if (buffer_ != nullptr) PyBuffer_Release(buffer_.get());
  buffer_.reset();
  capsule_.reset();
}

bool Argument::set_from_exchange(nb::handle object, const char* name) {
  if (exchange_ == nullptr) return false;
  if (kind_ == Kind::Torch) {
    refuse_gradient(object, name);
    capsule_ = resolved(object);
    if (capsule_.is_valid()) object = capsule_;
  }
  if (exchange_->tensor_from_object(object.ptr(), &tensor_) != 0) throw nb::python_error();
  return true;
}

bool Argument::set_from_buffer(nb::handle object, const char* name) {
  if (!PyObject_CheckBuffer(object.ptr())) return false;
  buffer_ = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), buffer_.get(), PyBUF_RECORDS_RO) != 0) {
    buffer_.reset();
    PyErr_Clear();
    return false;
  }
  const DLDataType dtype = dtype_of_format(buffer_->format, buffer_->itemsize);
  if (dtype.bits == 0)
    raise_named("InputError", "input '" + std::string(name) + "' has elements of the format '" +
                                  (buffer_->format == nullptr ? "" : buffer_->format) + "', which no tensor has");
  const auto rank = static_cast<size_t>(buffer_->ndim);
  sizes_.resize(2 * rank);
  for (size_t i = 0; i < rank; ++i) {
    sizes_[i] = buffer_->shape[i];
    if (buffer_->strides[i] % buffer_->itemsize != 0)
      raise_named("InputError", "input '" + std::string(name) + "' has a stride of " + std::to_string(buffer_->strides[i]) +
                                    " bytes, no multiple of its elements' size: pass a copy");
    sizes_[rank + i] = buffer_->strides[i] / buffer_->itemsize;
  }
  tensor_ = {buffer_->buf, {kDLCPU, 0}, buffer_->ndim, dtype, sizes_.data(), sizes_.data() + rank, 0};
  return true;
}

// NumPy arrays of ml_dtypes.bfloat16 have no buffer; their bits have.
bool Argument::set_from_bfloat16(nb::handle object, const char* name) {
  if (kind_ != Kind::Numpy) return false;
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  if (nb::cast<std::string>(nb::str(dtype)) != "bfloat16") return false;
  capsule_ = object.attr("view")("uint16");
  if (!set_from_buffer(capsule_, name)) return false;
  tensor_.dtype = {kDLBfloat, 16, 1};
  return true;
}

bool Argument::set_from_dlpack(nb::handle object, const char* name) {
  nb::object export_tensor = nb::getattr(object, "__dlpack__", nb::none());
  if (export_tensor.is_none()) return false;
  nb::object copy;
  if (kind_ == Kind::Torch) {
    refuse_gradient(object, name);
    copy = resolved(object);
    if (!copy.is_valid() && is_true(object, "requires_grad")) copy = object.attr("detach")();  // __dlpack__ refuses it, whatever the mode
    if (copy.is_valid()) export_tensor = copy.attr("__dlpack__");
  }
  nb::dict options;
  const nb::object device_of = nb::getattr(object, "__dlpack_device__", nb::none());
  if (device_of.is_none() && kind_ == Kind::Jax)
    raise_named("InputTypeError", "input '" + std::string(name) +
                                      "' is a value that JAX traces: call the model outside of jax.jit, or in it by jax.pure_callback");
  if (device_of.is_none()) return false;
  nb::object device;
  try {
    device = device_of();
  } catch (nb::python_error& error) {  // as of PyTorch's meta tensors
    raise_named("InputError", "input '" + std::string(name) + "': " + nb::cast<std::string>(nb::str(error.value())));
  }
  // What is in the object is there for the default stream of its GPU.
  if (nb::cast<int>(device[0]) == kDLCUDA) options["stream"] = 1;
  try {
    options["max_version"] = nb::make_tuple(kDlpackMajor, kDlpackMinor);
    capsule_ = export_tensor(**options);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    PyDict_DelItemString(options.ptr(), "max_version");  // made before DLPack 1.0
    capsule_ = export_tensor(**options);
  }
  // The capsule keeps its name, so that its own destructor gives the tensor back.
  if (PyCapsule_IsValid(capsule_.ptr(), "dltensor_versioned")) {
    const auto* tensor = static_cast<const VersionedTensor*>(PyCapsule_GetPointer(capsule_.ptr(), "dltensor_versioned"));
    if (tensor->version.major != kDlpackMajor)
      raise_named("InputError", "input '" + std::string(name) + "' speaks version " + std::to_string(tensor->version.major) +
                                    " of DLPack, " + "toroid version 1");
    tensor_ = tensor->dl_tensor;
  } else if (PyCapsule_IsValid(capsule_.ptr(), "dltensor")) {
    tensor_ = static_cast<const DLManagedTensor*>(PyCapsule_GetPointer(capsule_.ptr(), "dltensor"))->dl_tensor;
  } else {
    raise_named("InputTypeError", "input '" + std::string(name) + "': __dlpack__ of '" + name_of_type(object) + "' gave no tensor");
  }
  return true;
}

bool Argument::set_from_number(nb::handle object, const char* name, DLDataType wanted) {
  const bool is_bool = PyBool_Check(object.ptr()), is_int = PyLong_Check(object.ptr()) && !is_bool, is_float = PyFloat_Check(object.ptr());
  if (!is_bool && !is_int && !is_float) return false;
  tensor_ = {number_, {kDLCPU, 0}, 0, wanted, nullptr, nullptr, 0};
  const auto put = [&](auto value) { std::memcpy(number_, &value, sizeof value); };
  if (is_bool && wanted.code == kDLBool) {
    put(static_cast<uint8_t>(object.ptr() == Py_True));
  } else if (is_int && wanted.code == kDLInt && wanted.bits == 64) {
    const long long value = PyLong_AsLongLong(object.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    put(static_cast<int64_t>(value));
  } else if (!is_bool && wanted.code == kDLFloat && wanted.bits >= 32) {
    const double value = PyFloat_AsDouble(object.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (wanted.bits == 64)
      put(value);
    else
      put(static_cast<float>(value));
  } else {
    raise_named("InputTypeError", "input '" + std::string(name) + "' is of dtype " + dtype_name(wanted) +
                                      ", and got a number of Python's type '" + name_of_type(object) + "': pass an array of rank 0");
  }
  return true;
}

void Argument::set(nb::handle object, const char* name, DLDataType wanted) {
  const ArrayType& type = array_type(reinterpret_cast<PyTypeObject*>(object.type().ptr()));
  kind_ = type.kind;
  exchange_ = type.exchange;
  if (set_from_exchange(object, name) || set_from_buffer(object, name) || set_from_bfloat16(object, name) ||
      set_from_dlpack(object, name) || set_from_number(object, name, wanted))
    return;
  raise_named("InputTypeError", "input '" + std::string(name) + "' is no array but of type '" + name_of_type(object) +
                                    "': pass an array of NumPy, PyTorch or JAX, or another object that has __dlpack__ or a buffer");
}

std::string dtype_name(DLDataType dtype) {
  if (dtype.code == kDLBool) return "bool";
  if (dtype.code == kDLBfloat) return "bfloat16";
  const char* name = dtype.code == kDLInt ? "int" : dtype.code == kDLUInt ? "uint" : dtype.code == kDLFloat ? "float" : "complex";
  return name + std::to_string(dtype.bits);
}

}  // namespace toroid::python
