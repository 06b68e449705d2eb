#include "runtime/program/signature.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/affixes.h"
#include "base/error.h"
#include "base/file/checksum.h"
#include "base/file/framing.h"
#include "base/file/mapped_file.h"
#include "base/file/write_parts.h"
#include "base/format.h"

namespace toroid {
namespace {

constexpr std::string_view kMagic = "TOROIDS1";
constexpr size_t kSigned = sizeof(PublicKey) + sizeof(Signature), kBlockBytes = kSigned + 2 * sizeof(uint64_t) + kMagic.size();
constexpr size_t kChunk = size_t{1} << 20;

Span<const std::byte> bytes_of(std::string_view text) { return as_bytes(Span(text)); }
std::string_view text_of(Span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace

std::optional<SignatureBlock> take_signature(std::string_view& file, const std::string& path) {
  if (file.size() < kBlockBytes || !ends_with(file, kMagic)) return std::nullopt;
  const std::string_view block = file.substr(file.size() - kBlockBytes);
  std::string_view rest = block.substr(kSigned);
  const Checksum sum = checksum(bytes_of(block.substr(0, kSigned)));
  if (take_number(rest) != sum.low || take_number(rest) != sum.high)
    throw Error(ErrorKind::InvalidInput, formatted("{} is damaged: its signature is not as it was written", path))
        .help("copy it again, or sign it again with 'toroid compile --sign'");
  SignatureBlock result;
  std::memcpy(result.key.data(), block.data(), sizeof(PublicKey));
  std::memcpy(result.signature.data(), block.data() + sizeof(PublicKey), sizeof(Signature));
  file.remove_suffix(kBlockBytes);
  return result;
}

Sha512Digest digest_of(std::string_view file, RuntimePool& pool) {
  const size_t chunks = (file.size() + kChunk - 1) / kChunk;
  std::vector<Sha512Digest> digests(chunks);
  pool.parallel_for(static_cast<int64_t>(chunks), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      digests[i] = sha512(bytes_of(file.substr(i * kChunk, kChunk)));
  });
  return sha512(as_bytes(Span(digests)));
}

std::string signed_text(const Sha512Digest& digest, const std::optional<Sha512Digest>& library) {
  std::string text = library ? "toroid weights 1" : "toroid package 1";
  if (library) text += text_of(*library);
  return text.append(text_of(digest));
}

void require_signature(Trust& trust, const std::optional<SignatureBlock>& block, std::string_view file, bool has_library,
                       const std::string& path, RuntimePool& pool) {
  const auto refuse = [&](std::string_view why) {
    throw Error(ErrorKind::InvalidInput, formatted("{} is not signed by a key that is trusted: {}", path, why))
        .help("take it from who signs it, or sign it with 'toroid compile --sign'");
  };
  if (!block) refuse("it has no signature");
  if (std::find(trust.keys.begin(), trust.keys.end(), block->key) == trust.keys.end()) refuse("its signature is of another key");
  if (!has_library && !trust.library) refuse("it has weights alone, and the library that they go with is not known");
  const Sha512Digest digest = digest_of(file, pool);
  const std::string text = signed_text(digest, has_library ? std::nullopt : trust.library);
  if (!is_signed_by(block->key, bytes_of(text), block->signature)) refuse("its signature is of other bytes");
  if (has_library) trust.library = digest;
}

void sign_package(const std::string& path, const std::string& library, const PublicKey& key,
                  const std::function<Signature(std::string_view text)>& sign, RuntimePool& pool) {
  const MappedFile file(path);
  std::string_view content = file.text();
  take_signature(content, path);
  std::optional<Sha512Digest> library_digest;
  if (library != path) {
    const MappedFile other(library);
    std::string_view other_content = other.text();
    take_signature(other_content, library);
    library_digest = digest_of(other_content, pool);
  }
  const Signature signature = sign(signed_text(digest_of(content, pool), library_digest));
  std::string block(text_of(key));
  block += text_of(signature);
  const Checksum sum = checksum(bytes_of(block));
  append_number(block, sum.low);
  append_number(block, sum.high);
  block += kMagic;
  const Span<const std::byte> parts[] = {bytes_of(content), bytes_of(block)};
  write_parts_atomically(path, parts, 0777);
}

}  // namespace toroid
