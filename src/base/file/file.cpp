#include "base/file/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "base/fail.h"
#include "base/file/write_parts.h"
#include "base/file/write_signals.h"
#include "base/format.h"

namespace toroid {
namespace fs = std::filesystem;
namespace {

constexpr auto kPatienceWithReaders = std::chrono::seconds(5);

std::string folder_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return "the current folder";
  const size_t last = path.find_last_not_of('/', slash);
  return std::string(path.substr(0, last == path.npos ? 1 : last + 1));
}

std::string next_step(std::string_view action, std::string_view path, int error_number) {
  switch (error_number) {
    case EACCES:
    case EPERM: return formatted("check the permissions of {}, or choose another place", folder_of(path));
    case ENOENT:
    case ENOTDIR:
      if (action == "write" || action == "create") return formatted("create the folder first: {}", folder_of(path));
      return "check the path";
    case EISDIR: return "give the path of a file, not of a folder";
    case ENOSPC:
    case EDQUOT: return formatted("free some space on the disk that holds {}", folder_of(path));
    case EFBIG:
      if (action == "write") return "raise the limit on the size of files (ulimit -f)";
      return "check that this is the file you meant";
    case EROFS: return "the disk is read-only: choose another place";
    case EMFILE:
    case ENFILE: return "raise the limit on open files (ulimit -n)";
    case ENOMEM: return "free some memory";
    case EIO: return formatted("the disk that holds {} may be failing: check the system's log", folder_of(path));
    default: return "check the path and the disk";
  }
}

void write_all(int fd, Span<const std::byte> bytes, const fs::path& path) {
  const WriteSignalsBlock block;
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_file("write", path, errno);
    }
    if (count == 0) fail_file("write", path, ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

// Removes the temporary file unless it became the real one.
struct Unlinker {
  fs::path path;
  ~Unlinker() {
    if (!path.empty()) ::unlink(path.c_str());
  }
};

fs::path temporary_beside(const fs::path& path) {
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) {
    random = static_cast<uint64_t>(::getpid()) << 32 ^ reinterpret_cast<uintptr_t>(&path);
  }
  return path.parent_path() / formatted(".{}.{}.tmp", path.filename().string().substr(0, 200), hex(random));
}

// Where links lead, also to a file that is yet to be made. A device or pipe is opened by its link: /dev/fd/3 has no other name.
fs::path target_of(fs::path path) {
  constexpr int kMostLinks = 40;  // as Linux counts
  std::error_code failure;
  if (fs::exists(path, failure) && !fs::is_regular_file(path, failure)) return path;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, failure); ++i) {
    const fs::path target = fs::read_symlink(path, failure);
    if (failure) fail_file("read the link", path, failure.value());
    path = path.parent_path() / target;
  }
  if (fs::is_symlink(path, failure)) fail_file("write", path, ELOOP);
  return path;
}

// A device, or a pipe, whose reader may be about to come.
Fd open_in_place(const fs::path& path) {
  for (const auto start = std::chrono::steady_clock::now();; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd) {
      ::fcntl(fd.get(), F_SETFL, 0);  // a slow reader is waited for
      return fd;
    }
    if (errno != ENXIO) fail_file("write", path, errno);
    if (std::chrono::steady_clock::now() - start > kPatienceWithReaders) {
      throw Error(ErrorKind::Environment, formatted("cannot write {}: it is a pipe that nobody reads", path.string()))
          .help(formatted("start what reads it first, or within {} s", kPatienceWithReaders.count()));
    }
  }
}

// Removes a file or folder, as far as it may be, without asking for memory: destructors do this where there is none. Links are not
// followed.
void remove_tree(int parent, const char* name) {
  if (::unlinkat(parent, name, 0) == 0 || (errno != EISDIR && errno != EPERM)) return;
  // Once more where entries came, or were passed over, while others went.
  for (int pass = 0; pass < 3 && ::unlinkat(parent, name, AT_REMOVEDIR) != 0; ++pass) {
    const Fd folder(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder) return;
    alignas(dirent64) char entries[4096];
    for (ssize_t bytes; (bytes = ::getdents64(folder.get(), entries, sizeof entries)) > 0;) {
      for (ssize_t at = 0; at < bytes;) {
        const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
        const std::string_view each = entry->d_name;
        if (each != "." && each != "..") remove_tree(folder.get(), entry->d_name);
        at += entry->d_reclen;
      }
    }
  }
  ::unlinkat(parent, name, AT_REMOVEDIR);
}

}  // namespace

void fail_file(std::string_view action, const std::string& path, int error_number) { throw file_error(action, path, error_number); }

Error file_error(std::string_view action, const std::string& path, int error_number) {
  const std::string reason = std::generic_category().message(error_number);
  Error error(ErrorKind::Environment, formatted("cannot {} {}: {}", action, path, reason));
  error.help(next_step(action, path, error_number));
  return error;
}

// O_NONBLOCK keeps a FIFO from blocking the open before it is refused.
Fd open_regular(const std::string& path, struct stat& info) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) fail_file("read", path, errno);
  if (::fstat(fd.get(), &info) != 0) fail_file("read", path, errno);
  if (S_ISDIR(info.st_mode)) fail_file("read", path, EISDIR);
  if (!S_ISREG(info.st_mode)) {
    fail(ErrorKind::Environment, Help{"copy the data into a file first"}, "cannot read {}: not a regular file", path);
  }
  return fd;
}

