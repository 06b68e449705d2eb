// What toroid tells its host, as Python's functions; and the command.
#include <nanobind/stl/vector.h>

#include "api.h"

// In libtoroid_python.so; an ordinary libtoroid_compiler.so does without the command.
extern "C" __attribute__((weak)) int toroid_main(int argc, char** argv);

namespace toroid::python {
namespace {

// Kept for good: some thread of toroid's may be about to call it.
PyObject *log_function = nullptr, *progress_function = nullptr;

// Calls a Python function from any thread. Its errors are printed, for there is nobody to take them.
template <class... Args>
void call(PyObject* function, Args... arguments) {
  if (Py_IsInitialized() == 0) return;
  const nb::gil_scoped_acquire held;
  try {
    const nb::handle callee(function);
    callee(arguments...);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("a function that toroid calls");
  }
}

void set_log(nb::callable function, int least) {
  log_function = function.release().ptr();
  const nb::gil_scoped_release released;  // a thread that logs has a lock, and may wait for the GIL
  compiler().set_log([](void*, int32_t level, const char* line) { call(log_function, level, line); }, nullptr, least);
}

void set_progress(nb::callable function) {
  progress_function = function.release().ptr();
  const nb::gil_scoped_release released;
  compiler().set_progress([](void*, const char* what, int64_t done, int64_t total) { call(progress_function, what, done, total); },
                          nullptr);
}

// Before the interpreter ends.
void clear_hooks() {
  const nb::gil_scoped_release released;
  compiler().set_log(nullptr, nullptr, 0);
  compiler().set_progress(nullptr, nullptr);
}

void set_command(const std::vector<std::string>& arguments) {
  std::vector<const char*> texts;
  for (const std::string& each : arguments) texts.push_back(each.c_str());
  compiler().set_command(texts.data(), static_cast<int32_t>(texts.size()));
}

int run_command(std::vector<std::string> arguments) {
  if (toroid_main == nullptr) raise_named("UnsupportedError", "this build of the package has no command: use build/toroid");
  std::vector<char*> texts;
  for (std::string& each : arguments) texts.push_back(each.data());
  texts.push_back(nullptr);
  const nb::gil_scoped_release released;
  return toroid_main(static_cast<int>(arguments.size()), texts.data());
}

}  // namespace

void register_host(nb::module_& module) {
  module.def("set_log", set_log, nb::arg("function"), nb::arg("least"), "function(level, line) is told of the log, for good.");
  module.def("set_progress", set_progress, nb::arg("function"), "function(what, done, total) is told of work that may last, for good.");
  module.def("clear_hooks", clear_hooks);
  module.def("set_command", set_command, nb::arg("arguments"));
  module.def("run_command", run_command, nb::arg("arguments"), "The command `toroid`: the exit status. A process calls it once.");
}

}  // namespace toroid::python
