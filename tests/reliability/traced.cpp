// The child asks by a seccomp filter to be stopped at calls on files only, so the others run at full speed; there its registers tell
// the call and can change it.
#include "traced.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "reliability.h"

namespace toroid::reliability {

#if defined(__x86_64__)
namespace {

enum Subject { Path, PathAt, Descriptor, Mapping };

// What a call can fail with, besides what any can.
enum Errors : unsigned {
  kSpace = 1,     // ENOSPC
  kDisk = 2,      // EIO
  kAccess = 4,    // EACCES
  kReadOnly = 8,  // EROFS
  kFiles = 16,    // EMFILE
  kMemory = 32,   // ENOMEM
  kLocks = 64,    // ENOLCK
};

struct Call {
  int number;
  Subject subject;
  unsigned errors;
};

constexpr Call kCalls[] = {
    {SYS_open, Path, kSpace | kDisk | kAccess | kReadOnly | kFiles | kMemory},
    {SYS_openat, PathAt, kSpace | kDisk | kAccess | kReadOnly | kFiles | kMemory},
    {SYS_creat, Path, kSpace | kDisk | kAccess | kReadOnly | kFiles | kMemory},
    {SYS_read, Descriptor, kDisk},
    {SYS_pread64, Descriptor, kDisk},
    {SYS_readv, Descriptor, kDisk},
    {SYS_write, Descriptor, kSpace | kDisk},
    {SYS_pwrite64, Descriptor, kSpace | kDisk},
    {SYS_writev, Descriptor, kSpace | kDisk},
    {SYS_fsync, Descriptor, kSpace | kDisk},
    {SYS_fdatasync, Descriptor, kSpace | kDisk},
    {SYS_ftruncate, Descriptor, kDisk},
    {SYS_fallocate, Descriptor, kSpace | kDisk},
    {SYS_rename, Path, kSpace | kDisk | kAccess | kReadOnly},
    {SYS_renameat2, PathAt, kSpace | kDisk | kAccess | kReadOnly},
    {SYS_unlink, Path, kDisk | kAccess | kReadOnly},
    {SYS_unlinkat, PathAt, kDisk | kAccess | kReadOnly},
    {SYS_mkdir, Path, kSpace | kDisk | kAccess | kReadOnly},
    {SYS_mkdirat, PathAt, kSpace | kDisk | kAccess | kReadOnly},
    {SYS_rmdir, Path, kDisk | kAccess | kReadOnly},
    {SYS_stat, Path, kDisk | kAccess | kMemory},
    {SYS_lstat, Path, kDisk | kAccess | kMemory},
    {SYS_fstat, Descriptor, kDisk},
    {SYS_newfstatat, PathAt, kDisk | kAccess | kMemory},
    {SYS_statx, PathAt, kDisk | kAccess | kMemory},
    {SYS_access, Path, kDisk | kAccess},
    {SYS_faccessat2, PathAt, kDisk | kAccess},
    {SYS_readlink, Path, kDisk | kAccess},
    {SYS_fcntl, Descriptor, kLocks},
    {SYS_flock, Descriptor, kLocks},
    {SYS_fchmod, Descriptor, kDisk | kReadOnly},
    {SYS_fchown, Descriptor, kDisk | kReadOnly},
    {SYS_lseek, Descriptor, 0},
    {SYS_close, Descriptor, 0},
    {SYS_getdents64, Descriptor, kDisk},
    {SYS_mmap, Mapping, kMemory},
};

const Call* call_of(uint64_t number) {
  const auto found =
      std::find_if(std::begin(kCalls), std::end(kCalls), [&](const Call& each) { return static_cast<uint64_t>(each.number) == number; });
  return found == std::end(kCalls) ? nullptr : &*found;
}

unsigned kind_of(int error_number) {
  switch (error_number) {
    case ENOSPC: return kSpace;
    case EIO: return kDisk;
    case EACCES: return kAccess;
    case EROFS: return kReadOnly;
    case EMFILE: return kFiles;
    case ENOMEM: return kMemory;
    case ENOLCK: return kLocks;
    default: throw std::logic_error("no kind of failure that calls are known to have");
  }
}

bool can_fail(const Call& call, const user_regs_struct& registers, int error_number) {
  if ((call.errors & kind_of(error_number)) == 0) return false;
  const bool is_open = call.number == SYS_open || call.number == SYS_openat;
  const uint64_t flags = call.number == SYS_open ? registers.rsi : registers.rdx;
  if (is_open && error_number == ENOSPC) return (flags & O_CREAT) != 0;
  if (is_open && error_number == EROFS) return (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0;
  if (call.number == SYS_fcntl) return registers.rsi == F_SETLK || registers.rsi == F_SETLKW || registers.rsi == F_OFD_SETLK;
  return true;
}

std::string text_at(pid_t pid, uint64_t address) {
  char bytes[512];
  iovec here = {bytes, sizeof bytes}, there = {reinterpret_cast<void*>(address), sizeof bytes};
  ssize_t count = ::process_vm_readv(pid, &here, 1, &there, 1, 0);
  if (count < 0) {  // up to the end of the page
    there.iov_len = 4096 - address % 4096;
    here.iov_len = there.iov_len = std::min(there.iov_len, sizeof bytes);
    count = ::process_vm_readv(pid, &here, 1, &there, 1, 0);
  }
  return count <= 0 ? "" : std::string(bytes, std::find(bytes, bytes + count, '\0'));
}

std::string file_behind(pid_t pid, int fd) {
  char target[512];
  const ssize_t size = ::readlink(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), target, sizeof target);
  return size <= 0 ? "" : std::string(target, static_cast<size_t>(size));
}

std::string file_of(pid_t pid, const Call& call, const user_regs_struct& registers) {
  switch (call.subject) {
    case Path: return text_at(pid, registers.rdi);
    case Descriptor: return file_behind(pid, static_cast<int>(registers.rdi));
    case Mapping: return static_cast<int>(registers.r8) < 0 ? "" : file_behind(pid, static_cast<int>(registers.r8));
    case PathAt: {
      const std::string path = text_at(pid, registers.rsi);
      if (path.starts_with('/') || static_cast<int>(registers.rdi) == AT_FDCWD) return path;
      return file_behind(pid, static_cast<int>(registers.rdi)) + "/" + path;
    }
  }
  return "";
}

[[noreturn]] void become_traced(const std::function<int()>& body) {
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const Call& call : kCalls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call.number), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  ::raise(SIGSTOP);  // until the options are set
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(98);
  run_as_child(body);
}

// Decides on one call; true when the process is to be killed.
bool meddle(pid_t pid, const std::string& folder, const Meddling& meddling, TracedEnd& end) {
  user_regs_struct registers;
  if (::ptrace(PTRACE_GETREGS, pid, nullptr, &registers) != 0) return false;
  const Call* const call = call_of(registers.orig_rax);
  if (call == nullptr) return false;
  const bool fails = meddling.deed == Deed::Fail || meddling.deed == Deed::FailFromThere;
  const bool moves = call->number == SYS_read || call->number == SYS_write || call->number == SYS_pread64 || call->number == SYS_pwrite64;
  if (fails && !can_fail(*call, registers, meddling.error_number)) return false;
  if (meddling.deed == Deed::Shorten && (!moves || registers.rdx < 2)) return false;
  const std::string file = file_of(pid, *call, registers);
  if (meddling.deed == Deed::Nothing && (call->number == SYS_openat || call->number == SYS_open || call->number == SYS_creat))
    end.opened.insert(file);
  if (!file.starts_with(folder)) return false;
  ++end.calls;
  const bool is_it = end.calls == meddling.at || (end.calls > meddling.at && meddling.deed == Deed::FailFromThere);
  if (!is_it) return false;
  if (meddling.deed == Deed::Kill) return true;
  if (fails) {
    registers.orig_rax = ~0ull;  // no call: the result is what stands in rax
    registers.rax = static_cast<uint64_t>(-meddling.error_number);
  } else if (meddling.deed == Deed::Shorten) {
    registers.rdx /= 2;
  }
  ::ptrace(PTRACE_SETREGS, pid, nullptr, &registers);
  return false;
}

}  // namespace

