#include "support/files/embedded_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/fd.h"
#include "base/file/file.h"
#include "base/file/mapped_file.h"
#include "support/files/cache_folder.h"
#include "support/hash.h"
#include "support/log.h"

// Of a portable program (package/portable/embedded.S).
extern "C" {
__attribute__((weak, visibility("hidden"))) extern const std::byte toroid_embedded_archive[], toroid_embedded_archive_end[];
__attribute__((weak, visibility("hidden"))) extern const char toroid_embedded_list[], toroid_embedded_list_end[];
}

namespace toroid {
namespace fs = std::filesystem;
namespace {

constexpr const char *kUnpacked = "embedded-", *kUnfinished = "embedded.";
constexpr auto kLongestUnpacking = std::chrono::hours(1);

[[noreturn]] void refuse_archive() {
  throw Error(ErrorKind::Internal, "the files inside this program are damaged").help("install toroid anew");
}

// The tar file's bytes in order, as they are asked for.
class Unzipped {
 public:
  explicit Unzipped(std::span<const std::byte> bytes) {
    constexpr int kGzip = 16 + MAX_WBITS;
    if (::inflateInit2(&stream_, kGzip) != Z_OK) throw std::bad_alloc();
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
  }
  Unzipped(const Unzipped&) = delete;
  ~Unzipped() { ::inflateEnd(&stream_); }

  std::string read(size_t size) {
    std::string text(size, '\0');
    stream_.next_out = reinterpret_cast<Bytef*>(text.data());
    stream_.avail_out = static_cast<uInt>(size);
    const int status = size > 0 ? ::inflate(&stream_, Z_SYNC_FLUSH) : Z_OK;
    if ((status != Z_OK && status != Z_STREAM_END) || stream_.avail_out != 0) refuse_archive();
    return text;
  }

 private:
  z_stream stream_ = {};
};

// Until `visit` says that it has what it wants.
void for_each_file(const EmbeddedFiles& files, const std::function<bool(std::string_view path, std::string text)>& visit) {
  constexpr size_t kBlock = 512, kPath = 100, kSize = 124, kSizeDigits = 11, kKind = 156, kPrefix = 345, kPrefixBytes = 155;
  Unzipped tar(files.archive);
  for (;;) {
    const std::string header = tar.read(kBlock);
    if (header[0] == '\0') return;
    std::string path(header.data(), ::strnlen(header.data(), kPath));
    if (header[kPrefix] != '\0') path = std::string(header.data() + kPrefix, ::strnlen(header.data() + kPrefix, kPrefixBytes)) + "/" + path;
    size_t size = 0;
    for (char digit : std::string_view(header).substr(kSize, kSizeDigits)) {
      if (digit < '0' || digit > '7') refuse_archive();
      size = 8 * size + static_cast<size_t>(digit - '0');
    }
    if (header[kKind] != '0') refuse_archive();
    std::string text = tar.read((size + kBlock - 1) / kBlock * kBlock);
    text.resize(size);
    if (visit(path, std::move(text))) return;
  }
}

struct Listed {
  std::string_view digest, path;
};
std::vector<Listed> parse_list(std::string_view list) {
  constexpr size_t kDigits = 64;
  std::vector<Listed> result;
  while (!list.empty()) {
    const std::string_view line = list.substr(0, list.find('\n'));
    list.remove_prefix(std::min(list.size(), line.size() + 1));
    if (line.size() < kDigits + 3) refuse_archive();
    result.push_back({line.substr(0, kDigits), line.substr(kDigits + 2)});
  }
  return result;
}

bool is_whole(const EmbeddedFiles& files, const fs::path& folder, std::string_view below) {
  return std::ranges::all_of(parse_list(files.list), [&](const Listed& each) {
    if (!each.path.starts_with(below)) return true;
    std::error_code missing;
    const fs::path path = folder / each.path;
    return fs::is_regular_file(path, missing) && sha256(MappedFile(path).bytes()).hex() == each.digest;
  });
}

// Not synced to the disk, unlike others: whoever takes a file compares it with its digest.
void write_plain(const fs::path& path, std::string_view text) {
  std::error_code failure;
  fs::create_directories(path.parent_path(), failure);
  if (failure) throw file_error("write", path.parent_path(), failure.value());
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) throw file_error("write", path, errno);
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno != EINTR) throw file_error("write", path, errno);
    text.remove_prefix(static_cast<size_t>(std::max<ssize_t>(written, 0)));
  }
}

