#include "base/crypto/ed25519.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/crypto/sha512.h"

namespace toroid {
namespace {

std::vector<std::byte> of_hex(std::string_view text) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}
template <class Array>
Array array_of_hex(std::string_view text) {
  Array result;
  const std::vector<std::byte> bytes = of_hex(text);
  EXPECT_EQ(bytes.size(), result.size());
  std::copy(bytes.begin(), bytes.end(), result.begin());
  return result;
}
std::string hex_of(Span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[static_cast<int>(byte) >> 4];
    text += "0123456789abcdef"[static_cast<int>(byte) & 15];
  }
  return text;
}

// FIPS 180-4's examples, and lengths around a block's.
TEST(Sha512, IsThatOfTheStandard) {
  const auto of = [](std::string_view text) { return hex_of(sha512(as_bytes(Span(text)))); };
  EXPECT_EQ(
      of("abc"),
      "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f");
  EXPECT_EQ(
      of(""),
      "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e");
  EXPECT_EQ(
      of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
      "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909");
}

TEST(Sha512, IsTheSameOfPieces) {
  const std::string text(1000, 'x');
  for (const size_t piece : {1, 7, 111, 112, 127, 128, 129, 500}) {
    Sha512 hash;
    for (size_t at = 0; at < text.size(); at += piece) hash.add(as_bytes(Span(std::string_view(text).substr(at, piece))));
    EXPECT_EQ(hash.finish(), sha512(as_bytes(Span(text)))) << piece;
  }
}

// RFC 8032, section 7.1: tests 1, 2, 3 and SHA(abc).
struct Vector {
  const char *key, *message, *signature;
};
constexpr Vector kVectors[] = {
    {"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
    {"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
    {"fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"},
    {"ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf2",
     "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
     "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704"},
};

TEST(Ed25519, TakesTheSignaturesOfTheStandard) {
  for (const Vector& each : kVectors) {
    EXPECT_TRUE(is_signed_by(array_of_hex<PublicKey>(each.key), of_hex(each.message), array_of_hex<Signature>(each.signature))) << each.key;
  }
}

TEST(Ed25519, RefusesEveryOtherBit) {
  const Vector& vector = kVectors[2];
  const auto key = array_of_hex<PublicKey>(vector.key);
  const auto signature = array_of_hex<Signature>(vector.signature);
  const std::vector<std::byte> message = of_hex(vector.message);
  for (size_t bit = 0; bit < 512; bit += 23) {
    Signature other = signature;
    other[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_FALSE(is_signed_by(key, message, other)) << bit;
  }
  for (size_t bit = 0; bit < 256; bit += 19) {
    PublicKey other = key;
    other[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_FALSE(is_signed_by(other, message, signature)) << bit;
  }
  EXPECT_FALSE(is_signed_by(key, of_hex("af83"), signature));
  EXPECT_FALSE(is_signed_by(key, {}, signature));
}

// The same number modulo the order, and the same point with a y of p and more: one signature has one form.
TEST(Ed25519, RefusesOtherEncodings) {
  const Vector& vector = kVectors[0];
  auto signature = array_of_hex<Signature>(vector.signature);
  const std::vector<std::byte> order = of_hex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
  unsigned carry = 0;
  for (size_t i = 0; i < 32; ++i) {
    carry += static_cast<unsigned>(signature[32 + i]) + static_cast<unsigned>(order[i]);
    signature[32 + i] = static_cast<std::byte>(carry & 0xff);
    carry >>= 8;
  }
  EXPECT_FALSE(is_signed_by(array_of_hex<PublicKey>(vector.key), {}, signature));
  const auto above_p = array_of_hex<PublicKey>("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f");  // y = 1
  EXPECT_FALSE(is_signed_by(above_p, {}, Signature{}));
}

}  // namespace
}  // namespace toroid
