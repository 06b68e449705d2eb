/* Packages under load: each in a context of its own in each of many threads, all in one process.
 *
 *   usage: hammer_contexts [OPTION N]... PACKAGE.so...
 *     --threads 1,2,…   how many threads to try; thread i runs package i modulo their number. Default: 1,2,4,8,16,32,64
 *     --seconds S       for each of these numbers, 1 by default; for warming up and for cancelling, 10 at most
 *     --swaps N         weights of the first package are replaced so often under load; 0 by default
 *     --opens N         each package is opened, run and closed so often; 20 by default
 *     --older PACKAGE   one more, of an older version, which may lock mutexes
 *
 * Exits with 1 unless
 *   - child processes that are forked before a model is opened compute what the parent does;
 *   - every result has the bits of the first call's, also that of a call after one that was cancelled or came too late;
 *   - no run locks a mutex: those that the packages lock are counted here, and those of them that another thread held;
 *   - of N swaps each result is wholly of the old or wholly of the new weights, and of the new ones where the swap was over before it began;
 *   - memory grows by no more than 8 MB, and an eighth for the allocator, once the most threads have run, and between a tenth of the seconds
 *     and their end; with swaps by no more than what contexts keep of the old weights.
 *
 * `a core`: calls of one of the cores that are used, beside those of the first number of threads. `cores`: the same of a loop of additions and
 * multiplications that reads no memory: what as many cores at once do of what one does, by their clock and by what they share. `share`: the one
 * by the other.
 *
 * Inputs are those of some_inputs.h. Linux. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../c_api/resident.h"
#include "some_inputs.h"
#include "toroid/toroid.h"

enum { kMostThreads = 256, kMostTensors = 64, kMostPackages = 16, kForks = 4, kWarmUps = 3 };

/* ---- mutexes: packages find these functions before the C library's --------------------------------------------------------------------- */

static __thread long num_locked, num_waited;

__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static int (*lock)(pthread_mutex_t*);
  ++num_locked;
  if (pthread_mutex_trylock(mutex) == 0) return 0;
  ++num_waited;
  if (lock == NULL) *(void**)&lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
  return lock(mutex);
}

/* ---- packages -------------------------------------------------------------------------------------------------------------------------- */

typedef struct Program {
  const char* path;
  const ToroidApi* toroid;
  ToroidModel* model;
  ToroidModelInfo info;
  DLTensor tensors[kMostTensors];
  const DLTensor* inputs[kMostTensors];
  int is_older;
  int keeps_state;                            /* it has mutable buffers, which a call begins with as they are in the model */
  DLManagedTensor* expected[2][kMostTensors]; /* with the weights of the file, and with others */
} Program;

static Program programs[kMostPackages];
static int num_programs, has_failed;

