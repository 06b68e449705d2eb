#include "support/hash.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <atomic>
#include <cstring>
#include <new>

#include "base/error.h"

namespace toroid {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  if (state_->context == nullptr) throw std::bad_alloc();
  // Without memory OpenSSL gives any reason or none; but where it computed one digest, nothing else can keep it from the next.
  static std::atomic<bool> has_worked = false;
  if (EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1) {
    has_worked = true;
  } else {
    if (has_worked || ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE) throw std::bad_alloc();
    throw Error(ErrorKind::Environment, "the OpenSSL library refuses SHA-256").help("check the OpenSSL configuration (OPENSSL_CONF)");
  }
}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  TOROID_CHECK(state_ != nullptr, "update after finish");
  TOROID_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
  return *this;
}

Digest Sha256::finish() {
  TOROID_CHECK(state_ != nullptr, "finish twice");
  Digest digest;
  TOROID_CHECK(EVP_DigestFinal_ex(state_->context, digest.bytes.data(), nullptr) == 1);
  state_.reset();
  return digest;
}

std::string Digest::hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Digest sha256(std::span<const std::byte> bytes) { return Sha256().update(bytes).finish(); }
Digest sha256(std::string_view text) { return Sha256().update(text).finish(); }

namespace {

// Both halves of the 128-bit product: every input bit reaches every output bit.
uint64_t fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t load64(const std::byte* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

}  // namespace

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed) {
  constexpr uint64_t kOdd0 = 0x9e3779b97f4a7c15u, kOdd1 = 0xc2b2ae3d27d4eb4fu;  // any odd words with mixed bits do
  uint64_t state = seed ^ fold(bytes.size() ^ kOdd0, kOdd1);
  const std::byte* next = bytes.data();
  size_t left = bytes.size();
  for (; left >= 16; left -= 16, next += 16) state = fold(load64(next) ^ kOdd0, load64(next + 8) ^ state);
  if (left > 0) {
    std::byte padded[16] = {};
    std::memcpy(padded, next, left);
    state = fold(load64(padded) ^ kOdd1, load64(padded + 8) ^ state);
  }
  return hash_combine(state, kOdd0);
}

uint64_t hash64(std::string_view text, uint64_t seed) { return hash64(std::as_bytes(std::span(text)), seed); }

}  // namespace toroid
