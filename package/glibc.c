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
int __xstat(int version, const char* path, void* info);
int __lxstat(int version, const char* path, void* info);
int __fxstat(int version, int fd, void* info);
long strtol(const char* text, char** end, int base);
unsigned long strtoul(const char* text, char** end, int base);
int sigprocmask(int how, const void* set, void* old);
int* __errno_location(void);
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void* library);
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

/* In an archive beside libc.so.6: the handlers go with the library that they are of. */
extern __attribute__((visibility("hidden"))) void* __dso_handle;
int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  return __register_atfork(prepare, parent, child, __dso_handle);
}

/* The mask of a thread, by what has set that of a process in libc.so.6 since ever: Linux has one for each thread. */
int pthread_sigmask(int how, const void* set, void* old) { return sigprocmask(how, set, old) == 0 ? 0 : *__errno_location(); }

/* 1 would let counters of shared objects be changed without atomic instructions; since 2.32. */
char __libc_single_threaded = 0;

/* ---- unwinding: the table of the code at an address. libgcc's function looks through what programs have registered, 7 KB of code, and asks
 * the loader for the rest: since 2.35 by a function that is newer than 2.28, before under the lock of its list of all objects, where runs that
 * end with an error would wait for each other. Exceptions of a package stay in it, so its own table is enough, which the linker has sorted. */

enum { kEhFrame = 0x6474e550 };              /* type of a program header */
enum { kSigned4 = 0x0b, kFromTable = 0x30 }; /* DW_EH_PE_sdata4, _datarel */
typedef struct {
  uint8_t version, frames_encoding, count_encoding, encoding;
  int32_t frames;
  uint32_t count;
  struct {
    int32_t code, frame; /* from the table's begin */
  } rows[];
} FrameTable;
extern const struct {
  unsigned char magic[32];
  uint64_t e_phoff;
  unsigned char more[16];
  uint16_t e_phnum;
} __ehdr_start __attribute__((weak)); /* the linker's */

/* A description of a frame: its length, where what it has in common with others is, and the code that it is of. */
typedef struct {
  uint32_t length;
  int32_t common;
  int32_t code; /* from here */
  uint32_t size;
} Frame;
typedef struct { /* struct dwarf_eh_bases */
  void *text, *data, *function;
} FrameBases;

static const FrameTable* frame_table(void) {
  const uintptr_t start = (uintptr_t)&__ehdr_start;
  const ProgramHeader* const headers = (const ProgramHeader*)(start + __ehdr_start.e_phoff);
  for (int i = 0; i < __ehdr_start.e_phnum; ++i) {
    const FrameTable* const table = (const FrameTable*)(start + headers[i].p_vaddr);
    if (headers[i].p_type == kEhFrame) return table->version == 1 && table->encoding == (kFromTable | kSigned4) ? table : NULL;
  }
  return NULL;
}

const void* _Unwind_Find_FDE(void* address, FrameBases* bases) {
  const FrameTable* const table = &__ehdr_start != NULL ? frame_table() : NULL;
  const uintptr_t origin = (uintptr_t)table, sought = (uintptr_t)address - origin;
  uint32_t first = 0, last = table != NULL ? table->count : 0; /* rows that may be the last one not behind the address */
  while (first < last) {
    const uint32_t middle = first + (last - first) / 2;
    if (table->rows[middle].code <= (int64_t)sought) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  if (first == 0) return NULL;
  const uintptr_t function = origin + (uintptr_t)(intptr_t)table->rows[first - 1].code;
  const Frame* const frame = (const Frame*)(origin + (uintptr_t)(intptr_t)table->rows[first - 1].frame);
  /* Code begins where the row says if the description is written as this struct is. */
  if ((uintptr_t)&frame->code + (uintptr_t)(intptr_t)frame->code != function || (uintptr_t)address - function >= frame->size) return NULL;
  bases->text = bases->data = NULL;
  bases->function = (void*)function;
  return frame;
}

#pragma GCC visibility pop
