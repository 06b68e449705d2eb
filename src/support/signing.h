// Keys of Ed25519 in files, and signatures by OpenSSL. Verifying is base/crypto/ed25519.h's.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/crypto/ed25519.h"

namespace toroid {

struct SigningKey {
  std::filesystem::path file;
  PublicKey public_key;
};
// A private key in PEM, as `openssl genpkey -algorithm ed25519` writes it. Throws Error{InvalidOption} for what is none.
SigningKey read_signing_key(const std::filesystem::path& path);
Signature sign(const SigningKey& key, std::string_view text);

// Public keys, one behind the other: in PEM, as `openssl pkey -pubout` writes them. Throws Error{InvalidOption} for what is none.
std::vector<PublicKey> read_public_keys(const std::filesystem::path& path);

}  // namespace toroid