static void fail(const char* path, const char* message) {
  fprintf(stderr, "hammer_contexts: %s: %s\n", path, message);
  exit(2);
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void pause_s(double seconds) {
  struct timespec pause;
  pause.tv_sec = (time_t)seconds;
  pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
  nanosleep(&pause, NULL);
}

/* Without what the allocator keeps of memory that is free, which depends on how threads meet. */
static long used_kib(void) {
  malloc_trim(0);
  return resident_kib();
}
static int has_grown(long first_kib, long last_kib) { return last_kib - first_kib > 8 * 1024 + first_kib / 8; }

static void load(Program* program) {
  void* const library = dlopen(program->path, RTLD_NOW | RTLD_LOCAL);
  const ToroidApi* (*get)(uint32_t);
  if (library == NULL) fail(program->path, dlerror());
  *(void**)&get = dlsym(library, "toroid_api");
  if (get == NULL || (program->toroid = get(TOROID_API_VERSION)) == NULL) fail(program->path, "no package");
}

static ToroidModel* open_model(const Program* program) {
  ToroidModelOptions options = {sizeof options};
  ToroidModel* model;
  char message[1024];
  options.threads = 1;
  if (program->toroid->model_open(NULL, &options, &model, message, sizeof message) != TOROID_OK) fail(program->path, message);
  return model;
}

static ToroidContext* create_context(const Program* program) {
  ToroidContextOptions options = {sizeof options};
  ToroidContext* context;
  char message[1024];
  options.threads = 1;
  if (program->toroid->context_create(program->model, &options, &context, message, sizeof message) != TOROID_OK)
    fail(program->path, message);
  return context;
}

static ToroidStatus run(const Program* program, ToroidContext* context, DLManagedTensor** outputs, const ToroidRunOptions* options) {
  ToroidStatus status;
  program->toroid->context_seed(context, 0);
  if (program->keeps_state) program->toroid->context_reset_buffer(context, NULL);
  status = program->toroid->context_run(context, program->inputs, program->info.num_inputs, outputs, program->info.num_outputs, options);
  if (status != TOROID_OK && status != TOROID_ERROR_CANCELLED && status != TOROID_ERROR_DEADLINE)
    fail(program->path, program->toroid->context_message(context));
  return status;
}

static void drop(const Program* program, DLManagedTensor** outputs) {
  int32_t i;
  for (i = 0; i < program->info.num_outputs; ++i) outputs[i]->deleter(outputs[i]);
}

static int is_same(const Program* program, DLManagedTensor* const* outputs, DLManagedTensor* const* expected) {
  int32_t i;
  for (i = 0; i < program->info.num_outputs; ++i) {
    const size_t bytes = bytes_of(&expected[i]->dl_tensor);
    if (bytes_of(&outputs[i]->dl_tensor) != bytes || memcmp(outputs[i]->dl_tensor.data, expected[i]->dl_tensor.data, bytes) != 0) return 0;
  }
  return 1;
}

static void open_program(Program* program) {
  int32_t i;
  program->model = open_model(program);
  program->info.size = sizeof program->info;
  program->toroid->model_info(program->model, &program->info);
  if (program->info.num_inputs > kMostTensors || program->info.num_outputs > kMostTensors) fail(program->path, "too many tensors");
  for (i = 0; i < program->info.num_inputs; ++i) {
    make_input(program->toroid, program->model, i, &program->tensors[i]);
    program->inputs[i] = &program->tensors[i];
  }
  for (i = 0; i < program->info.num_weights; ++i) {
    ToroidWeightInfo weight = {sizeof weight};
    program->toroid->model_weight(program->model, i, &weight);
    program->keeps_state |= weight.is_mutable;
  }
}

static void compute(Program* program, int which) {
  ToroidContext* const context = create_context(program);
  run(program, context, program->expected[which], NULL);
  program->toroid->context_destroy(context);
}

/* ---- fork before use ------------------------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const Program* program) {
  uint64_t hash = 14695981039346656037u;
  int32_t i;
  size_t k;
  for (i = 0; i < program->info.num_outputs; ++i) {
    const DLTensor* const tensor = &program->expected[0][i]->dl_tensor;
    for (k = 0; k < bytes_of(tensor); ++k) hash = (hash ^ ((const uint8_t*)tensor->data)[k]) * 1099511628211u;
  }
  return hash;
}

static uint64_t* start_children(void) {
  const size_t bytes = sizeof(uint64_t) * kForks * kMostPackages;
  uint64_t* const hashes = (uint64_t*)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int child, p;
  fflush(stdout);
  for (child = 0; child < kForks; ++child) {
    if (fork() != 0) continue;
    for (p = 0; p < num_programs; ++p) {
      open_program(&programs[p]);
      compute(&programs[p], 0);
      hashes[child * kMostPackages + p] = hash_of(&programs[p]);
    }
    _exit(0);
  }
  return hashes;
}

static void check_children(const uint64_t* hashes) {
  int child, p, status, wrong = 0;
  for (child = 0; child < kForks; ++child) {
    if (wait(&status) < 0 || status != 0) ++wrong;
  }
  for (child = 0; child < kForks; ++child) {
    for (p = 0; p < num_programs; ++p) wrong += hashes[child * kMostPackages + p] != hash_of(&programs[p]);
  }
  printf("%d children forked before a model was opened: %s\n", kForks, wrong ? "WRONG" : "right");
  has_failed |= wrong != 0;
}

/* ---- load ------------------------------------------------------------------------------------------------------------------------------ */

enum Load { kPlain, kCancelled, kSwapped };

static int stop;
static pthread_barrier_t barrier;
static int64_t swaps_begun, swaps_done; /* an even number of swaps leaves the file's weights */

typedef struct Worker {
  pthread_t thread;
  const Program* program;
  enum Load load;
  unsigned random;
  int32_t cancel;
  long calls, wrong, locked, waited, sleeps, cancelled, late, of_new;
  char padding[64];
} Worker;

static long sleeps_of_thread(void) {
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

static void* work(void* argument) {
  Worker* const worker = (Worker*)argument;
  const Program* const program = worker->program;
  ToroidContext* const context = create_context(program);
  DLManagedTensor* outputs[kMostTensors];
  ToroidRunOptions options = {sizeof options};
  long locked = 0, waited = 0, sleeps = 0;
  double call_s = 0;
  int i;
  for (i = 0; i < kWarmUps; ++i) {
    const double begin = now_s();
    if (run(program, context, outputs, NULL) == TOROID_OK) drop(program, outputs);
    call_s = now_s() - begin;
  }
  pthread_barrier_wait(&barrier);
  locked = num_locked, waited = num_waited, sleeps = sleeps_of_thread();
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    const int64_t first = __atomic_load_n(&swaps_done, __ATOMIC_ACQUIRE);
    ToroidStatus status;
    if (worker->load == kCancelled) {
      worker->random = worker->random * 1664525u + 1013904223u;
      options.cancel = worker->random >> 30 == 0 ? &worker->cancel : NULL;
      options.deadline_ns =
          worker->random >> 30 == 1 ? (int64_t)((now_s() + call_s * (double)(worker->random >> 20 & 1023) / 1024) * 1e9) : 0;
    }
    status = run(program, context, outputs, worker->load == kCancelled ? &options : NULL);
    ++worker->calls;
    worker->cancelled += status == TOROID_ERROR_CANCELLED;
    worker->late += status == TOROID_ERROR_DEADLINE;
    if (status != TOROID_OK) {
      __atomic_store_n(&worker->cancel, 0, __ATOMIC_RELAXED);
      continue;
    }
    if (worker->load != kSwapped) {
      worker->wrong += !is_same(program, outputs, program->expected[0]);
    } else {
      const int64_t last = __atomic_load_n(&swaps_begun, __ATOMIC_ACQUIRE);
      const int is_old = is_same(program, outputs, program->expected[0]), is_new = is_same(program, outputs, program->expected[1]);
      const int may_be_old = last > first || first % 2 == 0, may_be_new = last > first || first % 2 == 1;
      worker->wrong += !((is_old && may_be_old) || (is_new && may_be_new));
      worker->of_new += is_new;
    }
    drop(program, outputs);
  }
  worker->locked = program->is_older ? 0 : num_locked - locked;
  worker->waited = num_waited - waited, worker->sleeps = sleeps_of_thread() - sleeps;
  pthread_barrier_wait(&barrier);
  program->toroid->context_destroy(context);
  return NULL;
}

/* Lets so many threads work while `meanwhile` runs; memory is seen while they all live. */
static Worker load_of(int threads, enum Load load, void (*meanwhile)(Worker*, int), double* elapsed_s, long* kib) {
  static Worker workers[kMostThreads];
  Worker sum;
  double begin;
  int i;
  memset(workers, 0, sizeof workers);
  memset(&sum, 0, sizeof sum);
  stop = 0;
  pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
  for (i = 0; i < threads; ++i) {
    workers[i].program = load == kSwapped ? &programs[0] : &programs[i % num_programs];
    workers[i].load = load;
    workers[i].random = (unsigned)i * 2654435761u + 1;
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) fail("pthread_create", "no thread");
  }
  pthread_barrier_wait(&barrier);
  begin = now_s();
  meanwhile(workers, threads);
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  *elapsed_s = now_s() - begin;
  *kib = used_kib();
  pthread_barrier_wait(&barrier);
  for (i = 0; i < threads; ++i) {
    pthread_join(workers[i].thread, NULL);
    sum.calls += workers[i].calls, sum.wrong += workers[i].wrong, sum.locked += workers[i].locked, sum.waited += workers[i].waited;
    sum.sleeps += workers[i].sleeps, sum.cancelled += workers[i].cancelled, sum.late += workers[i].late, sum.of_new += workers[i].of_new;
  }
  pthread_barrier_destroy(&barrier);
  has_failed |= sum.wrong != 0;
  return sum;
}

