#include "cache/remote/seal.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "cache/remote/action_result.h"

namespace toroid {
namespace {

const CacheKey kKey = KeyBuilder("library", 1).add("source", "x").finish();
const std::string kSecret(32, 's');

TEST(Seal, IsUndoneOnlyByTheSameSecretAndKey) {
  const std::string sealed = seal(kKey, "bytes", kSecret);
  EXPECT_EQ(unseal(kKey, sealed, kSecret), "bytes");
  EXPECT_EQ(unseal(kKey, sealed, std::string(32, 't')), std::nullopt);
  CacheKey other = kKey;
  other.kind = "graph";
  EXPECT_EQ(unseal(other, sealed, kSecret), std::nullopt);
  other = KeyBuilder("library", 1).add("source", "y").finish();
  EXPECT_EQ(unseal(other, sealed, kSecret), std::nullopt);
  EXPECT_EQ(unseal(kKey, seal(kKey, "", kSecret), kSecret), "");
}

TEST(Seal, ShowsEveryFlippedBitAndEveryCut) {
  const std::string sealed = seal(kKey, "some bytes", kSecret);
  for (size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    std::string flipped = sealed;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(unseal(kKey, flipped, kSecret), std::nullopt) << bit;
  }
  for (size_t size = 0; size < sealed.size(); ++size) EXPECT_EQ(unseal(kKey, sealed.substr(0, size), kSecret), std::nullopt) << size;
  EXPECT_EQ(unseal(kKey, sealed + "x", kSecret), std::nullopt);
}

// What 'openssl dgst -sha256 -hmac' says of the same bytes; entries of earlier builds must stay readable.
TEST(Seal, IsAnHmacOfTheDocumentedBytes) {
  const CacheKey key = {"library", std::string(64, 'a'), ""};
  const std::string sealed = seal(key, "bytes", "0123456789abcdef0123456789abcdef");
  std::string hex;
  for (unsigned char c : sealed.substr(8, 32)) hex += fmt::format("{:02x}", c);
  EXPECT_EQ(sealed.substr(0, 8), "TOROIDR1");
  EXPECT_EQ(hex, "c79463e095e0d7ddd36a42f94ef67b765041919e68f81157085e37469e011449");
}

std::string refusal_of_file(const std::filesystem::path& path) {
  try {
    read_secret(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Environment);
    std::string text = error.report();
    for (size_t at; (at = text.find(path.string())) != text.npos;) text.replace(at, path.string().size(), "KEY");
    return text;
  }
  return "not refused";
}

TEST(Seal, ReadsSecretsOnlyFromPrivateFiles) {
  const TempFolder folder;
  const auto path = folder.path() / "key";
  EXPECT_EQ(refusal_of_file(path),
            "error: the key of the remote cache, KEY, cannot be read: No such file or directory\n  help: '(umask 077; openssl rand "
            "-hex 32 > KEY)' makes one");
  write_file_atomically(path, std::string_view(kSecret), 0600);
  EXPECT_EQ(read_secret(path), kSecret);
  for (const mode_t mode : {0640, 0604, 0620}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(refusal_of_file(path), "error: the key of the remote cache, KEY, is open to other users\n  help: run 'chmod 600 KEY'");
  }
  write_file_atomically(path, std::string_view("short"), 0600);
  EXPECT_EQ(refusal_of_file(path),
            "error: the key of the remote cache, KEY, has 5 bytes, and at least 32 are needed\n  help: '(umask 077; openssl rand "
            "-hex 32 > KEY)' makes one");
  EXPECT_EQ(refusal_of_file(folder.path()),
            "error: the key of the remote cache, KEY, is not a file\n  help: '(umask 077; openssl rand -hex 32 > KEY)' makes one");
}

TEST(ActionResult, IsWhatTheProtocolSays) {
  const std::string hash(64, 'c');
  // field 2, 79 bytes { field 1 "toroid", field 2, 69 bytes { field 1 the hash, field 2 the size } }
  EXPECT_EQ(action_result({hash, 300}), "\x12\x4f\x0a\x06toroid\x12\x45\x0a\x40" + hash + "\x10\xac\x02");
  EXPECT_EQ(parse_action_result(action_result({hash, 300})), (BlobName{hash, 300}));
}

TEST(ActionResult, MayHaveMoreFieldsButNoDamage) {
  const std::string hash(64, 'c'), message = action_result({hash, 1});
  const std::string exit_code("\x20\x00", 2), metadata("\x4a\x03\x0a\x01w", 5), fixed("\x5d\x01\x02\x03\x04", 5);
  EXPECT_EQ(parse_action_result(exit_code + message + metadata + fixed), (BlobName{hash, 1}));
  for (size_t size = 0; size < message.size(); ++size) EXPECT_EQ(parse_action_result(message.substr(0, size)), std::nullopt) << size;
  EXPECT_EQ(parse_action_result("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), std::nullopt);
  EXPECT_EQ(parse_action_result(action_result({"../../etc/passwd", 1})), std::nullopt);
  EXPECT_EQ(parse_action_result("TOROIDR1"), std::nullopt);
}

}  // namespace
}  // namespace toroid
