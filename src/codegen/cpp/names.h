// C++ names for the program's things.
#pragma once

#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace toroid::codegen {

// A C++ identifier made from any text: letters, digits and '_' stay, a keyword or leading digit gets a prefix.
std::string identifier(std::string_view text);
// The type of an element in memory: "float", "bf16", "int64_t".
std::string_view storage_type(DType dtype);
// The type of a scalar in registers: "float" for F32, F16 and BF16.
std::string_view register_type(DType dtype);
// Text that is safe inside a // comment: printable ASCII on one line, cut after `limit` characters.
std::string comment_text(std::string_view text, size_t limit = 100);

}  // namespace toroid::codegen