std::string_view file_name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string_view extension_of(std::string_view path) {
  const std::string_view name = file_name_of(path);
  const size_t dot = name.rfind('.');
  return dot == name.npos || dot == 0 || name == ".." ? std::string_view() : name.substr(dot);
}

std::string read_file(const std::string& path, uint64_t limit_bytes) {
  struct stat info;
  const Fd fd = open_regular(path, info);
  const auto size_bytes = static_cast<uint64_t>(info.st_size);
  if (size_bytes > limit_bytes) {
    fail(ErrorKind::Environment, Help{"check that this is the file you meant"}, "cannot read {}: it holds {} bytes and the limit is {}",
         path, size_bytes, limit_bytes);
  }
  std::string text(size_bytes, '\0');
  size_t filled = 0;
  // Reads one byte more than expected: files of /proc report a size of zero.
  for (;;) {
    if (filled == text.size()) text.resize(text.size() + (filled == size_bytes ? 1 : text.size()));
    const ssize_t count = ::read(fd.get(), text.data() + filled, text.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_file("read", path, errno);
    if (count == 0) break;
    filled += static_cast<size_t>(count);
    if (filled > limit_bytes) fail_file("read", path, EFBIG);
  }
  text.resize(filled);
  return text;
}

std::string start_of_file(const std::string& path) {
  constexpr size_t kMost = 16 << 10;
  std::string text(kMost, '\0');
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t bytes = file.get() < 0 ? 0 : ::read(file.get(), text.data(), kMost);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, bytes)));
  return text;
}

void write_file_atomically(const fs::path& path, Span<const std::byte> bytes, unsigned permissions) {
  write_parts_atomically(path, Span(&bytes, 1), permissions);
}

void write_parts_atomically(const fs::path& given_path, Span<const Span<const std::byte>> parts, unsigned permissions) {
  const fs::path path = target_of(given_path);
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) fail_file("write", path, EISDIR);
    const Fd fd = open_in_place(path);
    for (const Span<const std::byte> part : parts) write_all(fd.get(), part, path);
    return;
  }
  const fs::path temporary = temporary_beside(path);
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, permissions));
  if (!fd) fail_file("write", path, errno);
  Unlinker unlinker{temporary};
  for (const Span<const std::byte> part : parts) write_all(fd.get(), part, path);
  if (::fsync(fd.get()) != 0) fail_file("write", path, errno);
  fd.close();
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail_file("write", path, errno);
  unlinker.path.clear();
  // Makes the new name durable too. A file system without folder sync loses only durability, so failure is no error.
  const fs::path folder = path.parent_path().empty() ? "." : path.parent_path();
  const Fd folder_fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder_fd) ::fsync(folder_fd.get());
}

void write_file_atomically(const fs::path& path, std::string_view text, unsigned permissions) {
  write_file_atomically(path, as_bytes(Span(text)), permissions);
}

void check_writable(const fs::path& given_path) {
  const fs::path path = target_of(given_path);
  const fs::path folder = path.parent_path().empty() ? "." : path.parent_path();
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) fail_file("write", path, EISDIR);
    if (::access(path.c_str(), W_OK) != 0) fail_file("write", path, errno);
    return;
  }
  if (::stat(folder.c_str(), &info) != 0) fail_file("write", path, errno);
  if (!S_ISDIR(info.st_mode)) fail_file("write", path, ENOTDIR);
  if (::access(folder.c_str(), W_OK) != 0 && !(fs::exists(path) && ::access(path.c_str(), W_OK) == 0)) {
    fail_file("write", path, errno);
  }
}

TempFolder::TempFolder(std::string_view name) {
  const char* parent = ::getenv("TMPDIR");
  const fs::path base = parent != nullptr && *parent != '\0' ? parent : "/tmp";
  std::string pattern = (base / formatted("{}-XXXXXX", name)).string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    const int error_number = errno;
    Error error = file_error("create a temporary folder in", base, error_number);
    error.help("set TMPDIR to a folder you may write to, with free space");
    throw error;
  }
  path_ = pattern;
}

TempFolder::TempFolder(TempFolder&& other) noexcept
    : path_(std::move(other.path_)), removed_at_end_(std::exchange(other.removed_at_end_, false)) {}

TempFolder::~TempFolder() {
  if (removed_at_end_) remove_tree(AT_FDCWD, path_.c_str());
}

fs::path TempFolder::keep() {
  removed_at_end_ = false;
  return path_;
}

std::optional<fs::path> find_program(std::string_view name) {
  auto is_program = [](const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
  };
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string_view::npos) {
    if (is_program(name)) return fs::path(name);
    return std::nullopt;
  }
  const char* variable = ::getenv("PATH");
  std::string_view folders = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (!folders.empty()) {
    const size_t end = folders.find(':');
    const std::string_view folder = folders.substr(0, end);
    // An empty entry would mean the current folder; running whatever lies there is not what anybody wants.
    if (!folder.empty() && is_program(fs::path(folder) / name)) return fs::path(folder) / name;
    if (end == std::string_view::npos) break;
    folders.remove_prefix(end + 1);
  }
  return std::nullopt;
}

}  // namespace toroid
