#include "api.h"

namespace toroid::python {
namespace {

// By status; toroid/errors.py has the classes.
constexpr const char* kClasses[] = {
    nullptr,      "ArgumentError", "InputError",       "DeviceError",    "PackageError",  "OutOfMemoryError",
    "SetupError", "NotFoundError", "UnsupportedError", "CancelledError", "DeadlineError", "InternalError",
};

template <class Table>
const Table& require(const Table* table) {
  if (table == nullptr) throw nb::import_error("libtoroid_python.so.1 beside toroid._core is older than it: install toroid anew");
  return *table;
}

}  // namespace

const ToroidApi& run_side() {
  static const ToroidApi& api = require(toroid_api(TOROID_API_VERSION));
  return api;
}

const ToroidCompilerApi& compiler() {
  static const ToroidCompilerApi& api = require(toroid_compiler(TOROID_COMPILER_VERSION));
  return api;
}

void raise_named(const char* class_name, const std::string& message) {
  const nb::object type = nb::module_::import_("toroid.errors").attr(class_name);
  PyErr_SetObject(type.ptr(), nb::str(message.c_str(), message.size()).ptr());
  throw nb::python_error();
}

void raise(ToroidStatus status, const char* message) {
  const bool known = status > 0 && status < static_cast<ToroidStatus>(std::size(kClasses));
  raise_named(known ? kClasses[status] : "InternalError", message);
}

}  // namespace toroid::python
