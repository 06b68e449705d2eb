// toroid._core: toroid's interface in C as Python sees it. toroid/__init__.py has what users call.
#include "api.h"

namespace toroid::python {

void register_arrays(nb::module_& module);
void register_host(nb::module_& module);
void register_models(nb::module_& module);
#ifdef TOROID_PYTHON_GRAPH_BUILDER
void register_graph_builder(nb::module_& module);
#endif

}  // namespace toroid::python

NB_MODULE(_core, module) {
  nanobind::set_leak_warnings(false);  // caches of others, as Dynamo's, hold programs until the process ends
  module.attr("description") = toroid::python::run_side().description;
  toroid::python::register_arrays(module);
  toroid::python::register_models(module);
  toroid::python::register_host(module);
#ifdef TOROID_PYTHON_GRAPH_BUILDER
  toroid::python::register_graph_builder(module);
#endif
}
