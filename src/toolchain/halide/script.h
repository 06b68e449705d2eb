// What Python is started with to compile Halide pipelines (compile_halide.py, which says what goes in and out).
#pragma once

#include <string_view>

namespace toroid {

extern const std::string_view kHalideScript;

}  // namespace toroid
