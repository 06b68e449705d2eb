/* What the tests of GPUs in C share: the driver that tests/gpu/fake_gpu.c plays, and packages by libtoroid.so or by their own run sides. */
#ifndef TOROID_TESTS_C_API_FAKE_GPU_H
#define TOROID_TESTS_C_API_FAKE_GPU_H

#include <dlfcn.h>

#include "check.h"

/* Of the fake. */
typedef int (*AllocateOnGpu)(unsigned long long* address, size_t bytes, void* stream);
typedef int (*RetainContext)(void** context, int device);
typedef int (*PushContext)(void* context);
typedef int (*CreateStream)(void** stream, unsigned flags);
typedef int (*CountBlocks)(size_t bytes, int device);

static union {
  void* object;
  AllocateOnGpu allocate;
  RetainContext retain;
  PushContext push;
  CreateStream create;
  CountBlocks blocks;
} found;

static void* driver;

static void find(const char* name) {
  found.object = dlsym(driver, name);
  if (found.object == NULL) exit(1);
}

static int is_by_own;

/* A package, by libtoroid.so or by itself; then `api` is its own. */
static ToroidModel* open_package(const ToroidApi** api, const char* folder, const char* name) {
  char path[4096], message[1024] = "";
  union {
    void* object;
    const ToroidApi* (*function)(uint32_t);
  } get;
  void* library;
  ToroidModel* model = NULL;
  if (!is_by_own) return open_or_exit(*api, folder, name, NULL);
  snprintf(path, sizeof path, "%s/%s.so", folder, name);
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  get.object = library != NULL ? dlsym(library, "toroid_api") : NULL;
  if (get.object == NULL) {
    printf("%s\n", dlerror());
    exit(1);
  }
  *api = get.function(TOROID_API_VERSION);
  if ((*api)->model_open(NULL, NULL, &model, message, sizeof message) == TOROID_OK) return model;
  printf("%s: %s\n", path, message);
  exit(1);
}

/* So many words on a GPU. */
static int32_t* words_on(int gpu, size_t count, int32_t first) {
  unsigned long long address = 0;
  void* context = NULL;
  int32_t* words;
  find("cuDevicePrimaryCtxRetain");
  found.retain(&context, gpu);
  find("cuCtxPushCurrent_v2");
  found.push(context);
  find("cuMemAllocAsync");
  if (found.allocate(&address, 4 * count, NULL) != 0) exit(1);
  words = (int32_t*)(uintptr_t)address;
  words[0] = first;
  return words;
}

/* Four of them on GPU 0. */
static int32_t* words_on_gpu(int32_t first) { return words_on(0, 4, first); }

static DLTensor on_gpu(int32_t* words, int64_t* shape) {
  DLTensor tensor = tensor_of(words, kI32, shape, 1);
  tensor.device.device_type = kDLCUDA;
  return tensor;
}

static void open_fake(void) {
  driver = dlopen(getenv("TOROID_CUDA_DRIVER"), RTLD_NOW);
  if (driver == NULL) exit(2);
}

/* How many blocks of so many bytes there are on the GPU. */
static int blocks_on(int gpu, size_t bytes) {
  find("fake_gpu_blocks");
  return found.blocks(bytes, gpu);
}

static void use_all_of_fake(void) {
  (void)open_package, (void)words_on_gpu, (void)on_gpu, (void)open_fake, (void)blocks_on, (void)use_all_of_fake;
}

#endif
