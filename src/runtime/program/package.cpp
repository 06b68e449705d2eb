#include "runtime/program/package.h"

#include <atomic>
#include <vector>

#include "base/affixes.h"
#include "base/error.h"
#include "base/fail.h"
#include "base/file/checksum.h"
#include "base/file/file.h"
#include "base/file/framing.h"
#include "base/file/write_parts.h"
#include "base/format.h"
#include "base/machine/machine.h"

namespace toroid {
namespace {

constexpr std::string_view kMagic = "TOROIDW2";
constexpr std::string_view kMagicOfVersion1 = "TOROIDW1";  // without checksums: at the end this and two numbers
constexpr uint64_t kPartAlignment = 64;
constexpr size_t kChunk = size_t{1} << 20;
constexpr size_t kNumberBytes = sizeof(uint64_t), kChecksumBytes = 2 * kNumberBytes;
constexpr size_t kFooterBytes = kNumberBytes + kChecksumBytes + kMagic.size();

Span<const std::byte> bytes_of(std::string_view text) { return as_bytes(Span(text)); }
uint64_t aligned_part(uint64_t offset) { return (offset + kPartAlignment - 1) / kPartAlignment * kPartAlignment; }
size_t chunks_of(size_t bytes) { return (bytes + kChunk - 1) / kChunk; }

template <class Bytes>
Bytes chunk(Bytes bytes, size_t i) {
  return bytes.subspan(i * kChunk, std::min(kChunk, bytes.size() - i * kChunk));
}

void append_checksum(std::string& bytes, const Checksum& sum) {
  append_number(bytes, sum.low);
  append_number(bytes, sum.high);
}

std::optional<Checksum> take_checksum(std::string_view& bytes) {
  const std::optional<uint64_t> low = take_number(bytes), high = take_number(bytes);
  return low && high ? std::optional(Checksum{*low, *high}) : std::nullopt;
}

// Of each chunk of what the parts are together, a chunk at a time in memory: weights may be larger than that.
void append_checksums(std::string& bytes, Span<const Span<const std::byte>> parts) {
  std::vector<std::byte> gathered;
  gathered.reserve(kChunk);
  const auto finish = [&] {
    if (!gathered.empty()) append_checksum(bytes, checksum(gathered));
    gathered.clear();
  };
  for (Span<const std::byte> part : parts) {
    while (!part.empty()) {
      const size_t taken = std::min(part.size(), kChunk - gathered.size());
      gathered.insert(gathered.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(taken));
      part = part.subspan(taken);
      if (gathered.size() == kChunk) finish();
    }
  }
  finish();
}

constexpr Help kCopyAgain{"copy it again, or make it again with 'toroid compile MODEL -o FILE.so'"};

[[noreturn]] void refuse_damaged(const std::string& path, std::string_view what) {
  fail(ErrorKind::InvalidInput, kCopyAgain, "{} is damaged: {}", path, what);
}

// The description's bytes.
std::string_view description_of(const std::string& path, std::string_view file) {
  constexpr size_t kFooterOfVersion1 = kMagicOfVersion1.size() + 2 * kNumberBytes;
  if (file.size() >= kFooterOfVersion1 && starts_with(file.substr(file.size() - kFooterOfVersion1), kMagicOfVersion1)) {
    fail(ErrorKind::InvalidInput, Help{"make it again with 'toroid compile MODEL -o FILE.so'"},
         "{} was compiled by an older toroid, which did not write checksums", path);
  }
  if (file.size() < kFooterBytes || !ends_with(file, kMagic)) {
    fail(ErrorKind::InvalidInput, Help{"make it with 'toroid compile MODEL -o FILE.so'"},
         "{} is not a program compiled by toroid, or is incomplete", path);
  }
  const size_t before_footer = file.size() - kFooterBytes;
  std::string_view footer = file.substr(before_footer);
  const uint64_t size = *take_number(footer);
  const Checksum sum = *take_checksum(footer);
  if (size > before_footer || checksum(bytes_of(file.substr(before_footer - size, size + kNumberBytes))) != sum) {
    refuse_damaged(path, "its description, which lies at its end, is not as it was written");
  }
  return file.substr(before_footer - size, size);
}

void check_weights(const Package& package, std::string_view checksums, uint64_t offset, RuntimePool& pool) {
  const size_t count = chunks_of(package.weights.size());
  std::atomic<size_t> first_bad = count;
  pool.parallel_for(static_cast<int64_t>(count), 4, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      std::string_view sum = checksums.substr(i * kChecksumBytes, kChecksumBytes);
      if (checksum(chunk(package.weights, i)) == *take_checksum(sum)) continue;
      for (size_t known = first_bad; i < known && !first_bad.compare_exchange_weak(known, i);) {
      }
    }
  });
  if (first_bad == count) return;
  refuse_changed_files({&package.weights, 1});
  const uint64_t begin = offset + first_bad * kChunk;
  refuse_damaged(package.path, formatted("its weights, between the bytes {} and {}, are not as they were written", begin,
                                         begin + chunk(package.weights, first_bad).size()));
}

