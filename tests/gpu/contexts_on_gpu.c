/* A package on a GPU as a server uses it: contexts share one copy of the weights, which are replaced while they run.
 *
 *   usage: contexts_on_gpu PACKAGE.so [SECONDS [THREADS]]
 *
 * By the package's own run side, on GPU 0, and where there are several also on the last one. Exits with 1 unless
 *   - calls with tensors in the GPU's memory, on a stream of the caller's, give the results of those with the host's;
 *   - further contexts take less memory than half of the weights, where these are 64 MB or more;
 *   - weights that are swapped from a GPU's memory give the results of the same ones from the host's;
 *   - of weights that are swapped under load each result is wholly of the old or wholly of the new ones;
 *   - swaps take no more memory for good than the weights once more, and the temporaries of the threads' contexts.
 *
 * Results are compared within 2 % of the largest, for products choose their algorithms. Inputs are those of some_inputs.h. Linux. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../package/some_inputs.h"
#include "toroid/toroid.h"

enum { kMostTensors = 64, kMostThreads = 64, kMostWeights = 4096, kContexts = 4 };

static const ToroidApi* toroid;
static ToroidModel* model;
static ToroidModelInfo info;
static DLTensor tensors[kMostTensors];
static const DLTensor* inputs[kMostTensors];
static int failures;

static void fail(const char* what, const char* message) {
  fprintf(stderr, "contexts_on_gpu: %s: %s\n", what, message);
  exit(2);
}
static void check(int holds, const char* what) {
  printf("%s  %s\n", holds ? "pass" : "FAIL", what);
  failures += !holds;
}
static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- the driver, for memory and streams of the caller's */

static struct Driver {
  int (*init)(unsigned);
  int (*count)(int*);
  int (*retain)(void** context, int device);
  int (*push)(void* context);
  int (*pop)(void** context);
  int (*memory)(size_t* left, size_t* all);
  int (*create)(void** stream, unsigned flags);
  int (*synchronize)(void* stream);
  int (*allocate)(unsigned long long* address, size_t bytes, void* stream);
  int (*copy_in)(unsigned long long to, const void* from, size_t bytes, void* stream);
  int (*copy_out)(void* to, unsigned long long from, size_t bytes, void* stream);
  int (*release)(unsigned long long address, void* stream);
} driver;

static void open_driver(void) {
  static const char* const names[] = {"cuInit",
                                      "cuDeviceGetCount",
                                      "cuDevicePrimaryCtxRetain",
                                      "cuCtxPushCurrent_v2",
                                      "cuCtxPopCurrent_v2",
                                      "cuMemGetInfo_v2",
                                      "cuStreamCreate",
                                      "cuStreamSynchronize",
                                      "cuMemAllocAsync",
                                      "cuMemcpyHtoDAsync_v2",
                                      "cuMemcpyDtoHAsync_v2",
                                      "cuMemFreeAsync"};
  void** const functions = (void**)&driver;
  const char* const other = getenv("TOROID_CUDA_DRIVER");
  void* const library = dlopen(other != NULL && *other != '\0' ? other : "libcuda.so.1", RTLD_NOW);
  size_t i;
  if (library == NULL) fail("the driver", dlerror());
  for (i = 0; i < sizeof names / sizeof *names; ++i) {
    functions[i] = dlsym(library, names[i]);
    if (functions[i] == NULL) fail("the driver", dlerror());
  }
}
static void must(int result, const char* what) {
  char text[32];
  snprintf(text, sizeof text, "error %d", result);
  if (result != 0) fail(what, text);
}
static void enter(int gpu) {
  void* context = NULL;
  must(driver.retain(&context, gpu), "cuDevicePrimaryCtxRetain");
  must(driver.push(context), "cuCtxPushCurrent");
}
static void leave(void) {
  void* context = NULL;
  driver.pop(&context);
}
static size_t bytes_left(int gpu) {
  size_t left = 0, all = 0;
  enter(gpu);
  must(driver.memory(&left, &all), "cuMemGetInfo");
  leave();
  return left;
}

/* ---- calls */

static ToroidContext* context_on(int gpu) {
  ToroidContextOptions options;
  ToroidContext* context = NULL;
  char message[1024] = "";
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.has_gpu = 1;
  options.gpu = gpu;
  if (toroid->context_create(model, &options, &context, message, sizeof message) != TOROID_OK) fail("context_create", message);
  return context;
}

/* The first output's elements, in the process's memory. */
typedef struct Result {
  double* elements;
  size_t count;
} Result;

