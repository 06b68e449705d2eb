/* Contexts of one model in 1 to 64 threads: whether results stay right, how calls a second grow with threads up to the cores, and whether
 * memory stays flat. POSIX.
 *
 *   cc -O2 -Iinclude bench/contexts.c -Lbuild -ltoroid -lpthread -Wl,-rpath,$PWD/build -o contexts && ./contexts model.so [SECONDS]
 *
 * The model's inputs are f32 (numbers from -1 to 1) or integers (zeros), of the least sizes that its symbols allow. SECONDS: for each
 * number of threads, 1 by default. Exits with 1 where a result differs from that of the first call, or memory grows by more than 8 MB after
 * the first round. */
#define _POSIX_C_SOURCE 200112L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "toroid/toroid.h"

enum { kMostThreads = 64, kMostTensors = 64 };

static const ToroidApi* toroid;
static ToroidModel* model;
static ToroidModelInfo info;
static DLTensor tensors[kMostTensors];
static const DLTensor* inputs[kMostTensors];
static DLManagedTensor* expected[kMostTensors];
static int stop, wrong;

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static long resident_kib(void) {
  long pages = 0, resident = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file != NULL && fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  if (file != NULL) fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static size_t bytes_of(const DLTensor* tensor) {
  size_t bytes = tensor->dtype.bits / 8;
  int d;
  for (d = 0; d < tensor->ndim; ++d) bytes *= (size_t)tensor->shape[d];
  return bytes;
}

static void fail(const char* message) {
  fprintf(stderr, "%s\n", message);
  exit(2);
}

/* Sizes from the type's text, "f32[s0, 128]"; a symbol's is its least one. */
static void make_input(int32_t i) {
  ToroidTensorInfo input;
  const char* next;
  float* data;
  size_t k;
  int d;
  memset(&input, 0, sizeof input);
  input.size = sizeof input;
  toroid->model_input(model, i, &input);
  tensors[i].device.device_type = kDLCPU;
  tensors[i].dtype = input.dtype;
  tensors[i].ndim = input.rank;
  tensors[i].shape = (int64_t*)calloc((size_t)input.rank + 1, sizeof(int64_t));
  next = strchr(input.type, '[');
  for (d = 0; d < input.rank; ++d) {
    char name[64] = "";
    int32_t s;
    if (sscanf(next + 1, "%*[ ]%63[^],]", name) != 1 && sscanf(next + 1, "%63[^],]", name) != 1) fail("a type that cannot be read");
    tensors[i].shape[d] = strtoll(name, NULL, 10);
    for (s = 0; s < info.num_symbols; ++s) {
      ToroidSymbolInfo symbol;
      memset(&symbol, 0, sizeof symbol);
      symbol.size = sizeof symbol;
      toroid->model_symbol(model, s, &symbol);
      if (strcmp(name, symbol.name) == 0) tensors[i].shape[d] = symbol.least;
    }
    next = strpbrk(next + 1, ",]");
  }
  data = (float*)calloc(bytes_of(&tensors[i]) + 1, 1);
  if (input.dtype.code == kDLFloat && input.dtype.bits == 32) {
    for (k = 0; k < bytes_of(&tensors[i]) / sizeof(float); ++k) data[k] = (float)((k * 37 + 11) % 201) / 100 - 1;
  }
  tensors[i].data = data;
  inputs[i] = &tensors[i];
}

static void* work(void* argument) {
  long* const calls = (long*)argument;
  DLManagedTensor* outputs[kMostTensors];
  ToroidContextOptions options;
  ToroidContext* context;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = 1;
  if (toroid->context_create(model, &options, &context, NULL, 0) != TOROID_OK) fail("no context");
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    int32_t i;
    if (toroid->context_run(context, inputs, info.num_inputs, outputs, info.num_outputs, NULL) != TOROID_OK)
      fail(toroid->context_message(context));
    for (i = 0; i < info.num_outputs; ++i) {
      if (memcmp(outputs[i]->dl_tensor.data, expected[i]->dl_tensor.data, bytes_of(&expected[i]->dl_tensor)) != 0)
        __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
      outputs[i]->deleter(outputs[i]);
    }
    ++*calls;
  }
  toroid->context_destroy(context);
  return NULL;
}

static double calls_per_s(int threads, double seconds) {
  static long calls[kMostThreads][8]; /* a cache line each */
  pthread_t workers[kMostThreads];
  double begin, sum = 0;
  int i;
  memset(calls, 0, sizeof calls);
  stop = 0;
  begin = now_s();
  for (i = 0; i < threads; ++i) {
    if (pthread_create(&workers[i], NULL, work, calls[i]) != 0) fail("no thread");
  }
  {
    struct timespec pause;
    pause.tv_sec = (time_t)seconds;
    pause.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9);
    nanosleep(&pause, NULL);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (i = 0; i < threads; ++i) pthread_join(workers[i], NULL);
  for (i = 0; i < threads; ++i) sum += (double)calls[i][0];
  return sum / (now_s() - begin);
}

int main(int argc, char** argv) {
  const double seconds = argc > 2 ? atof(argv[2]) : 1;
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  ToroidModelOptions options;
  ToroidContext* context;
  char message[1024];
  double alone = 0;
  long first_kib = 0, last_kib;
  int threads;
  int32_t i;
  toroid = toroid_api(TOROID_API_VERSION);
  if (argc < 2 || toroid == NULL) return 2;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = 1;
  if (toroid->model_open(argv[1], &options, &model, message, sizeof message) != TOROID_OK ||
      toroid->context_create(model, NULL, &context, message, sizeof message) != TOROID_OK)
    fail(message);
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  toroid->model_info(model, &info);
  if (info.num_inputs > kMostTensors || info.num_outputs > kMostTensors) fail("too many tensors");
  for (i = 0; i < info.num_inputs; ++i) make_input(i);
  if (toroid->context_run(context, inputs, info.num_inputs, expected, info.num_outputs, NULL) != TOROID_OK)
    fail(toroid->context_message(context));
  for (threads = 1; threads <= kMostThreads; threads *= 2) {
    const double rate = calls_per_s(threads, seconds);
    if (threads == 1) alone = rate;
    last_kib = resident_kib();
    if (first_kib == 0) first_kib = last_kib;
    printf("%2d threads: %12.1f calls a second, %5.2f of the cores' share, %ld MB\n", threads, rate,
           rate / (alone * (double)(threads < cores ? threads : cores)), last_kib / 1024);
  }
  calls_per_s(1, seconds); /* memory of threads that have ended is given back or used again */
  last_kib = resident_kib();
  printf("results are %s; memory: %ld MB after the first round, %ld MB at the end\n", wrong ? "WRONG" : "right", first_kib / 1024,
         last_kib / 1024);
  for (i = 0; i < info.num_outputs; ++i) expected[i]->deleter(expected[i]);
  toroid->context_destroy(context);
  toroid->model_close(model);
  return wrong || last_kib - first_kib > 8 * 1024;
}
