// In the place of each function that a package leaves out (codegen/wrapper/package_entry.h): no plan for its machines and shapes takes one.
#include "base/error.h"

extern "C" void toroid_absent_code() { TOROID_CHECK(false, "the package was linked without a function that it needs"); }