static double element_of(const void* data, DLDataType dtype, size_t i) {
  if (dtype.code == kDLFloat && dtype.bits == 32) return ((const float*)data)[i];
  if (dtype.code == kDLFloat && dtype.bits == 64) return ((const double*)data)[i];
  if (dtype.code == kDLBfloat) {
    const uint32_t bits = (uint32_t)((const uint16_t*)data)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  if (dtype.code == kDLInt && dtype.bits == 32) return ((const int32_t*)data)[i];
  if (dtype.code == kDLInt && dtype.bits == 64) return (double)((const int64_t*)data)[i];
  fail("the first output", "its dtype is none of those that are compared");
  return 0;
}

static Result result_of(const void* data, const DLTensor* tensor) {
  Result result;
  size_t i;
  result.count = bytes_of(tensor) / (tensor->dtype.bits / 8);
  result.elements = (double*)malloc((result.count + 1) * sizeof(double));
  for (i = 0; i < result.count; ++i) result.elements[i] = element_of(data, tensor->dtype, i);
  return result;
}

static void drop(DLManagedTensor** outputs) {
  int32_t i;
  for (i = 0; i < info.num_outputs; ++i) outputs[i]->deleter(outputs[i]);
}

static Result run(ToroidContext* context) {
  DLManagedTensor* outputs[kMostTensors];
  Result result;
  if (toroid->context_run(context, inputs, info.num_inputs, outputs, info.num_outputs, NULL) != TOROID_OK)
    fail("context_run", toroid->context_message(context));
  result = result_of(outputs[0]->dl_tensor.data, &outputs[0]->dl_tensor);
  drop(outputs);
  return result;
}

/* Inputs on a GPU, and a stream. */
typedef struct There {
  int gpu;
  DLTensor tensors[kMostTensors];
  const DLTensor* inputs[kMostTensors];
  void* stream;
} There;

static void put_there(There* there, int gpu) {
  int32_t i;
  there->gpu = gpu;
  enter(gpu);
  must(driver.create(&there->stream, 1), "cuStreamCreate");
  for (i = 0; i < info.num_inputs; ++i) {
    unsigned long long address = 0;
    there->tensors[i] = tensors[i];
    must(driver.allocate(&address, bytes_of(&tensors[i]) + 256, there->stream), "cuMemAllocAsync");
    must(driver.copy_in(address, tensors[i].data, bytes_of(&tensors[i]), there->stream), "cuMemcpyHtoDAsync");
    there->tensors[i].data = (void*)(uintptr_t)address;
    there->tensors[i].device.device_type = kDLCUDA;
    there->tensors[i].device.device_id = gpu;
    there->inputs[i] = &there->tensors[i];
  }
  must(driver.synchronize(there->stream), "cuStreamSynchronize");
  leave();
}

static Result run_there(ToroidContext* context, const There* there) {
  ToroidRunOptions options;
  DLManagedTensor* outputs[kMostTensors];
  const DLTensor* first;
  void* copy;
  Result result;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.stream = there->stream;
  if (toroid->context_run(context, there->inputs, info.num_inputs, outputs, info.num_outputs, &options) != TOROID_OK ||
      toroid->context_wait(context) != TOROID_OK)
    fail("context_run on a stream", toroid->context_message(context));
  first = &outputs[0]->dl_tensor;
  if (first->device.device_type != kDLCUDA || first->device.device_id != there->gpu) fail("an output", "it is not on the GPU");
  copy = malloc(bytes_of(first) + 1);
  enter(there->gpu);
  must(driver.copy_out(copy, (unsigned long long)(uintptr_t)first->data, bytes_of(first), there->stream), "cuMemcpyDtoHAsync");
  must(driver.synchronize(there->stream), "cuStreamSynchronize");
  leave();
  result = result_of(copy, first);
  free(copy);
  drop(outputs);
  return result;
}

static int is_near(const Result* a, const Result* b) {
  double largest = 0;
  size_t i;
  if (a->count != b->count) return 0;
  for (i = 0; i < a->count; ++i) largest = fmax(largest, fabs(b->elements[i]));
  for (i = 0; i < a->count; ++i) {
    if (!(fabs(a->elements[i] - b->elements[i]) <= 0.02 * largest)) return 0;
  }
  return 1;
}

/* ---- weights: those of the file, and others */

static int32_t num_weights;
static const char* names[kMostWeights];
static DLTensor weights[2][kMostWeights];
static const DLTensor* pointers[2][kMostWeights];
static size_t weight_bytes;

/* All of float and bfloat16, and half of their values. */
static void read_weights(void) {
  int32_t i;
  size_t k;
  for (i = 0; i < info.num_weights; ++i) {
    ToroidWeightInfo weight;
    char message[1024] = "";
    DLTensor* const first = &weights[0][num_weights];
    memset(&weight, 0, sizeof weight);
    weight.size = sizeof weight;
    if (toroid->model_weight(model, i, &weight) != TOROID_OK) fail("model_weight", "it fails");
    weight_bytes += weight.bytes;
    if (*weight.name == '\0' || weight.is_mutable || num_weights == kMostWeights) continue;
    if (!(weight.dtype.code == kDLFloat && weight.dtype.bits == 32) && weight.dtype.code != kDLBfloat) continue;
    memset(first, 0, sizeof *first);
    first->device.device_type = kDLCPU;
    first->dtype = weight.dtype;
    first->ndim = weight.rank;
    first->shape = (int64_t*)weight.sizes;
    first->data = malloc(weight.bytes + 1);
    if (toroid->model_read_weight(model, weight.name, first->data, weight.bytes, message, sizeof message) != TOROID_OK)
      fail("model_read_weight", message);
    weights[1][num_weights] = *first;
    weights[1][num_weights].data = malloc(weight.bytes + 1);
    memcpy(weights[1][num_weights].data, first->data, weight.bytes);
    if (weight.dtype.code == kDLFloat) {
      float* const numbers = (float*)weights[1][num_weights].data;
      for (k = 0; k < (size_t)weight.bytes / 4; ++k) numbers[k] /= 2;
    } else {
      uint16_t* const numbers = (uint16_t*)weights[1][num_weights].data;
      for (k = 0; k < (size_t)weight.bytes / 2; ++k) {
        if ((numbers[k] >> 7 & 255) > 1) numbers[k] = (uint16_t)(numbers[k] - (1 << 7));
      }
    }
    names[num_weights++] = weight.name;
  }
  for (i = 0; i < num_weights; ++i) pointers[0][i] = &weights[0][i], pointers[1][i] = &weights[1][i];
}

static void swap(int which) {
  char message[1024] = "";
  if (toroid->model_swap_weights(model, names, pointers[which], num_weights, message, sizeof message) != TOROID_OK)
    fail("model_swap_weights", message);
}

/* The same from a GPU's memory. */
static void swap_from(int gpu, int which) {
  static DLTensor there[kMostWeights];
  static const DLTensor* their[kMostWeights];
  char message[1024] = "";
  void* stream = NULL;
  int32_t i;
  enter(gpu);
  must(driver.create(&stream, 1), "cuStreamCreate");
  for (i = 0; i < num_weights; ++i) {
    unsigned long long address = 0;
    there[i] = weights[which][i];
    must(driver.allocate(&address, bytes_of(&there[i]) + 256, stream), "cuMemAllocAsync");
    must(driver.copy_in(address, there[i].data, bytes_of(&there[i]), stream), "cuMemcpyHtoDAsync");
    there[i].data = (void*)(uintptr_t)address;
    there[i].device.device_type = kDLCUDA;
    there[i].device.device_id = gpu;
    their[i] = &there[i];
  }
  must(driver.synchronize(stream), "cuStreamSynchronize");
  leave();
  if (toroid->model_swap_weights(model, names, their, num_weights, message, sizeof message) != TOROID_OK)
    fail("model_swap_weights from a GPU", message);
  enter(gpu);
  for (i = 0; i < num_weights; ++i) must(driver.release((unsigned long long)(uintptr_t)there[i].data, stream), "cuMemFreeAsync");
  must(driver.synchronize(stream), "cuStreamSynchronize");
  leave();
}

/* ---- under load */

static Result expected[2];
static int num_gpus, done;
static long runs[kMostThreads][3]; /* with the first weights, with the others, with neither */

static void* work(void* argument) {
  const int i = *(const int*)argument, gpu = i % 4 == 3 ? num_gpus - 1 : 0;
  ToroidContext* const context = context_on(gpu);
  There there;
  put_there(&there, gpu);
  while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
    const Result result = i % 2 == 0 ? run(context) : run_there(context, &there);
    ++runs[i][is_near(&result, &expected[0]) ? 0 : is_near(&result, &expected[1]) ? 1 : 2];
    free(result.elements);
  }
  toroid->context_destroy(context);
  return NULL;
}

