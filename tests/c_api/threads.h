/* N threads that run f(argument, i). */
#ifndef TOROID_TESTS_C_API_THREADS_H
#define TOROID_TESTS_C_API_THREADS_H

#include <pthread.h>

#define MOST_THREADS 64

typedef struct Started {
  void (*run)(void* argument, int i);
  void* argument;
  int i;
} Started;

static void* run_started(void* data) {
  const Started* const started = (const Started*)data;
  started->run(started->argument, started->i);
  return NULL;
}

static void run_threads(int n, void (*run)(void* argument, int i), void* argument) {
  pthread_t threads[MOST_THREADS];
  Started started[MOST_THREADS];
  int i;
  for (i = 0; i < n; ++i) {
    started[i].run = run;
    started[i].argument = argument;
    started[i].i = i;
    if (pthread_create(&threads[i], NULL, run_started, &started[i]) != 0) abort();
  }
  for (i = 0; i < n; ++i) pthread_join(threads[i], NULL);
}

#endif
