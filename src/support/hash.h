// Two hashes for two uses. SHA-256 names cached work: a collision would load the wrong code, so it must be infeasible.
// The 64-bit hash serves tables and quick comparisons inside one process; its values never reach a file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace toroid {

struct Digest {
  std::array<uint8_t, 32> bytes{};
  std::string hex() const;  // 64 lowercase digits
  auto operator<=>(const Digest&) const = default;
};

// SHA-256 of bytes that arrive in pieces.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text) { return update(std::as_bytes(std::span(text))); }
  // The digest of everything so far; the object cannot be used afterwards.
  Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest sha256(std::span<const std::byte> bytes);
Digest sha256(std::string_view text);

// Quick and well mixed, but not safe against an adversary. Depends on the machine's byte order.
uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t hash64(std::string_view text, uint64_t seed = 0);

// Depends on the order: hash_combine(a, b) != hash_combine(b, a).
constexpr uint64_t hash_combine(uint64_t seed, uint64_t value) {
  uint64_t mixed = (seed ^ (seed >> 31)) * 0x9fb21c651e98df25u + value;
  mixed = (mixed ^ (mixed >> 29)) * 0xd6e8feb86659fd93u;
  return mixed ^ (mixed >> 32);
}

}  // namespace toroid