static void swap_under_load(double seconds, int threads) {
  pthread_t started[kMostThreads];
  int numbers[kMostThreads], i;
  long sums[3] = {0, 0, 0}, swaps = 0;
  const double end = now_s() + seconds;
  char text[256];
  for (i = 0; i < threads; ++i) {
    numbers[i] = i;
    if (pthread_create(&started[i], NULL, work, &numbers[i]) != 0) fail("pthread_create", "it fails");
  }
  for (; now_s() < end; ++swaps) {
    const struct timespec pause = {0, 2000000};
    swap(swaps % 2 == 0);
    nanosleep(&pause, NULL);
  }
  __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
  for (i = 0; i < threads; ++i) pthread_join(started[i], NULL);
  for (i = 0; i < 3 * threads; ++i) sums[i % 3] += runs[i / 3][i % 3];
  snprintf(text, sizeof text, "%ld swaps under %d threads: %ld results of the old weights, %ld of the new ones, %ld of neither", swaps,
           threads, sums[0], sums[1], sums[2]);
  check(swaps > 1 && sums[0] > 0 && sums[1] > 0 && sums[2] == 0, text);
}

int main(int argc, char** argv) {
  const double seconds = argc > 2 ? atof(argv[2]) : 3;
  const int threads = argc > 3 ? atoi(argv[3]) : 8;
  ToroidContext* contexts[kContexts];
  const ToroidApi* (*get)(uint32_t);
  char message[1024] = "", text[256];
  size_t before, one, all;
  Result result, there_result;
  There there;
  void* library;
  int i;
  if (argc < 2 || threads < 1 || threads > kMostThreads) fail("arguments", "contexts_on_gpu PACKAGE.so [SECONDS [THREADS]]");
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fail(argv[1], dlerror());
  *(void**)&get = dlsym(library, "toroid_api");
  if (get == NULL || (toroid = get(TOROID_API_VERSION)) == NULL) fail(argv[1], "it has no toroid_api");
  open_driver();
  must(driver.init(0), "cuInit");
  must(driver.count(&num_gpus), "cuDeviceGetCount");
  if (toroid->model_open(NULL, NULL, &model, message, sizeof message) != TOROID_OK) fail("model_open", message);
  info.size = sizeof info;
  toroid->model_info(model, &info);
  if (info.num_inputs > kMostTensors || info.num_outputs > kMostTensors) fail(argv[1], "it has too many inputs or outputs");
  for (i = 0; i < info.num_inputs; ++i) make_input(toroid, model, i, &tensors[i]), inputs[i] = &tensors[i];
  read_weights();

  before = bytes_left(0);
  contexts[0] = context_on(0);
  expected[0] = run(contexts[0]);
  free(run(contexts[0]).elements);
  one = bytes_left(0);
  for (i = 1; i < kContexts; ++i) {
    contexts[i] = context_on(0);
    result = run(contexts[i]);
    if (!is_near(&result, &expected[0])) check(0, "a further context gives the first one's result");
    free(result.elements);
    free(run(contexts[i]).elements);
  }
  all = bytes_left(0);
  snprintf(text, sizeof text, "%.1f MB of weights: %.1f MB for the first context, %.1f MB for each further one",
           (double)weight_bytes * 1e-6, ((double)before - (double)one) * 1e-6, ((double)one - (double)all) * 1e-6 / (kContexts - 1));
  check(weight_bytes < 64000000 || ((double)one - (double)all) / (kContexts - 1) < (double)weight_bytes / 2, text);

  put_there(&there, 0);
  for (i = 0; i < 3; ++i) {
    there_result = run_there(contexts[0], &there);
    check(is_near(&there_result, &expected[0]), "a call with the GPU's memory on a stream");
    free(there_result.elements);
  }
  if (num_gpus > 1) {
    ToroidContext* const other = context_on(num_gpus - 1);
    result = run(other);
    check(is_near(&result, &expected[0]), "a context on another GPU");
    free(result.elements);
    toroid->context_destroy(other);
  }

  swap(1);
  expected[1] = run(contexts[0]);
  check(!is_near(&expected[1], &expected[0]), "other weights give other results");
  for (i = 1; i < kContexts; ++i) {
    result = run(contexts[i]);
    check(is_near(&result, &expected[1]), "each context has the new weights");
    free(result.elements);
  }
  for (i = 0; i < 2; ++i) {
    swap_from(num_gpus - 1, i);
    result = run(contexts[0]);
    check(is_near(&result, &expected[i]), "weights from a GPU's memory");
    free(result.elements);
  }
  before = bytes_left(0);
  swap_under_load(seconds, threads);
  all = bytes_left(0);
  snprintf(text, sizeof text, "%.1f MB more after the swaps", ((double)before - (double)all) * 1e-6);
  check((double)before - (double)all < 2 * (double)weight_bytes + threads * (((double)one - (double)all) / kContexts + 64e6), text);
  for (i = 0; i < kContexts; ++i) toroid->context_destroy(contexts[i]);
  toroid->model_close(model);
  return failures != 0;
}
