// Verifies signatures by Ed25519 (RFC 8032, pure, section 5.1.7), without secrets and so without care for the time that it takes. Keys are
// made and signatures are made by OpenSSL, where programs are compiled (support/signing.h).
//
// Encodings that are not canonical are refused, of points and of the scalar; the equation is the one without the cofactor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/span.h"

namespace toroid {

using PublicKey = std::array<std::byte, 32>;
using Signature = std::array<std::byte, 64>;

bool is_signed_by(const PublicKey& key, Span<const std::byte> message, const Signature& signature);

}  // namespace toroid
