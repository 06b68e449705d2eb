// By what a kernel is recognised that has changed since it was measured, found faulty or locked.
#pragma once

#include <string>
#include <string_view>

#include "runtime/kernels/registry/registry.h"

namespace toroid::tune {

// 16 hex digits of family, name and version: the same in every process and build.
std::string choice_hash(std::string_view family, const Choice& choice);

}  // namespace toroid::tune
