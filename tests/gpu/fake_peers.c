/* What processes do with each other's memory on the fake driver: memory that several map, and words of it that streams write and wait for,
 * as work that is done in its turn. A word that does not come within a minute ends the process. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fake_gpu.h"

typedef int Result;
typedef unsigned long long Address;
typedef struct Handle {
  int process, file;
  size_t bytes;
  char rest[48];
} Handle;

enum { kMost = 64 };
static struct Shared {
  char* data;
  Handle handle;
} all[kMost];

static Result map(Address* address, Handle handle) {
  char* data = mmap(NULL, handle.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handle.file, 0);
  if (data == MAP_FAILED) return 2;
  for (int i = 0; i < kMost; ++i) {
    if (all[i].data != NULL) continue;
    all[i] = (struct Shared){data, handle};
    fake_add_block(data, handle.bytes);
    *address = (Address)(uintptr_t)data;
    return 0;
  }
  return 2;
}
static struct Shared* shared_at(Address address) {
  for (int i = 0; i < kMost; ++i) {
    if (all[i].data != NULL && (Address)(uintptr_t)all[i].data == address) return &all[i];
  }
  return NULL;
}
static Result unmap(Address address) {
  struct Shared* it = shared_at(address);
  if (it == NULL) return 1;
  fake_remove_block(it->data);
  munmap(it->data, it->handle.bytes);
  close(it->handle.file);
  return it->data = NULL, 0;
}

Result cuMemAlloc_v2(Address* address, size_t bytes) {
  const int file = memfd_create("fake", 0);
  if (file < 0 || ftruncate(file, (off_t)bytes) != 0) return 2;
  return map(address, (Handle){.process = getpid(), .file = file, .bytes = bytes});
}
Result cuMemFree_v2(Address address) { return unmap(address); }
Result cuIpcGetMemHandle(Handle* handle, Address address) {
  const struct Shared* it = shared_at(address);
  return it == NULL ? 1 : (*handle = it->handle, 0);
}
Result cuIpcOpenMemHandle_v2(Address* address, Handle handle, unsigned flags) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.process, handle.file);
  handle.file = open(path, O_RDWR);
  return (void)flags, handle.file < 0 ? 1 : map(address, handle);
}
Result cuIpcCloseMemHandle(Address address) { return fake_require_ends_of_peer_copies(), unmap(address); }
int fake_is_of_peer(const char* at) {
  for (int i = 0; i < kMost; ++i) {
    if (all[i].data != NULL && all[i].handle.process != getpid() && at >= all[i].data && at < all[i].data + all[i].handle.bytes) return 1;
  }
  return 0;
}

static void fake_wait(const void* word, uint32_t value, int until_equal) {
  const volatile uint32_t* at = word;
  for (const time_t begin = time(NULL); (*at == value) != until_equal; sched_yield()) {
    if (time(NULL) - begin > 60) fprintf(stderr, "the other process does not write %u\n", value), abort();
  }
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

int fake_is_meeting(const char* image) {
  return getenv("FAKE_GPU_MEETS") != NULL && strncmp(image, "\n.version", 9) == 0 && strstr(image, ".entry toroid_meet(") != NULL;
}
typedef struct Meeting {
  Address theirs, own;
} Meeting;
static void meet(void* argument) {
  const Meeting* at = argument;
  __atomic_store_n((uint32_t*)(uintptr_t)at->theirs, 1, __ATOMIC_RELEASE);
  fake_wait((const void*)(uintptr_t)at->own, 0, 0);
  *(uint32_t*)(uintptr_t)at->own = 0;
}
int fake_meet(void* stream, void** arguments) {
  Meeting* at = malloc(sizeof *at); /* of a graph, too: lives as long as the process */
  *at = (Meeting){*(Address*)arguments[0], *(Address*)arguments[1]};
  fake_note(stream, 'm', 'm');
  return fake_start(stream, meet, at, 0);
}

typedef struct Step {
  uint32_t operation, padding;
  Address word;
  uint64_t value;
  uint32_t flags, more_padding;
  uint64_t unused[2];
} Step;
static void work(void* argument) {
  const Step* step = argument;
  volatile uint32_t* word = (uint32_t*)(uintptr_t)step->word;
  if (step->operation == 1) return fake_wait((const void*)word, (uint32_t)step->value, 1);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  *word = (uint32_t)step->value;
}
Result cuStreamBatchMemOp_v2(void* stream, unsigned count, const Step* steps, unsigned flags) {
  (void)flags;
  for (unsigned i = 0; i < count; ++i) {
    Step* step = malloc(sizeof *step); /* of a graph, too: lives as long as the process */
    *step = steps[i];
    const Result result = step->operation == 1 || step->operation == 2 ? fake_start(stream, work, step, 0) : 1;
    if (result != 0) return result;
  }
  return 0;
}
