// What Python is started with to compile Triton kernels (compile_triton.py, which says what goes in and out).
#pragma once

#include <string_view>

namespace toroid {

extern const std::string_view kTritonScript;

}  // namespace toroid
