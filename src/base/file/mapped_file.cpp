#include "base/file/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/affixes.h"
#include "base/error.h"
#include "base/file/fd.h"
#include "base/file/file.h"
#include "base/format.h"
#include "base/language.h"

namespace toroid {

// Never freed but used again, so that a handler can walk the list at any time. Addresses and `is_lost` are the handler's; all else is
// guarded by the mutex.
struct MappedFile::Mapping {
  std::atomic<uintptr_t> begin{0}, end{0};  // whole pages; 0 while unused
  std::atomic<bool> is_lost{false};         // zeros may have been read
  Mapping* next = nullptr;
  bool is_used = false;
  std::string path;
  struct stat before = {};
};

namespace {

using Mapping = MappedFile::Mapping;

TOROID_CONSTINIT std::mutex mutex;
TOROID_CONSTINIT std::atomic<Mapping*> mappings{nullptr};
TOROID_CONSTINIT std::atomic<uint64_t> answered{0};
TOROID_CONSTINIT struct sigaction previous_action = {};
TOROID_CONSTINIT std::atomic<bool> answers{false};

std::optional<std::string>& first_lost() {
  static std::optional<std::string> path;
  return path;
}
// The first that had changed when it was unmapped. A whole program's: a host would hear of it for ever.
std::optional<std::string>& first_changed() {
  static std::optional<std::string> path;
  return path;
}

bool is_same_content(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

std::string target_of_link(const std::string& path) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size < 0) fail_file("read the link", path, errno);
  target.resize(static_cast<size_t>(size));
  return target;
}

Mapping* registered(const std::string& path, const struct stat& info, const void* address) {
  const std::lock_guard lock(mutex);
  Mapping* mapping = mappings.load();
  while (mapping != nullptr && mapping->is_used) mapping = mapping->next;
  const bool is_new = mapping == nullptr;
  if (is_new) mapping = new Mapping;
  mapping->path = path;
  mapping->before = info;
  mapping->is_used = true;
  mapping->is_lost = false;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  mapping->begin = begin;
  mapping->end = begin + (static_cast<uintptr_t>(info.st_size) + page - 1) / page * page;
  if (is_new) {
    mapping->next = mappings.load();
    mappings = mapping;
  }
  return mapping;
}

void note_lost(const Mapping& mapping) {
  if (mapping.is_lost && !first_lost()) first_lost() = mapping.path;
}

// Whoever replaced the path by another file left ours alone.
bool is_changed(const Mapping& mapping) {
  if (mapping.is_lost) return true;
  struct stat now;
  if (::stat(mapping.path.c_str(), &now) != 0) return false;
  return now.st_dev == mapping.before.st_dev && now.st_ino == mapping.before.st_ino && !is_same_content(now, mapping.before);
}

template <class IsMeant>
void refuse_changed(const IsMeant& is_meant) {
  const std::lock_guard lock(mutex);
  for (const Mapping* mapping = mappings; mapping != nullptr; mapping = mapping->next) {
    if (!mapping->is_used) continue;
    note_lost(*mapping);
    if (is_meant(*mapping) && is_changed(*mapping)) fail_changed_file(mapping->path);
  }
}

// ---- the handler: nothing but system calls and atomics from here on ---------------------------------------------------------------

void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count <= 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

// The path in "55d0c0000000-55d0c0001000 r--p 00000000 fe:00 1234   /path", if the line's range holds the address.
std::string_view path_if_holding(std::string_view line, uintptr_t address) {
  uintptr_t bounds[2] = {0, 0};
  size_t at = 0;
  for (uintptr_t& bound : bounds) {
    for (; at < line.size() && line[at] != '-' && line[at] != ' '; ++at) {
      bound = bound * 16 + static_cast<uintptr_t>(line[at] <= '9' ? line[at] - '0' : line[at] - 'a' + 10);
    }
    ++at;
  }
  if (address < bounds[0] || address >= bounds[1]) return {};
  const size_t path = line.find('/');
  return path == line.npos ? std::string_view() : line.substr(path);
}

// Ends the process when the address lies in a file.
void end_if_in_a_file(uintptr_t address) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return;
  char buffer[8192];
  size_t filled = 0;
  for (ssize_t count; (count = ::read(maps, buffer + filled, sizeof buffer - filled)) > 0;) {
    std::string_view text(buffer, filled + static_cast<size_t>(count));
    for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
      const std::string_view path = path_if_holding(text.substr(0, end), address);
      if (path.empty()) continue;
      say("error: ");
      say(path);
      say(" was changed while it was in use\n  help: replace files by renaming (mv), and run the command again\n");
      ::_exit(1);
    }
    filled = text.size() == sizeof buffer ? 0 : text.size();  // a longer line is none of a file
    std::memmove(buffer, text.data(), filled);
  }
  ::close(maps);
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error_number = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (info->si_code == BUS_ADRERR) {
    for (Mapping* mapping = mappings; mapping != nullptr; mapping = mapping->next) {
      const uintptr_t begin = mapping->begin, end = mapping->end;
      if (address < begin || address >= end) continue;
      const uintptr_t page = address & ~(static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)) - 1);
      void* const zeros =
          ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
      if (zeros == MAP_FAILED) break;
      mapping->is_lost = true;
      answered.fetch_add(1);
      errno = error_number;
      return;
    }
    end_if_in_a_file(address);
  }
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) return previous_action.sa_sigaction(signal, info, context);
  if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) return previous_action.sa_handler(signal);
  ::signal(signal, SIG_DFL);  // the access is tried again, and ends the process
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  struct stat before;
  const Fd fd = open_regular(path, before);
  if (starts_with(path, "/proc/self/fd/")) path_ = target_of_link(path);  // a number says nothing
  const auto size = static_cast<size_t>(before.st_size);
  if (size == 0) return;  // mmap refuses an empty range
  if (size > kCopiedBytes) {
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (address == MAP_FAILED) fail_file("map", path, errno);
    bytes_ = {static_cast<const std::byte*>(address), size};
    try {
      mapping_ = registered(path_, before, address);
    } catch (...) {
      ::munmap(address, size);
      throw;
    }
    return;
  }
  copy_ = std::make_unique<AlignedBytes>(size);
  size_t filled = 0;
  while (filled < size) {
    const ssize_t count = ::read(fd.get(), copy_->data() + filled, size - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_file("read", path, errno);
    if (count == 0) break;
    filled += static_cast<size_t>(count);
  }
  struct stat after;
  if (filled != size || ::fstat(fd.get(), &after) != 0 || !is_same_content(before, after)) fail_changed_file(path_);
  bytes_ = {reinterpret_cast<const std::byte*>(copy_->data()), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      copy_(std::move(other.copy_)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(copy_, other.copy_);
  std::swap(mapping_, other.mapping_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (mapping_ == nullptr) return;
  const std::lock_guard lock(mutex);
  try {
    note_lost(*mapping_);
    if (answers && !first_changed() && is_changed(*mapping_)) first_changed() = path_;
  } catch (const std::bad_alloc&) {  // bus_errors_answered still tells
  }
  mapping_->begin = 0;
  mapping_->end = 0;
  mapping_->is_used = false;
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void refuse_changed_files() {
  refuse_changed([](const Mapping&) { return true; });
  const std::lock_guard lock(mutex);
  if (first_changed()) fail_changed_file(*first_changed());
}

void refuse_changed_files(Span<const Span<const std::byte>> memory) {
  refuse_changed([&](const Mapping& mapping) {
    return std::any_of(memory.begin(), memory.end(), [&](Span<const std::byte> bytes) {
      const auto address = reinterpret_cast<uintptr_t>(bytes.data());
      return address >= mapping.begin && address < mapping.end;
    });
  });
}

void answer_bus_errors() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &previous_action);
  answers = true;
}

uint64_t bus_errors_answered() { return answered.load(std::memory_order_relaxed); }

std::optional<std::string> first_lost_file() {
  const std::lock_guard lock(mutex);
  for (const Mapping* mapping = mappings; mapping != nullptr; mapping = mapping->next) {
    if (mapping->is_used) note_lost(*mapping);
  }
  return first_lost();
}

void fail_changed_file(const std::string& path) { throw changed_file_error(path); }

Error changed_file_error(const std::string& path) {
  return Error(ErrorKind::Environment, formatted("{} was changed while it was in use", path))
      .help("write the new file beside it and rename it (mv): then what runs keeps the old one");
}

}  // namespace toroid
