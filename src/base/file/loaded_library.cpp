#include "base/file/loaded_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "base/affixes.h"
#include "base/error.h"
#include "base/file/fd.h"
#include "base/file/kept_files.h"
#include "base/file/write_signals.h"
#include "base/format.h"

namespace toroid {
namespace {

// Kernels from 6.3 on want to be told that the file will hold code; older ones refuse the flag.
constexpr unsigned kMemfdExec = 0x10;

std::string reason(int error_number) { return std::error_code(error_number, std::generic_category()).message(); }

Error load_error(const std::string& name, const std::string& why, std::string help) {
  Error error(ErrorKind::Environment, formatted("cannot load the compiled library '{}': {}", name, why));
  error.help(std::move(help));
  return error;
}

constexpr const char* kMemoryFilesForbidden =
    "this system forbids executable memory files: allow them (sysctl vm.memfd_noexec=0, or the sandbox's policy), or set "
    "TOROID_KEEP_FILES to a folder from which programs may be run";
constexpr const char* kFolderForbidden =
    "programs may not be run from the folder that TOROID_KEEP_FILES names: unset it, or name one on a disk that is mounted without noexec";
constexpr const char* kTooLarge = "raise the limit on the size of files (ulimit -f), which counts for memory files too";
constexpr const char* kNoRoom = "raise the limit on open files (ulimit -n) or free some memory";

Fd memory_file_with(std::string_view bytes, const std::string& name) {
  const std::string label = "toroid:" + name.substr(0, 200);
  Fd fd(::memfd_create(label.c_str(), MFD_CLOEXEC | kMemfdExec));
  if (!fd && errno == EINVAL) fd = Fd(::memfd_create(label.c_str(), MFD_CLOEXEC));
  if (!fd) {
    const int error_number = errno;
    const bool is_forbidden = error_number == EACCES || error_number == EPERM || error_number == ENOSYS;
    throw load_error(name, "memfd_create: " + reason(error_number), is_forbidden ? kMemoryFilesForbidden : kNoRoom);
  }
  const WriteSignalsBlock block;
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error_number = errno;
      throw load_error(name, "writing to memory: " + reason(error_number), error_number == EFBIG ? kTooLarge : "free some memory");
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return fd;
}

#if defined(__x86_64__)
constexpr auto kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr auto kMachine = EM_AARCH64;
#endif

// The loader trusts headers: it maps what they promise and dies with SIGBUS where a truncated file does not reach.
bool is_whole_library(std::string_view bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return false;
  auto fits = [&](uint64_t offset, uint64_t size) { return offset <= bytes.size() && size <= bytes.size() - offset; };
  if (!fits(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize)) return false;
  if (header.e_machine != kMachine) return false;
  if (header.e_phentsize != sizeof(Elf64_Phdr) || !fits(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr))) return false;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (!fits(segment.p_offset, segment.p_filesz)) return false;
  }
  return true;
}

// A path to the descriptor that no earlier load has used. The loader takes an equal path for the library that it
// already has, and descriptor numbers come again once closed; so a counter is spelt in "./" and ".//", which mean
// nothing to the kernel.
std::string unique_path(int fd) {
  static std::atomic<uint64_t> loads = 0;
  std::string path = "/proc/self/fd/";
  for (uint64_t number = ++loads; number != 0; number >>= 1) path += (number & 1) != 0 ? ".//" : "./";
  return path + std::to_string(fd);
}

// `is_file`: it was loaded from a kept file.
std::string help_for(std::string_view why, bool is_file) {
  auto says = [&](std::string_view words) { return why.find(words) != std::string_view::npos; };
  if (says("failed to map") || says("Operation not permitted") || says("Permission denied")) {
    return is_file ? kFolderForbidden : kMemoryFilesForbidden;
  }
  if (says("version `")) return "it was built on a newer system than this one: compile it again here";
  if (says("undefined symbol")) {
    return "the library was built for another version of toroid or of the system's libraries: compile it again";
  }
  if (says("libm.so") || says("libmvec.so")) return "install the C library whole (Debian and Ubuntu: libc6)";
  if (says("cannot open shared object file")) return "install the library named above, or compile it again without it";
  return "compile it again";
}

// The loader's own structures are what it "creates" and "allocates". The file is there and open: that it cannot be opened, without a reason
// behind it, means that there was no memory for its name.
bool is_lack_of_memory(std::string_view why) {
  for (const std::string_view words : {"annot allocate", "cannot create", "out of memory"}) {
    if (why.find(words) != why.npos) return true;
  }
  return ends_with(why, ": cannot open shared object file");
}

void* opened(const std::string& path) { return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); }

}  // namespace

LoadedLibrary::LoadedLibrary(std::string_view bytes, std::string name) : name_(std::move(name)) {
  if (!is_whole_library(bytes)) {
    throw load_error(name_, "it is cut short or no shared library for this processor", "compile it again");
  }
  void* handle = nullptr;
  const std::optional<std::filesystem::path> folder = kept_files_folder();
  if (folder) {
    handle = opened(std::filesystem::absolute(keep_file(*folder, name_, "so", bytes, 0755)));
  } else {
    const Fd fd = memory_file_with(bytes, name_);
    handle = opened(unique_path(fd.get()));
  }
  if (handle == nullptr) {
    const char* message = ::dlerror();
    const std::string why = message != nullptr ? message : "out of memory";
    if (is_lack_of_memory(why)) throw std::bad_alloc();
    throw load_error(name_, why, help_for(why, folder.has_value()));
  }
  handle_ = std::shared_ptr<void>(handle, [](void* open) { ::dlclose(open); });
}

void* LoadedLibrary::find(const std::string& symbol_name) const {
  if (handle_ == nullptr) refuse_closed_library(symbol_name, name_);
  return ::dlsym(handle_.get(), symbol_name.c_str());
}

void* LoadedLibrary::symbol(const std::string& symbol_name) const {
  if (void* const address = find(symbol_name)) return address;
  throw load_error(name_, formatted("it has no symbol '{}'", symbol_name),
                   "the library was built for another version of toroid: compile it again");
}

void refuse_closed_library(const std::string& symbol, const std::string& library) {
  internal_error(__FILE__, __LINE__, "the library is open", "symbol '{}' asked of the closed library '{}'", symbol, library);
}

}  // namespace toroid
