// What travels to other machines is sealed with a secret that those who may write entries share, since libraries from there are
// run:
//
//   "TOROIDR1", an HMAC-SHA-256 of 32 bytes, the entry's bytes
//
// The code covers the mark, the key's hash and kind, and the bytes, so that nothing can be changed, cut short or put under another
// key without being noticed. It hides nothing: who reads the server reads the entries.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "cache/key.h"

namespace toroid {

std::string seal(const CacheKey& key, std::string_view bytes, std::string_view secret);

// The bytes, as a part of `sealed`; nullopt when the seal is not right.
std::optional<std::string_view> unseal(const CacheKey& key, std::string_view sealed, std::string_view secret);

// Reads a secret: all bytes of a file of at least 32, which only its owner (the user or root) can read.
// Throws Error{Environment} otherwise.
std::string read_secret(const std::filesystem::path& path);

}  // namespace toroid
