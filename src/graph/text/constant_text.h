// Elements of constants as text, and back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace toroid {

// "[1.0, nan]", "[true]", "[-3]"; for dtypes that are not computed with, "hex 3c00". Needs the data in place.
std::string elements_to_text(const ConstantData& data);
// The bytes of one element written by elements_to_text; nullopt if `text` is none.
std::optional<std::vector<std::byte>> parse_element(std::string_view text, DType dtype);
bool has_element_text(DType dtype);

}  // namespace toroid