static double seconds = 1;
static long tenth_kib;

static double few_seconds(void) { return seconds < 10 ? seconds : 10; }

static void warm_up(Worker* workers, int threads) {
  (void)workers, (void)threads;
  pause_s(few_seconds());
}

static void watch_memory(Worker* workers, int threads) {
  (void)workers, (void)threads;
  pause_s(seconds / 10);
  tenth_kib = used_kib();
  pause_s(seconds * 9 / 10);
}

static void cancel_again(Worker* workers, int threads) {
  const double end = now_s() + few_seconds();
  unsigned random = 1;
  while (now_s() < end) {
    random = random * 1664525u + 1013904223u;
    __atomic_store_n(&workers[(random >> 16) % (unsigned)threads].cancel, 1, __ATOMIC_RELAXED);
    pause_s(20e-6);
  }
}

/* ---- swaps ----------------------------------------------------------------------------------------------------------------------------- */

static long num_swaps, swaps_first_kib;
static int32_t num_swapped;
static const char* swapped_names[4096];
static DLTensor swapped_values[2][4096];

static void swap_to(int which) {
  static const DLTensor* values[4096];
  const Program* const program = &programs[0];
  char message[1024];
  int32_t i;
  for (i = 0; i < num_swapped; ++i) values[i] = &swapped_values[which][i];
  if (program->toroid->model_swap_weights(program->model, swapped_names, values, num_swapped, message, sizeof message) != TOROID_OK)
    fail(program->path, message);
}