// Throws for missing instructions before it reads the whole file.
Package check_package(const std::string& path, std::string_view file, std::shared_ptr<const void> owner, RuntimePool& pool, bool is_to_run,
                      const PackageChecks& checks) {
  Package package{/*path=*/path, /*library=*/{}, /*weights=*/{}, /*isa=*/{}, /*levels=*/{}, /*owner=*/std::move(owner)};
  const std::optional<SignatureBlock> signature = take_signature(file, path);
  std::string_view rest = description_of(path, file);
  const size_t described = static_cast<size_t>(rest.data() - file.data());
  const std::optional<std::string_view> isa = take_sized(rest);
  const std::optional<uint64_t> offset = take_number(rest), size = take_number(rest);
  const std::optional<Checksum> library = take_checksum(rest);
  if (!isa || !library || *offset > described || *size != described - *offset || rest.size() != chunks_of(*size) * kChecksumBytes) {
    refuse_damaged(path, "its description does not fit it");
  }
  package.isa = parse_isa(isa->substr(isa->rfind(',') + 1));
  if (is_to_run) refuse_missing_instructions(package.isa, path);
  for (const char letter : *isa) package.levels += letter == ',' ? ", " : std::string(1, letter);
  package.weights = as_bytes(Span(file)).subspan(*offset, *size);
  package.library = file.substr(0, *offset);  // a copy: what is checked is what is loaded, whatever happens to the file
  if (checksum(bytes_of(package.library)) != *library) {
    refuse_changed_files({&package.weights, 1});
    refuse_damaged(path, formatted("its library, the first {} bytes, is not as it was written", *offset));
  }
  if (checks.are_weights) check_weights(package, rest, *offset, pool);
  if (checks.trust != nullptr) require_signature(*checks.trust, signature, file, *offset > 0, path, pool);
  return package;
}

Package check_file(const std::string& path, RuntimePool& pool, bool is_to_run, const PackageChecks& checks) {
  auto file = std::make_shared<const MappedFile>(path);
  const std::string_view text = file->text();
  return check_package(path, text, std::move(file), pool, is_to_run, checks);
}

}  // namespace

Package open_package(const std::string& path, RuntimePool& pool, const PackageChecks& checks) {
  return check_file(path, pool, true, checks);
}
Package open_package(std::string_view bytes, std::string name, RuntimePool& pool, const PackageChecks& checks) {
  return check_package(name, bytes, nullptr, pool, true, checks);
}
Package verify_package(const std::string& path, RuntimePool& pool, Trust* trust) {
  return check_file(path, pool, false, {/*trust=*/trust});
}

Span<const std::byte> Package::take_weight(uint64_t& offset, std::string_view name, int64_t bytes) const {
  const auto size = static_cast<uint64_t>(bytes);
  if (bytes < 0 || offset > weights.size() || size > weights.size() - offset) {
    fail(ErrorKind::InvalidInput, kCopyAgain, "{} is incomplete: the weight '{}' is missing", path, name);
  }
  const Span<const std::byte> taken = weights.subspan(offset, size);
  offset = aligned_part(offset + size);
  return taken;
}

void write_package(const std::string& path, std::string_view library, Span<const Span<const std::byte>> constants, Span<const Isa> levels) {
  const std::vector<std::byte> zeros(kPartAlignment);
  std::vector<Span<const std::byte>> parts;  // library and weights, with the zeros between
  const auto add = [&](Span<const std::byte> part) {
    parts.push_back(part);
    const size_t over = part.size() % kPartAlignment;
    if (over != 0) parts.push_back(Span(zeros).first(kPartAlignment - over));
  };
  std::string padded(library);
  padded.resize(aligned_part(padded.size()));
  parts.push_back(bytes_of(padded));
  for (const auto& constant : constants) add(constant);
  uint64_t size_of_weights = 0;
  for (size_t i = 1; i < parts.size(); ++i) size_of_weights += parts[i].size();

  std::string description, isas;
  for (const Isa& isa : levels) isas += (isas.empty() ? "" : ",") + isa.name();
  append_sized(description, isas);
  append_number(description, padded.size());
  append_number(description, size_of_weights);
  append_checksum(description, checksum(bytes_of(padded)));
  append_checksums(description, Span(parts).subspan(1));
  refuse_changed_files(constants);
  const uint64_t size = description.size();
  append_number(description, size);
  append_checksum(description, checksum(bytes_of(description)));
  description += kMagic;
  parts.push_back(bytes_of(description));
  write_parts_atomically(path, parts, 0777);
}

}  // namespace toroid
