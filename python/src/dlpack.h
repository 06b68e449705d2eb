// What DLPack has beyond toroid.h: versioned tensors, and the table of functions by which frameworks exchange them without Python.
//
// The layouts are those of dlpack.h 1.3 (https://github.com/dmlc/dlpack), which gives them names that toroid.h has already.
#pragma once

#include <cstdint>

#include "toroid/toroid.h"

namespace toroid::python {

constexpr uint32_t kDlpackMajor = 1, kDlpackMinor = 1;
constexpr uint64_t kDlpackReadOnly = 1;

struct DlpackVersion {
  uint32_t major, minor;
};

struct VersionedTensor {
  DlpackVersion version;
  void* manager_ctx;
  void (*deleter)(VersionedTensor* self);
  uint64_t flags;
  DLTensor dl_tensor;
};

// The attribute __dlpack_c_exchange_api__ of a tensor's type: a capsule with this table. Functions that take Python objects set a Python
// error and give -1 where they fail.
struct ExchangeApi {
  DlpackVersion version;
  ExchangeApi* previous;
  int (*allocate)(DLTensor* prototype, VersionedTensor** out, void* error_ctx, void (*set_error)(void*, const char*, const char*));
  int (*managed_tensor_from_object)(void* object, VersionedTensor** out);
  int (*object_from_managed_tensor)(VersionedTensor* tensor, void** object);
  int (*tensor_from_object)(void* object, DLTensor* out);  // may be null
  int (*current_work_stream)(int32_t device_type, int32_t device_id, void** stream);
};

}  // namespace toroid::python