/* The floats among the weights, as they are and halved, which is exact. */
static void make_swapped(void) {
  const Program* const program = &programs[0];
  int32_t i;
  size_t k;
  for (i = 0; i < program->info.num_weights && num_swapped < 4096; ++i) {
    ToroidWeightInfo weight = {sizeof weight};
    int which;
    program->toroid->model_weight(program->model, i, &weight);
    if (weight.name[0] == '\0' || weight.is_mutable || weight.dtype.code != kDLFloat || weight.dtype.bits != 32) continue;
    swapped_names[num_swapped] = weight.name;
    for (which = 0; which < 2; ++which) {
      DLTensor* const value = &swapped_values[which][num_swapped];
      float* const data = (float*)malloc((size_t)weight.bytes + 1);
      program->toroid->model_read_weight(program->model, weight.name, data, (size_t)weight.bytes, NULL, 0);
      for (k = 0; which == 1 && k < (size_t)weight.bytes / sizeof(float); ++k) data[k] /= 2;
      value->data = data;
      value->device.device_type = kDLCPU;
      value->dtype = weight.dtype;
      value->ndim = weight.rank;
      value->shape = (int64_t*)weight.sizes;
    }
    ++num_swapped;
  }
}

static void swap_again(Worker* workers, int threads) {
  long i;
  (void)workers, (void)threads;
  for (i = 0; i < num_swaps; ++i) {
    __atomic_store_n(&swaps_begun, swaps_begun + 1, __ATOMIC_RELEASE);
    swap_to((int)(swaps_begun % 2));
    __atomic_store_n(&swaps_done, swaps_begun, __ATOMIC_RELEASE);
    if (i == num_swaps / 10) swaps_first_kib = used_kib();
  }
}

static void check_swaps(int threads) {
  Worker sum;
  double elapsed;
  long kib;
  make_swapped();
  swap_to(1);
  compute(&programs[0], 1);
  swap_to(0);
  if (is_same(&programs[0], programs[0].expected[1], programs[0].expected[0])) fail(programs[0].path, "other weights change nothing");
  sum = load_of(threads, kSwapped, swap_again, &elapsed, &kib);
  printf(
      "%ld swaps of %d weights under %d threads: %ld calls in %.1f s, %ld with the new weights; results are %s; %ld MB, and %ld MB after a "
      "tenth\n",
      num_swaps, num_swapped, threads, sum.calls, elapsed, sum.of_new, sum.wrong ? "WRONG" : "wholly old or wholly new", kib / 1024,
      swaps_first_kib / 1024);
  /* Each context may keep weights of its own, and what is packed of them, until its next call. */
  has_failed |= has_grown(swaps_first_kib + (threads + 2) * 2 * (long)(programs[0].info.weight_bytes / 1024), kib);
}

/* ---- the checks in turn ---------------------------------------------------------------------------------------------------------------- */

static void check_opens(long count) {
  long i, first_kib = 0, kib = 0;
  int p, wrong = 0;
  for (i = 0; i < count; ++i) {
    for (p = 0; p < num_programs; ++p) {
      Program other = programs[p];
      other.model = open_model(&other);
      compute(&other, 1);
      wrong += !is_same(&other, other.expected[1], other.expected[0]);
      drop(&other, other.expected[1]);
      other.toroid->model_close(other.model);
    }
    kib = used_kib();
    if (i == count / 10) first_kib = kib;
  }
  printf("opened, run and closed %ld times: results are %s; %ld MB, and %ld MB after a tenth\n", count, wrong ? "WRONG" : "right",
         kib / 1024, first_kib / 1024);
  has_failed |= wrong != 0 || has_grown(first_kib, kib);
}

