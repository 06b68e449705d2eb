// pthread_once as packages have it: in libc.so.6 it is newer than glibc 2.28 (glibc.c). In C++, since an exception of the routine's leaves
// it undone; in C that would take another unwinding routine.
#include <sched.h>

namespace {
enum { kUndone, kBegun, kDone };
}

extern "C" __attribute__((visibility("hidden"))) int pthread_once(int* once, void (*routine)()) {
  for (;;) {
    int found = kUndone;
    if (__atomic_load_n(once, __ATOMIC_ACQUIRE) == kDone) return 0;
    if (__atomic_compare_exchange_n(once, &found, kBegun, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) break;
    if (found == kDone) return 0;
    sched_yield();
  }
  try {
    routine();
  } catch (...) {
    __atomic_store_n(once, kUndone, __ATOMIC_RELEASE);
    throw;
  }
  __atomic_store_n(once, kDone, __ATOMIC_RELEASE);
  return 0;
}
