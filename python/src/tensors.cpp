// toroid.Tensor, and its way into other libraries.

#include "arrays.h"

namespace toroid::python {
namespace {

bool is_on_cpu(const DLTensor& tensor) { return tensor.device.device_type == kDLCPU; }

size_t element_bytes(DLDataType dtype) { return dtype.bits / 8; }

int64_t count(const DLTensor& tensor) {
  int64_t result = 1;
  for (int32_t i = 0; i < tensor.ndim; ++i) result *= tensor.shape[i];
  return result;
}

// Strides of rows without gaps, where the tensor says none.
std::vector<int64_t> strides_of(const DLTensor& tensor) {
  std::vector<int64_t> result(static_cast<size_t>(tensor.ndim));
  int64_t step = 1;
  for (int32_t i = tensor.ndim; i-- > 0;) {
    result[static_cast<size_t>(i)] = tensor.strides != nullptr ? tensor.strides[i] : step;
    step *= tensor.shape[i];
  }
  return result;
}

nb::tuple tuple_of(const int64_t* values, int32_t count) {
  nb::list result;
  for (int32_t i = 0; i < count; ++i) result.append(values[i]);
  return nb::tuple(result);
}

char* data_of(const DLTensor& tensor) { return static_cast<char*>(tensor.data) + tensor.byte_offset; }

// ---- DLPack: each export is a struct of its own, which keeps the memory. No deleter needs Python. ----

struct Export {
  VersionedTensor versioned{};
  DLManagedTensor managed{};
  std::shared_ptr<DLManagedTensor> owner;
};

VersionedTensor* versioned_export(const Tensor& tensor) {
  auto* made = new Export{.owner = tensor.owner()};
  made->versioned = {{kDlpackMajor, kDlpackMinor},
                     made,
                     [](VersionedTensor* self) { delete static_cast<Export*>(self->manager_ctx); },
                     0,
                     tensor.dlpack()};
  return &made->versioned;
}

DLManagedTensor* managed_export(const Tensor& tensor) {
  auto* made = new Export{.owner = tensor.owner()};
  made->managed = {tensor.dlpack(), made, [](DLManagedTensor* self) { delete static_cast<Export*>(self->manager_ctx); }};
  return &made->managed;
}

// A capsule that nobody has taken gives its tensor back.
template <class Managed>
nb::object capsule_of(Managed* tensor, const char* name) {
  PyObject* capsule = PyCapsule_New(tensor, name, [](PyObject* self) {
    const char* own = PyCapsule_GetName(self);
    if (own == nullptr || (std::string_view(own) != "dltensor" && std::string_view(own) != "dltensor_versioned")) return;
    auto* unused = static_cast<Managed*>(PyCapsule_GetPointer(self, own));
    unused->deleter(unused);
  });
  if (capsule == nullptr) {
    tensor->deleter(tensor);
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

// Whatever the stream that the consumer names: the call that made the tensor has waited for its work (models.cpp).
nb::object to_dlpack(const Tensor& self, nb::object, nb::object max_version, nb::object dl_device, nb::object copy) {
  const DLTensor& tensor = self.dlpack();
  if (!dl_device.is_none() && !nb::make_tuple(tensor.device.device_type, tensor.device.device_id).equal(dl_device))
    throw nb::buffer_error("a toroid.Tensor is exported where it is, not to another device");
  if (copy.ptr() == Py_True) throw nb::buffer_error("a toroid.Tensor is exported without a copy");
  if (!max_version.is_none() && nb::cast<int>(max_version[0]) >= 1) return capsule_of(versioned_export(self), "dltensor_versioned");
  return capsule_of(managed_export(self), "dltensor");
}

// ---- the buffer protocol ----

// nullptr: the protocol has no such elements.
const char* format_of(DLDataType dtype) {
  const uint8_t bits = dtype.bits;
  switch (dtype.code) {
    case kDLBool: return "?";
    case kDLInt: return bits == 8 ? "b" : bits == 16 ? "h" : bits == 32 ? "i" : "q";
    case kDLUInt: return bits == 8 ? "B" : bits == 16 ? "H" : bits == 32 ? "I" : "Q";
    case kDLFloat: return bits == 16 ? "e" : bits == 32 ? "f" : "d";
    case kDLComplex: return bits == 64 ? "Zf" : bits == 128 ? "Zd" : nullptr;
    default: return nullptr;
  }
}

int get_buffer(PyObject* object, Py_buffer* view, int flags) {
  const auto& self = *nb::inst_ptr<Tensor>(nb::handle(object));
  const DLTensor& tensor = self.dlpack();
  const char* format = format_of(tensor.dtype);
  if (!is_on_cpu(tensor) || format == nullptr) {
    PyErr_Format(PyExc_BufferError, "a tensor of %s %s has no buffer: use __dlpack__", dtype_name(tensor.dtype).c_str(),
                 is_on_cpu(tensor) ? "" : "on a GPU");
    view->obj = nullptr;
    return -1;
  }
  const auto rank = static_cast<size_t>(tensor.ndim);
  const auto bytes = static_cast<Py_ssize_t>(element_bytes(tensor.dtype));
  auto* layout = new Py_ssize_t[2 * rank + 1];
  const std::vector<int64_t> strides = strides_of(tensor);
  for (size_t i = 0; i < rank; ++i) {
    layout[i] = tensor.shape[i];
    layout[rank + i] = strides[i] * bytes;
  }
  view->obj = object;
  Py_INCREF(object);
  view->buf = data_of(tensor);
  view->len = count(tensor) * bytes;
  view->itemsize = bytes;
  view->readonly = 0;
  view->ndim = tensor.ndim;
  view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
  view->shape = layout;
  view->strides = layout + rank;
  view->suboffsets = nullptr;
  view->internal = layout;
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) { delete[] static_cast<Py_ssize_t*>(view->internal); }

PyType_Slot kTensorSlots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)}, {0, nullptr}};

// ---- other libraries ----

nb::object to_numpy(const nb::object& self) {
  const Tensor& tensor = nb::cast<const Tensor&>(self);
  const nb::object as_array = nb::module_::import_("numpy").attr("asarray");
  if (tensor.dlpack().dtype.code != kDLBfloat) return as_array(self);
  return nb::module_::import_("toroid._arrays").attr("bfloat16_array")(self);
}

nb::object to_torch(const nb::object& self) { return nb::module_::import_("torch").attr("from_dlpack")(self); }

nb::object to_jax(const nb::object& self) { return nb::module_::import_("jax.dlpack").attr("from_dlpack")(self); }

}  // namespace

