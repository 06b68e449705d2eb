/* What stands between the run side and the C library in archives, which a program links with its own C library: glibc.c's names for threads
 * mean the library's functions. */
#include <pthread.h>

#pragma GCC visibility push(hidden)

int toroid_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  return pthread_create(thread, attributes, start, argument);
}
int toroid_pthread_join(pthread_t thread, void** result) { return pthread_join(thread, result); }
int toroid_pthread_key_create(pthread_key_t* key, void (*destroy)(void*)) { return pthread_key_create(key, destroy); }
int toroid_pthread_key_delete(pthread_key_t key) { return pthread_key_delete(key); }
void* toroid_pthread_getspecific(pthread_key_t key) { return pthread_getspecific(key); }
int toroid_pthread_setspecific(pthread_key_t key, const void* value) { return pthread_setspecific(key, value); }

#pragma GCC visibility pop
