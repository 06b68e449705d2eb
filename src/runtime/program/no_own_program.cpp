// Of toroid and the run library. A package has one of its own, and this file is not linked.
#include "runtime/program/own_program.h"

namespace toroid {

const ToroidLevels* const toroid_own_levels = nullptr;
const ToroidGpuProgram* const toroid_own_gpu_program = nullptr;
const EmbeddedPackage* const toroid_embedded_package = nullptr;
const char* const toroid_own_provenance = "";

}  // namespace toroid