/* Turns of a loop in registers, in a tenth of a second; the argument takes them. */
static void* turn(void* argument) {
  const double end = now_s() + 0.1;
  double sums[8] = {1, 2, 3, 4, 5, 6, 7, 8}, turns = 0;
  volatile double kept;
  int i, k;
  while (now_s() < end) {
    for (i = 0; i < 10000; ++i) {
      for (k = 0; k < 8; ++k) sums[k] = sums[k] * 0.999 + 1e-3;
    }
    ++turns;
  }
  kept = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
  (void)kept;
  *(double*)argument = turns;
  return NULL;
}
static double turns_of(int threads) {
  static pthread_t started[kMostThreads];
  static double turns[kMostThreads];
  double sum = 0;
  int i;
  for (i = 0; i < threads; ++i) {
    if (pthread_create(&started[i], NULL, turn, &turns[i]) != 0) fail("pthread_create", "no thread");
  }
  for (i = 0; i < threads; ++i) pthread_join(started[i], NULL), sum += turns[i];
  return sum;
}

int main(int argc, char** argv) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const char* counts = "1,2,4,8,16,32,64";
  const char* next;
  long opens = 20, first_kib, last_kib, most = 1, threads, alone_threads = 0;
  double elapsed, alone = 0, turns_alone = 0;
  uint64_t* hashes;
  Worker sum;
  int i;
  for (i = 1; i < argc; ++i) {
    const int is_older = i + 1 < argc && strcmp(argv[i], "--older") == 0;
    if (is_older || strncmp(argv[i], "--", 2) != 0) {
      if (num_programs == kMostPackages) return 2;
      programs[num_programs].is_older = is_older;
      programs[num_programs++].path = argv[i += is_older];
    } else if (i + 1 == argc) {
      return 2;
    } else if (strcmp(argv[i], "--threads") == 0) {
      counts = argv[++i];
    } else if (strcmp(argv[i], "--seconds") == 0) {
      seconds = atof(argv[++i]);
    } else if (strcmp(argv[i], "--swaps") == 0) {
      num_swaps = atol(argv[++i]);
    } else if (strcmp(argv[i], "--opens") == 0) {
      opens = atol(argv[++i]);
    } else {
      return 2;
    }
  }
  if (num_programs == 0) return 2;
  for (i = 0; i < num_programs; ++i) load(&programs[i]);
  hashes = start_children();
  for (i = 0; i < num_programs; ++i) {
    open_program(&programs[i]);
    compute(&programs[i], 0);
    printf("%s: %s, for %s\n", programs[i].path, programs[i].toroid->description, programs[i].info.isa);
  }
  check_children(hashes);

  for (next = counts; next != NULL; next = strchr(next, ','), next = next == NULL ? NULL : next + 1) {
    threads = atol(next);
    if (threads < 1 || threads > kMostThreads) return 2;
    if (threads > most) most = threads;
  }
  load_of((int)most, kPlain, warm_up, &elapsed, &first_kib);
  printf("%8s %12s %12s %10s %7s %7s %9s %9s %9s %12s %9s\n", "threads", "calls", "calls/s", "a core", "cores", "share", "mutexes",
         "waits", "sleeps", "MB at 1/10", "MB");
  for (next = counts; next != NULL; next = strchr(next, ','), next = next == NULL ? NULL : next + 1) {
    double rate, turns;
    threads = atol(next);
    sum = load_of((int)threads, kPlain, watch_memory, &elapsed, &last_kib);
    rate = (double)sum.calls / elapsed / (double)(threads < cores ? threads : cores);
    turns = turns_of((int)threads) / (double)(threads < cores ? threads : cores);
    if (alone_threads == 0) alone = rate, turns_alone = turns, alone_threads = threads;
    printf("%8ld %12ld %12.1f %9.2fx %6.2fx %6.2fx %9ld %9ld %9ld %12ld %9ld%s\n", threads, sum.calls, (double)sum.calls / elapsed,
           rate / alone, turns / turns_alone, rate / alone / (turns / turns_alone),
           sum.locked, sum.waited, sum.sleeps, tenth_kib / 1024, last_kib / 1024, sum.wrong ? "  WRONG" : "");
    has_failed |= sum.locked != 0 || sum.waited != 0 || has_grown(first_kib, last_kib) || has_grown(tenth_kib, last_kib);
  }
  printf("memory with %ld threads at first: %ld MB\n", most, first_kib / 1024);

  threads = most < 8 ? most : 8;
  sum = load_of((int)threads, kCancelled, cancel_again, &elapsed, &last_kib);
  printf("%ld calls of %ld threads, %ld cancelled, %ld too late: the others are %s\n", sum.calls, threads, sum.cancelled, sum.late,
         sum.wrong ? "WRONG" : "right");
  check_opens(opens);
  if (num_swaps > 0) check_swaps((int)threads);
  printf("%s\n", has_failed ? "FAILED" : "passed");
  return has_failed;
}
