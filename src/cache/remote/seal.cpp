#include "cache/remote/seal.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/fd.h"

namespace toroid {
namespace {

constexpr std::string_view kMark = "TOROIDR1";
constexpr size_t kCodeBytes = 32;
constexpr off_t kLeastSecretBytes = 32, kMostSecretBytes = 1 << 16;

struct FreeMac {
  void operator()(EVP_MAC* mac) const { ::EVP_MAC_free(mac); }
  void operator()(EVP_MAC_CTX* context) const { ::EVP_MAC_CTX_free(context); }
};

std::array<unsigned char, kCodeBytes> code_of(const CacheKey& key, std::string_view bytes, std::string_view secret) {
  const std::unique_ptr<EVP_MAC, FreeMac> mac(::EVP_MAC_fetch(nullptr, "HMAC", nullptr));
  const std::unique_ptr<EVP_MAC_CTX, FreeMac> context(mac ? ::EVP_MAC_CTX_new(mac.get()) : nullptr);
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {::OSSL_PARAM_construct_utf8_string("digest", digest, 0), ::OSSL_PARAM_construct_end()};
  auto data = [](std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); };
  TOROID_CHECK(context && ::EVP_MAC_init(context.get(), data(secret), secret.size(), parameters) == 1, "OpenSSL has no HMAC");
  // Sizes first, so that nothing can move from one part to the next.
  const std::string head = fmt::format("{}:{}:{}:{}:{}:", kMark, key.hex.size(), key.kind.size(), bytes.size(), key.hex + key.kind);
  std::array<unsigned char, kCodeBytes> code;
  size_t size = 0;
  const bool is_done = ::EVP_MAC_update(context.get(), data(head), head.size()) == 1 &&
                       ::EVP_MAC_update(context.get(), data(bytes), bytes.size()) == 1 &&
                       ::EVP_MAC_final(context.get(), code.data(), &size, code.size()) == 1 && size == code.size();
  TOROID_CHECK(is_done, "OpenSSL cannot compute an HMAC");
  return code;
}

}  // namespace

std::string seal(const CacheKey& key, std::string_view bytes, std::string_view secret) {
  const auto code = code_of(key, bytes, secret);
  std::string sealed(kMark);
  sealed.reserve(kMark.size() + code.size() + bytes.size());
  sealed.append(reinterpret_cast<const char*>(code.data()), code.size());
  sealed += bytes;
  return sealed;
}

std::optional<std::string_view> unseal(const CacheKey& key, std::string_view sealed, std::string_view secret) {
  if (!sealed.starts_with(kMark) || sealed.size() < kMark.size() + kCodeBytes) return std::nullopt;
  const std::string_view bytes = sealed.substr(kMark.size() + kCodeBytes);
  const auto code = code_of(key, bytes, secret);
  if (::CRYPTO_memcmp(sealed.data() + kMark.size(), code.data(), code.size()) != 0) return std::nullopt;
  return bytes;
}

std::string read_secret(const std::filesystem::path& path) {
  auto refuse = [&](const std::string& why, const std::string& mend) {
    throw Error(ErrorKind::Environment, fmt::format("the key of the remote cache, {}, {}", path.string(), why)).help(mend);
  };
  const std::string create = fmt::format("'(umask 077; openssl rand -hex 32 > {})' makes one", path.string());
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // not to wait for the writer of a pipe
  struct stat info;
  if (!fd || ::fstat(fd.get(), &info) != 0) refuse("cannot be read: " + std::error_code(errno, std::generic_category()).message(), create);
  if (!S_ISREG(info.st_mode)) refuse("is not a file", create);
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    refuse(fmt::format("belongs to user {}", info.st_uid),
           fmt::format("run 'chown {} {}' as root, or use a key file of your own", ::geteuid(), path.string()));
  if ((info.st_mode & 077) != 0) refuse("is open to other users", fmt::format("run 'chmod 600 {}'", path.string()));
  if (info.st_size < kLeastSecretBytes) refuse(fmt::format("has {} bytes, and at least 32 are needed", info.st_size), create);
  if (info.st_size > kMostSecretBytes) refuse(fmt::format("has {} bytes, which is no key", info.st_size), create);
  std::string secret(static_cast<size_t>(info.st_size), '\0');
  const ssize_t count = ::read(fd.get(), secret.data(), secret.size());
  if (count != static_cast<ssize_t>(secret.size())) refuse("cannot be read whole", create);
  return secret;
}

}  // namespace toroid
