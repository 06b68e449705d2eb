// Numbers and sized texts in the files and entries that toroid writes: how one part is told from the next.
//
//   number = 8 bytes, little-endian      sized text = its size as a number | its bytes
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace toroid {

void append_number(std::string& bytes, uint64_t number);
void append_sized(std::string& bytes, std::string_view text);

// These take from the front of `bytes`. Where it ends too early they give nothing and take nothing: the file is damaged, and the
// caller says which. The text of take_sized lies in `bytes`, so a false size allocates nothing.
std::optional<uint64_t> take_number(std::string_view& bytes);
std::optional<std::string_view> take_sized(std::string_view& bytes);

}  // namespace toroid