TracedEnd run_traced(const std::filesystem::path& folder, const Meddling& meddling, const std::function<int()>& body) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) become_traced(body);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return {0, status, {}};
  constexpr long kOptions =
      PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, kOptions);
  ::ptrace(PTRACE_CONT, child, nullptr, 0);
  TracedEnd end = {0, -1, {}};
  std::set<pid_t> known = {child};  // threads and processes
  for (pid_t pid; end.status == -1 && (pid = ::waitpid(-1, &status, __WALL)) > 0;) {
    if (!WIFSTOPPED(status)) {
      known.erase(pid);
      if (pid == child) end.status = status;
      continue;
    }
    long signal = 0;
    if (status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8)) {
      if (meddle(pid, folder.string(), meddling, end)) ::kill(child, SIGKILL);
    } else if (status >> 16 == 0 && !(known.insert(pid).second && WSTOPSIG(status) == SIGSTOP)) {
      signal = WSTOPSIG(status);  // a real one; a new thread's first stop is none
    }
    ::ptrace(PTRACE_CONT, pid, nullptr, signal);
  }
  for (const pid_t each : known) ::kill(each, SIGKILL);  // processes that the child left behind
  while (::waitpid(-1, &status, __WALL) > 0) {
  }
  return end;
}

bool can_trace() {
  static const bool works = [] {
    if (kIsSanitized) return false;  // a sanitizer's own calls are neither ours to count nor to fail
    const TracedEnd end = run_traced("/dev", {}, [] { return ::close(::open("/dev/null", O_RDONLY)) == 0 ? 7 : 8; });
    return end.calls == 2 && WIFEXITED(end.status) && WEXITSTATUS(end.status) == 7;
  }();
  return works;
}

#else

TracedEnd run_traced(const std::filesystem::path&, const Meddling&, const std::function<int()>&) { return {0, -1, {}}; }
bool can_trace() { return false; }

#endif

}  // namespace toroid::reliability
