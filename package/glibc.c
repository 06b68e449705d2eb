/* What the run side of a package calls of the C library, but glibc 2.28 lacks or has in another library than libc.so.6: systems of that age
 * run packages that were made on newer ones. Here are definitions of our own, hidden, which the linker prefers to the library's; anything
 * else that is too new fails to link, for packages are linked against libc.so.6 and libm.so.6 as they were (symbols_of_glibc.sh).
 *
 * No header of the C library is included: those of newer versions rename functions. */
#include <stddef.h>
#include <stdint.h>

/* ---- what is called: all versions have it */

typedef struct {
  uint32_t p_type, p_flags;
  uint64_t p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align;
} ProgramHeader;
struct LoadedObject { /* struct dl_phdr_info */
  uintptr_t addr;
  const char* name;
  const ProgramHeader* headers;
  uint16_t count;
};
int __xstat(int version, const char* path, void* info);
int __lxstat(int version, const char* path, void* info);
int __fxstat(int version, int fd, void* info);
long strtol(const char* text, char** end, int base);
unsigned long strtoul(const char* text, char** end, int base);
int sigprocmask(int how, const void* set, void* old);
int* __errno_location(void);
int sched_yield(void);
int dl_iterate_phdr(int (*visit)(struct LoadedObject*, size_t, void*), void* data);
typedef unsigned long Thread;
__attribute__((weak)) int pthread_create(Thread*, const void* attributes, void* (*start)(void*), void* argument);
__attribute__((weak)) int pthread_join(Thread, void** result);
typedef unsigned Key;
__attribute__((weak)) int pthread_key_create(Key*, void (*destroy)(void*));
__attribute__((weak)) int pthread_key_delete(Key);
__attribute__((weak)) void* pthread_getspecific(Key);
__attribute__((weak)) int pthread_setspecific(Key, const void* value);

#pragma GCC visibility push(hidden)

/* ---- files: since 2.33 functions, before inline over these */

#if defined(__x86_64__)
enum { kStatVersion = 1 };
#else
enum { kStatVersion = 0 };
#endif
int stat(const char* path, void* info) { return __xstat(kStatVersion, path, info); }
int lstat(const char* path, void* info) { return __lxstat(kStatVersion, path, info); }
int fstat(int fd, void* info) { return __fxstat(kStatVersion, fd, info); }

/* ---- numbers: since 2.38 those of C23, which read binary literals too */

long __isoc23_strtol(const char* text, char** end, int base) { return strtol(text, end, base); }
unsigned long __isoc23_strtoul(const char* text, char** end, int base) { return strtoul(text, end, base); }

/* ---- threads: in libpthread.so.0 until 2.34. A process of such a system that has not loaded it has one thread, and so has the pool. The
 * archive's calls are renamed to these (run_side.sh); without a version, the reference to the real ones fits both. */

enum { kTryAgain = 11, kNoThread = 3 };

int toroid_pthread_create(Thread* thread, const void* attributes, void* (*start)(void*), void* argument) {
  return pthread_create != NULL ? pthread_create(thread, attributes, start, argument) : kTryAgain;
}
int toroid_pthread_join(Thread thread, void** result) { return pthread_join != NULL ? pthread_join(thread, result) : kNoThread; }

/* What threads keep, of a process with one. */
static const void* kept[64];
static Key keys;
int toroid_pthread_key_create(Key* key, void (*destroy)(void*)) {
  if (pthread_key_create != NULL) return pthread_key_create(key, destroy);
  if (keys == sizeof kept / sizeof *kept) return kTryAgain;
  *key = keys++;
  return 0;
}
int toroid_pthread_key_delete(Key key) { return pthread_key_create != NULL ? pthread_key_delete(key) : 0; }
void* toroid_pthread_getspecific(Key key) { return pthread_key_create != NULL ? pthread_getspecific(key) : (void*)kept[key]; }
int toroid_pthread_setspecific(Key key, const void* value) {
  if (pthread_key_create != NULL) return pthread_setspecific(key, value);
  kept[key] = value;
  return 0;
}

/* The mask of a thread, by what has set that of a process in libc.so.6 since ever: Linux has one for each thread. */
int pthread_sigmask(int how, const void* set, void* old) { return sigprocmask(how, set, old) == 0 ? 0 : *__errno_location(); }

/* 0: never done, 1: somebody is at it, 2: done. An exception of the routine's leaves it undone (-fexceptions). */
static void undo(int** once) {
  if (*once != NULL) __atomic_store_n(*once, 0, __ATOMIC_RELEASE);
}
int pthread_once(int* once, void (*routine)(void)) {
  for (;;) {
    int found = 0;
    if (__atomic_load_n(once, __ATOMIC_ACQUIRE) == 2) return 0;
    if (__atomic_compare_exchange_n(once, &found, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) break;
    if (found == 2) return 0;
    sched_yield();
  }
  __attribute__((cleanup(undo))) int* undone = once;
  routine();
  undone = NULL;
  __atomic_store_n(once, 2, __ATOMIC_RELEASE);
  return 0;
}

/* 1 would let counters of shared objects be changed without atomic instructions; since 2.32. */
char __libc_single_threaded = 0;

/* ---- unwinding: since 2.35 the C library finds the table of the code at an address */

struct dl_find_object {
  unsigned long long flags;
  void *map_start, *map_end;
  void* link_map;
  void* eh_frame;
  unsigned long long reserved[7];
};

struct Search {
  uintptr_t address;
  struct dl_find_object* found;
};
enum { kLoad = 1, kEhFrame = 0x6474e550 }; /* types of program headers */
static int is_there(struct LoadedObject* object, size_t size, void* data) {
  const struct Search* const search = data;
  uintptr_t start = 0, end = 0, table = 0;
  (void)size;
  for (int i = 0; i < object->count; ++i) {
    const ProgramHeader* const header = &object->headers[i];
    const uintptr_t at = object->addr + header->p_vaddr;
    if (header->p_type == kLoad && search->address - at < header->p_memsz) start = at, end = at + header->p_memsz;
    if (header->p_type == kEhFrame) table = at;
  }
  if (end == 0 || table == 0) return 0;
  search->found->flags = 0;
  search->found->map_start = (void*)start;
  search->found->map_end = (void*)end;
  search->found->link_map = NULL;
  search->found->eh_frame = (void*)table;
  return 1;
}
/* This package's own code is found by its program headers. The loader's list of all objects is locked, and a run that ends with an error would
 * wait for the others there. */
extern const struct {
  unsigned char magic[32];
  uint64_t e_phoff;
  unsigned char more[16];
  uint16_t e_phnum;
} __ehdr_start __attribute__((weak)); /* the linker's */
static int is_here(struct Search* search) {
  if (&__ehdr_start == NULL) return 0;
  const uintptr_t start = (uintptr_t)&__ehdr_start;
  struct LoadedObject here = {start, NULL, (const ProgramHeader*)(start + __ehdr_start.e_phoff), __ehdr_start.e_phnum};
  for (int i = 0; i < here.count; ++i) {
    if (here.headers[i].p_type == kLoad && here.headers[i].p_offset == 0) here.addr = start - here.headers[i].p_vaddr;
  }
  return is_there(&here, sizeof here, search);
}
int _dl_find_object(void* address, struct dl_find_object* found) {
  struct Search search = {(uintptr_t)address, found};
  return is_here(&search) == 1 || dl_iterate_phdr(is_there, &search) == 1 ? 0 : -1;
}

#pragma GCC visibility pop
