/* What the command calls of the C library but glibc 2.28 lacks, beside what packages have already (../glibc.c): definitions of our own,
 * which the linker prefers to the library's. Whatever else is too new fails to link (../symbols_of_glibc.sh). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int __xstat64(int version, const char* path, struct stat64* info);
int __lxstat64(int version, const char* path, struct stat64* info);
int __fxstat64(int version, int fd, struct stat64* info);
int __cxa_atexit(void (*function)(void*), void* argument, void* library);

#pragma GCC visibility push(hidden)

/* 2.30. */
ssize_t getdents64(int fd, void* buffer, size_t size) { return syscall(SYS_getdents64, fd, buffer, size); }

/* 2.33; before, inline over these. */
enum { kStatVersion = 1 };
int stat64(const char* restrict path, struct stat64* restrict info) { return __xstat64(kStatVersion, path, info); }
int lstat64(const char* restrict path, struct stat64* restrict info) { return __lxstat64(kStatVersion, path, info); }
int fstat64(int fd, struct stat64* info) { return __fxstat64(kStatVersion, fd, info); }

/* 2.36, for std::random_device. */
uint32_t arc4random(void) {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) abort();
  return number;
}

/* Of a program, which is never unloaded. In libc_nonshared.a. */
int atexit(void (*function)(void)) { return __cxa_atexit((void (*)(void*))(void*)function, NULL, NULL); }

/* 2.32. */
const char* sigdescr_np(int number) { return strsignal(number); }

/* 2.30: with a clock of the caller's. Before, a wait had the clock of its condition, which is the system's. */
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const struct timespec* deadline) {
  struct timespec end = *deadline;
  if (clock != CLOCK_REALTIME) {
    struct timespec there, here;
    if (clock_gettime(clock, &there) != 0 || clock_gettime(CLOCK_REALTIME, &here) != 0) return EINVAL;
    end.tv_sec += here.tv_sec - there.tv_sec;
    end.tv_nsec += here.tv_nsec - there.tv_nsec;
    if (end.tv_nsec < 0) end.tv_nsec += 1000000000, --end.tv_sec;
    if (end.tv_nsec >= 1000000000) end.tv_nsec -= 1000000000, ++end.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &end);
}

/* ---- posix_spawn with the actions addchdir_np (2.29) and addclosefrom_np (2.34) */

struct Action {
  enum { kDup2, kCloseFrom, kChangeFolder } kind;
  int fd, target;
  char* path;
};
struct Actions {
  size_t count;
  struct Action list[];
};
static struct Actions** actions_of(posix_spawn_file_actions_t* actions) { return (struct Actions**)(void*)actions; }

int posix_spawn_file_actions_init(posix_spawn_file_actions_t* actions) {
  memset(actions, 0, sizeof *actions);
  return 0;
}
int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t* actions) {
  struct Actions* const all = *actions_of(actions);
  for (size_t i = 0; all != NULL && i < all->count; ++i) free(all->list[i].path);
  free(all);
  *actions_of(actions) = NULL;
  return 0;
}
static int add(posix_spawn_file_actions_t* actions, struct Action action) {
  struct Actions** const all = actions_of(actions);
  const size_t count = *all != NULL ? (*all)->count : 0;
  struct Actions* const more = realloc(*all, sizeof **all + (count + 1) * sizeof action);
  if (more == NULL) return ENOMEM;
  more->list[count] = action;
  more->count = count + 1;
  *all = more;
  return 0;
}
int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t* actions, int fd, int target) {
  return add(actions, (struct Action){.kind = kDup2, .fd = fd, .target = target});
}
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t* actions, int from) {
  return add(actions, (struct Action){.kind = kCloseFrom, .fd = from});
}
int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t* restrict actions, const char* restrict path) {
  char* const copy = strdup(path);
  if (copy == NULL) return ENOMEM;
  const int failure = add(actions, (struct Action){.kind = kChangeFolder, .path = copy});
  if (failure != 0) free(copy);
  return failure;
}

/* Linux has a call for it from 5.9 on; before, /proc tells which are open. */
static void close_from(int from) {
  if (syscall(436 /* close_range */, from, ~0u, 0) == 0) return;
  const int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
  if (folder < 0) {
    for (int fd = from; fd < 65536; ++fd) close(fd);
    return;
  }
  char buffer[4096] __attribute__((aligned(16)));
  for (int closed = 1; closed;) { /* again, for closing moves what is listed */
    closed = 0;
    lseek(folder, 0, SEEK_SET);
    for (ssize_t size; (size = getdents64(folder, buffer, sizeof buffer)) > 0;) {
      for (ssize_t at = 0; at < size;) {
        const struct dirent64* const entry = (const struct dirent64*)(buffer + at);
        at += entry->d_reclen;
        int fd = 0;
        const char* digit = entry->d_name;
        while (*digit >= '0' && *digit <= '9') fd = 10 * fd + (*digit++ - '0');
        if (*digit == '\0' && fd >= from && fd != folder && close(fd) == 0) closed = 1;
      }
    }
  }
  close(folder);
}

static int prepare_child(const struct Actions* actions, const posix_spawnattr_t* attributes) {
  short flags = 0;
  pid_t group = 0;
  sigset_t defaults, mask;
  posix_spawnattr_getflags(attributes, &flags);
  posix_spawnattr_getpgroup(attributes, &group);
  posix_spawnattr_getsigdefault(attributes, &defaults);
  posix_spawnattr_getsigmask(attributes, &mask);
  for (int number = 1; (flags & POSIX_SPAWN_SETSIGDEF) && number < NSIG; ++number) {
    if (sigismember(&defaults, number) == 1) signal(number, SIG_DFL); /* refused for some, which stay as they are */
  }
  if ((flags & POSIX_SPAWN_SETPGROUP) && setpgid(0, group) != 0) return errno;
  for (size_t i = 0; actions != NULL && i < actions->count; ++i) {
    const struct Action* const action = &actions->list[i];
    switch (action->kind) {
      case kDup2:
        if (action->fd == action->target ? fcntl(action->fd, F_SETFD, 0) != 0 : dup2(action->fd, action->target) < 0) return errno;
        break;
      case kCloseFrom: close_from(action->fd); break;
      case kChangeFolder:
        if (chdir(action->path) != 0) return errno;
    }
  }
  if (flags & POSIX_SPAWN_SETSIGMASK) sigprocmask(SIG_SETMASK, &mask, NULL);
  return 0;
}

/* The child has the parent's memory until it is another program, so its failure is written where the parent reads it. No handler of the
 * parent's may run in it: all signals wait until the child has none. */
int posix_spawn(pid_t* restrict pid, const char* restrict path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* restrict attributes, char* const* restrict arguments, char* const* restrict environment) {
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  volatile int failure = 0;
  const pid_t child = vfork();
  if (child == 0) {
    failure = prepare_child(*actions_of((posix_spawn_file_actions_t*)actions), attributes);
    if (failure == 0) {
      execve(path, arguments, environment);
      failure = errno;
    }
    _exit(127);
  }
  const int why = child < 0 ? errno : failure;
  if (child > 0 && why != 0) {
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (why == 0) *pid = child;
  return why;
}

#pragma GCC visibility pop