Tensor::Tensor(DLManagedTensor* tensor)
    : tensor_(tensor, [](DLManagedTensor* each) {
        if (each->deleter != nullptr) each->deleter(each);
      }) {}

nb::object converted(Tensor tensor, Kind kind, const ExchangeApi* exchange) {
  if (kind == Kind::Torch && exchange != nullptr) {
    void* object = nullptr;
    if (exchange->object_from_managed_tensor(versioned_export(tensor), &object) != 0) throw nb::python_error();
    return nb::steal(static_cast<PyObject*>(object));
  }
  nb::object self = nb::cast(std::move(tensor));
  switch (kind) {
    case Kind::Numpy: return is_on_cpu(nb::cast<const Tensor&>(self).dlpack()) ? to_numpy(self) : self;
    case Kind::Torch: return to_torch(self);
    case Kind::Jax: return to_jax(self);
    case Kind::Toroid: break;
  }
  return self;
}

void register_arrays(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor", nb::type_slots(kTensorSlots),
                     "A result in memory of toroid's. NumPy, PyTorch, JAX and others take it without a copy: by DLPack, or on a CPU by the "
                     "buffer protocol.")
      .def("__dlpack__", to_dlpack, nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
           nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(), "The tensor as a capsule of DLPack.")
      .def(
          "__dlpack_device__",
          [](const Tensor& self) { return nb::make_tuple(self.dlpack().device.device_type, self.dlpack().device.device_id); },
          "Where the tensor is, as DLPack says: (1, 0) a CPU, (2, i) the GPU i.")
      .def_prop_ro(
          "shape", [](const Tensor& self) { return tuple_of(self.dlpack().shape, self.dlpack().ndim); }, "The sizes.")
      .def_prop_ro(
          "strides",
          [](const Tensor& self) {
            const std::vector<int64_t> strides = strides_of(self.dlpack());
            return tuple_of(strides.data(), self.dlpack().ndim);
          },
          "Steps from element to element of each dimension, in elements.")
      .def_prop_ro(
          "ndim", [](const Tensor& self) { return self.dlpack().ndim; }, "How many dimensions.")
      .def_prop_ro(
          "size", [](const Tensor& self) { return count(self.dlpack()); }, "How many elements.")
      .def_prop_ro(
          "nbytes", [](const Tensor& self) { return count(self.dlpack()) * static_cast<int64_t>(element_bytes(self.dlpack().dtype)); },
          "Bytes of all elements.")
      .def_prop_ro(
          "dtype", [](const Tensor& self) { return dtype_name(self.dlpack().dtype); }, "As in \"float32\".")
      .def_prop_ro(
          "device",
          [](const Tensor& self) {
            const DLDevice device = self.dlpack().device;
            return device.device_type == kDLCPU ? std::string("cpu") : "cuda:" + std::to_string(device.device_id);
          },
          "\"cpu\" or \"cuda:0\".")
      .def_prop_ro(
          "data_ptr", [](const Tensor& self) { return reinterpret_cast<uintptr_t>(data_of(self.dlpack())); },
          "The address of the first element.")
      .def("numpy", to_numpy, "The tensor as a NumPy array on the same memory.")
      .def("torch", to_torch, "The tensor as a torch.Tensor on the same memory.")
      .def("jax", to_jax, "The tensor as a jax.Array, on the same memory where JAX's alignment allows it.")
      .def("__len__",
           [](const Tensor& self) {
             if (self.dlpack().ndim == 0) throw nb::type_error("a tensor of rank 0 has no len()");
             return self.dlpack().shape[0];
           })
      .def("__reduce__",
           [](const nb::object&) -> nb::object { throw nb::type_error("a toroid.Tensor is not pickled or copied: take its .numpy()"); });
}

}  // namespace toroid::python
