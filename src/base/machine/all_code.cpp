// Of toroid and the run library. A package that leaves code out has one of its own, and this file is not linked.
#include "base/machine/machine.h"

namespace toroid {

const char* const toroid_linked_code = nullptr;

}  // namespace toroid