// What processes that were killed have left.
void remove_leftovers(const fs::path& parent) {
  std::error_code ignored;
  const auto now = fs::file_time_type::clock::now();
  for (const fs::directory_entry& each : fs::directory_iterator(parent, ignored)) {
    if (each.path().filename().string().starts_with(kUnfinished) && now - each.last_write_time(ignored) > kLongestUnpacking)
      fs::remove_all(each.path(), ignored);
  }
}

fs::path write_files(const EmbeddedFiles& files, const fs::path& parent) {
  remove_leftovers(parent);
  std::string name = (parent / kUnfinished).string() + "XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw file_error("write", name, errno);
  try {
    for_each_file(files, [&](std::string_view path, std::string text) {
      write_plain(fs::path(name) / path, text);
      return false;
    });
    if (!is_whole(files, name, "")) refuse_archive();
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(name, ignored);
    throw;
  }
  return name;
}

}  // namespace

std::optional<EmbeddedFiles> embedded_files() {
  if (toroid_embedded_archive == nullptr) return std::nullopt;
  return EmbeddedFiles{{toroid_embedded_archive, toroid_embedded_archive_end}, {toroid_embedded_list, toroid_embedded_list_end}};
}

std::optional<std::string> embedded_file(const EmbeddedFiles& files, std::string_view path) {
  std::optional<std::string> found;
  for_each_file(files, [&](std::string_view each, std::string text) {
    if (each == path) found = std::move(text);
    return found.has_value();
  });
  return found;
}

fs::path unpack(const EmbeddedFiles& files, const fs::path& parent) {
  const fs::path folder = parent / (kUnpacked + sha256(files.list).hex().substr(0, 32));
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) return folder;
  const fs::path written = write_files(files, parent);
  if (::rename(written.c_str(), folder.c_str()) == 0) return folder;
  const int failure = errno;
  fs::remove_all(written, ignored);
  // Another process was quicker.
  if (fs::is_directory(folder, ignored)) return folder;
  throw file_error("write", folder, failure);
}

void remove_unpacked(const fs::path& parent) {
  std::error_code ignored;
  for (const fs::directory_entry& each : fs::directory_iterator(parent, ignored)) {
    if (each.path().filename().string().starts_with(kUnpacked)) fs::remove_all(each.path(), ignored);
  }
}

void mend(const EmbeddedFiles& files, const fs::path& folder, std::string_view below) {
  if (is_whole(files, folder, below)) return;
  log_warn("files in {} are damaged, and are written anew", folder.string());
  const fs::path written = write_files(files, folder.parent_path());
  // Who reads the damaged ones meanwhile keeps them.
  const fs::path aside = written.string() + ".damaged";
  std::error_code ignored;
  ::rename(folder.c_str(), aside.c_str());
  if (::rename(written.c_str(), folder.c_str()) != 0) fs::remove_all(written, ignored);  // another process has mended it
  fs::remove_all(aside, ignored);
  if (!is_whole(files, folder, below)) {
    throw Error(ErrorKind::Environment, fmt::format("files in {} change after they were written", folder.string()))
        .help("check the disk, or set TOROID_CACHE_DIR to a folder on another one");
  }
}

fs::path embedded_folder(const EmbeddedFiles& files) {
  if (const fs::path named = default_cache_folder(); !named.empty()) {
    try {
      const fs::path cache = fs::absolute(named);  // the linker runs in another folder
      check_cache_folder(cache);
      std::error_code failure;
      if (fs::create_directories(cache, failure)) ::chmod(cache.c_str(), S_IRWXU);
      return unpack(files, cache);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Environment) throw;
      log_info("what this program brings along is unpacked for it alone: {}", error.message());
    }
  }
  static const TempFolder own("toroid-embedded");
  return unpack(files, own.path());
}

}  // namespace toroid
