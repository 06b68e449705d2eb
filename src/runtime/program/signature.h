// Who made a package: a signature behind it, which `compile --sign` writes, and the keys that a host trusts.
//
//   file | public key, 32 bytes | signature, 64 bytes | checksum of both | "TOROIDS1"
//
// Signed are, by Ed25519 (base/crypto/ed25519.h), all bytes before this: code, description and weights.
//
//   "toroid package 1" | digest                             of a file with a library
//   "toroid weights 1" | the library's digest | digest      of one with its weights alone, which go with no other library
//
// A digest is the SHA-512 of the SHA-512 of each 1 MiB, so that all cores compute it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/crypto/ed25519.h"
#include "base/crypto/sha512.h"
#include "base/span.h"
#include "runtime/pool/pool.h"

namespace toroid {

// What a host demands of the files of a model, one after the other.
struct Trust {
  Span<const PublicKey> keys;
  std::optional<Sha512Digest> library = {};  // of the file that had one; set when it is checked
};

struct SignatureBlock {
  PublicKey key;
  Signature signature;
};
// Takes the block off a file's end, if there is one. Throws Error{InvalidInput} for a damaged one.
std::optional<SignatureBlock> take_signature(std::string_view& file, const std::string& path);

Sha512Digest digest_of(std::string_view file, RuntimePool& pool);
// What is signed of a file with this digest; `library` as Trust has it, for a file without one.
std::string signed_text(const Sha512Digest& digest, const std::optional<Sha512Digest>& library);

// Throws Error{InvalidInput} unless the block is that of one of the keys, for the file without it.
void require_signature(Trust& trust, const std::optional<SignatureBlock>& block, std::string_view file, bool has_library,
                       const std::string& path, RuntimePool& pool);

// Writes the package again with its signature; what it had before goes. `library`: the package with the library, for a file of weights alone.
void sign_package(const std::string& path, const std::string& library, const PublicKey& key,
                  const std::function<Signature(std::string_view text)>& sign, RuntimePool& pool);

}  // namespace toroid
