/* A package by its own run side beside libtoroid.so's, which is that of `toroid run`, in turns; and how long it takes from nothing to the
 * first result. A turn is of runs of 2 ms, of which the first fifth is not counted: each side has its own copy of the weights, which a
 * small model finds in a cache of the core only where nobody else uses that. POSIX.
 *
 *   cc -O2 -D_GNU_SOURCE -Iinclude -Itests/package bench/package_speed.c -Lbuild -ltoroid -ldl -Wl,-rpath,$PWD/build -o package_speed
 *   ./package_speed m.so [SECONDS [THREADS]]
 *
 * SECONDS: for the runs, 5 by default; THREADS of a call: 1, whose time is the processor's. Prints medians; on a busy
 * machine the quickest tenth tells more. Inputs are those of some_inputs.h. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "some_inputs.h"
#include "toroid/toroid.h"

enum { kMostTensors = 64, kMostRuns = 1 << 20, kStarts = 21, kTurnUs = 2000 };

typedef struct Side {
  const ToroidApi* toroid;
  ToroidContext* context;
  double* times;
} Side;

static DLTensor tensors[kMostTensors];
static const DLTensor* inputs[kMostTensors];
static ToroidModelInfo info;
static int32_t threads = 1;

static double clock_us(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}
static double now_us(void) { return clock_us(CLOCK_MONOTONIC); }

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median(double* times, size_t count) {
  qsort(times, count, sizeof times[0], compare);
  return times[count / 2];
}

static const ToroidApi* api_of(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const ToroidApi* (*get)(uint32_t);
  if (library == NULL || (*(void**)& get = dlsym(library, "toroid_api"), get == NULL)) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  return get(TOROID_API_VERSION);
}

static ToroidModel* open_side(Side* side, const char* path) {
  ToroidModelOptions options;
  ToroidModel* model;
  char message[1024];
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = threads;
  if (side->toroid->model_open(path, &options, &model, message, sizeof message) != TOROID_OK ||
      side->toroid->context_create(model, NULL, &side->context, message, sizeof message) != TOROID_OK) {
    fprintf(stderr, "%s\n", message);
    exit(2);
  }
  return model;
}

static double run_us(const Side* side) {
  DLManagedTensor* outputs[kMostTensors];
  const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const double begin = clock_us(clock);
  double end;
  int32_t i;
  if (side->toroid->context_run(side->context, inputs, info.num_inputs, outputs, info.num_outputs, NULL) != TOROID_OK) {
    fprintf(stderr, "%s\n", side->toroid->context_message(side->context));
    exit(2);
  }
  end = clock_us(clock);
  for (i = 0; i < info.num_outputs; ++i) outputs[i]->deleter(outputs[i]);
  return end - begin;
}

/* Its times go to side->times from `first` on. */
static void take_turn(Side* side, size_t first, size_t runs) {
  size_t i;
  for (i = 0; i < runs / 4; ++i) run_us(side);
  for (i = 0; i < runs; ++i) side->times[first + i] = run_us(side);
}

/* In a process that has the inputs, and nothing of the package. */
static double first_result_us(const char* path) {
  int ends[2];
  double time = 0;
  if (pipe(ends) != 0) exit(2);
  if (fork() == 0) {
    const double begin = now_us();
    Side side;
    side.toroid = api_of(path);
    open_side(&side, NULL);
    run_us(&side);
    time = now_us() - begin;
    _exit(write(ends[1], &time, sizeof time) != sizeof time);
  }
  close(ends[1]);
  if (read(ends[0], &time, sizeof time) != sizeof time) exit(2);
  close(ends[0]);
  wait(NULL);
  return time;
}

int main(int argc, char** argv) {
  const double seconds = argc > 2 ? atof(argv[2]) : 5;
  Side library, own;
  ToroidModel* model;
  double starts[kStarts], end, one = 0;
  size_t count = 0, turn = 0, runs = 1;
  int32_t i;
  if (argc > 3) threads = atoi(argv[3]);
  if (argc < 2 || (library.toroid = toroid_api(TOROID_API_VERSION)) == NULL) return 2;
  /* Inputs from the model as libtoroid.so has it, in a process of their own memory: the package is not loaded when children start. */
  model = open_side(&library, argv[1]);
  info.size = sizeof info;
  library.toroid->model_info(model, &info);
  if (info.num_inputs > kMostTensors || info.num_outputs > kMostTensors) return 2;
  for (i = 0; i < info.num_inputs; ++i) {
    make_input(library.toroid, model, i, &tensors[i]);
    inputs[i] = &tensors[i];
  }
  library.toroid->context_destroy(library.context);
  library.toroid->model_close(model);
  for (i = 0; i < kStarts; ++i) starts[i] = first_result_us(argv[1]);

  own.toroid = api_of(argv[1]);
  open_side(&own, NULL);
  library.toroid->model_info(open_side(&library, argv[1]), &info);
  library.times = (double*)malloc(kMostRuns * sizeof(double));
  own.times = (double*)malloc(kMostRuns * sizeof(double));
  for (end = now_us() + 3e5; now_us() < end;) run_us(&library), one = run_us(&own);
  if (one > 0 && one < kTurnUs) runs = (size_t)(kTurnUs / one);
  for (end = now_us() + seconds * 1e6; now_us() < end && count + runs <= kMostRuns; count += runs, ++turn) {
    take_turn(turn % 2 == 0 ? &library : &own, count, runs);
    take_turn(turn % 2 == 0 ? &own : &library, count, runs);
  }
  {
    const double of_library = median(library.times, count), of_own = median(own.times, count); /* which sorts them */
    const double fast = own.times[count / 10] / library.times[count / 10];
    printf(
        "%s: %.2f us by its own run side, %.2f us by libtoroid.so: %.4f times (%.4f in the quickest tenth); first result after %.2f ms "
        "(%lu runs, %d threads, for %s)\n",
        argv[1], of_own, of_library, of_own / of_library, fast, median(starts, kStarts) / 1e3, (unsigned long)count, (int)threads,
        info.isa);
  }
  return 0;
}
