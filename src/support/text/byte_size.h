// Sizes in bytes as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace toroid {

// "123", "64K", "500M", "8G": powers of 1024. Throws Error{InvalidOption}.
uint64_t parse_byte_size(std::string_view text);

// "1.50 MB": three digits, powers of 1000.
std::string byte_size_text(uint64_t bytes);

}  // namespace toroid
