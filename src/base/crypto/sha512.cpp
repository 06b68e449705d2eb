#include "base/crypto/sha512.h"

#include <algorithm>
#include <cstring>

#include "base/bits.h"

namespace toroid {
namespace {

constexpr size_t kBlock = 128;

// The first 64 bits of the fractions of the cube roots of the first 80 primes.
constexpr uint64_t kRounds[80] = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc, 0x3956c25bf348b538, 0x59f111f1b605d019,
    0x923f82a4af194f9b, 0xab1c5ed5da6d8118, 0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694, 0xe49b69c19ef14ad2, 0xefbe4786384f25e3,
    0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65, 0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4, 0xc6e00bf33da88fc2, 0xd5a79147930aa725,
    0x06ca6351e003826f, 0x142929670a0e6e70, 0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b, 0xa2bfe8a14cf10364, 0xa81a664bbc423001,
    0xc24b8b70d0f89791, 0xc76c51a30654be30, 0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8, 0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb,
    0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3, 0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b, 0xca273eceea26619c, 0xd186b8c721c0c207,
    0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178, 0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c, 0x4cc5d4becb3e42b6, 0x597f299cfc657e2a,
    0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};

uint64_t big_endian(const std::byte* bytes) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | static_cast<uint64_t>(bytes[i]);
  return value;
}

void store_big_endian(uint64_t value, std::byte* bytes) {
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (56 - 8 * i));
}

}  // namespace

void Sha512::add_block(const std::byte* block) {
  uint64_t words[80];
  for (int i = 0; i < 16; ++i) words[i] = big_endian(block + 8 * i);
  for (int i = 16; i < 80; ++i) {
    const uint64_t a = words[i - 15], b = words[i - 2];
    words[i] = words[i - 16] + (rotate_right(a, 1) ^ rotate_right(a, 8) ^ a >> 7) + words[i - 7] +
               (rotate_right(b, 19) ^ rotate_right(b, 61) ^ b >> 6);
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 80; ++i) {
    const uint64_t first =
        h + (rotate_right(e, 14) ^ rotate_right(e, 18) ^ rotate_right(e, 41)) + ((e & f) ^ (~e & g)) + kRounds[i] + words[i];
    const uint64_t second = (rotate_right(a, 28) ^ rotate_right(a, 34) ^ rotate_right(a, 39)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const uint64_t after[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state_[i] += after[i];
}

void Sha512::add(Span<const std::byte> bytes) {
  const size_t held = bytes_ % kBlock;
  bytes_ += bytes.size();
  if (held > 0) {
    const size_t taken = std::min(bytes.size(), kBlock - held);
    std::copy_n(bytes.data(), taken, rest_ + held);
    bytes = bytes.subspan(taken);
    if (held + taken < kBlock) return;
    add_block(rest_);
  }
  for (; bytes.size() >= kBlock; bytes = bytes.subspan(kBlock)) add_block(bytes.data());
  std::copy(bytes.begin(), bytes.end(), rest_);
}

Sha512Digest Sha512::finish() {
  const uint64_t bytes = bytes_;
  const size_t held = bytes % kBlock, zeros = (held < 112 ? 112 : 240) - held;
  std::byte end[kBlock * 2] = {std::byte{0x80}};
  store_big_endian(bytes >> 61, end + zeros);
  store_big_endian(bytes << 3, end + zeros + 8);
  add({end, zeros + 16});
  Sha512Digest digest;
  for (size_t i = 0; i < 8; ++i) store_big_endian(state_[i], digest.data() + 8 * i);
  return digest;
}

Sha512Digest sha512(Span<const std::byte> bytes) {
  Sha512 hash;
  hash.add(bytes);
  return hash.finish();
}

}  // namespace toroid
