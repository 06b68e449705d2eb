#include "support/signing.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"

namespace toroid {
namespace {

constexpr uint64_t kMostKeyBytes = 1 << 20;

struct FreeOfOpenSsl {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using OpenSslKey = std::unique_ptr<EVP_PKEY, FreeOfOpenSsl>;

// Nobody is asked for one: a key with a password is none.
int no_password(char*, int, int, void*) { return -1; }

OpenSslKey private_key(const std::filesystem::path& path) {
  const std::string text = read_file(path, kMostKeyBytes);
  const std::unique_ptr<BIO, FreeOfOpenSsl> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  OpenSslKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (key == nullptr || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519) {
    throw Error(ErrorKind::InvalidOption, fmt::format("{} holds no private key of Ed25519 without a password", path.string()))
        .help("make one with 'openssl genpkey -algorithm ed25519 -out KEYFILE'");
  }
  return key;
}

PublicKey public_part(EVP_PKEY* key) {
  PublicKey result;
  size_t size = result.size();
  TOROID_CHECK(EVP_PKEY_get_raw_public_key(key, reinterpret_cast<unsigned char*>(result.data()), &size) == 1 && size == result.size());
  return result;
}

}  // namespace

SigningKey read_signing_key(const std::filesystem::path& path) { return {path, public_part(private_key(path).get())}; }

Signature sign(const SigningKey& key, std::string_view text) {
  const OpenSslKey secret = private_key(key.file);
  const std::unique_ptr<EVP_MD_CTX, FreeOfOpenSsl> context(EVP_MD_CTX_new());
  Signature signature;
  size_t size = signature.size();
  TOROID_CHECK(context != nullptr && EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, secret.get()) == 1);
  TOROID_CHECK(EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                              reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 1);
  return signature;
}

std::vector<PublicKey> read_public_keys(const std::filesystem::path& path) {
  const std::string text = read_file(path, kMostKeyBytes);
  const std::unique_ptr<BIO, FreeOfOpenSsl> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  std::vector<PublicKey> keys;
  while (const OpenSslKey key{PEM_read_bio_PUBKEY(bio.get(), nullptr, no_password, nullptr)}) {
    if (EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519) {
      keys.clear();
      break;
    }
    keys.push_back(public_part(key.get()));
  }
  ERR_clear_error();
  if (keys.empty()) {
    throw Error(ErrorKind::InvalidOption, fmt::format("{} holds no public keys of Ed25519", path.string()))
        .help("write one with 'openssl pkey -in KEYFILE -pubout', and more behind it");
  }
  return keys;
}

}  // namespace toroid
