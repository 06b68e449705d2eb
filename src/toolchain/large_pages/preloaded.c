// Loaded before a compiler (LD_PRELOAD): asks for large pages where it maps a mebibyte or more of memory, for kernels that give them only to
// those who ask. g++ takes up to 1.8 GB for a file and goes through it at random, so it waits for the tables of small pages, most of all in a
// virtual machine. Hosts whose kernel knows no such advice ignore it.
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const size_t kLargePage = (size_t)2 << 20, kWorthwhile = (size_t)1 << 20;

static void *map(void *address, size_t size, int protection, int flags, int file, off_t offset) {
  return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);  // NOLINT: the call gives a pointer as a number
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
  if (address != NULL || size < kWorthwhile || !(flags & MAP_ANONYMOUS) || (flags & (MAP_FIXED | MAP_STACK | MAP_HUGETLB)))
    return map(address, size, protection, flags, file, offset);
  // A large page lies at a multiple of its size: one more is mapped, and what is beside the aligned part given back.
  const size_t page = (size_t)getpagesize();
  size = (size + page - 1) / page * page;
  char *mapped = map(NULL, size + kLargePage, protection, flags, file, offset);
  if (mapped == MAP_FAILED) return map(NULL, size, protection, flags, file, offset);
  const size_t before = (kLargePage - (uintptr_t)mapped % kLargePage) % kLargePage;
  char *aligned = mapped + before;
  if (before != 0) munmap(mapped, before);
  munmap(aligned + size, kLargePage - before);
  madvise(aligned, size, MADV_HUGEPAGE);
  return aligned;
}

void *mmap64(void *address, size_t size, int protection, int flags, int file, off_t offset) {
  return mmap(address, size, protection, flags, file, offset);
}
