/* What the tests in C share: checks that print and count, tensors in memory of their own, and opening. */
#ifndef TOROID_TESTS_C_API_CHECK_H
#define TOROID_TESTS_C_API_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "toroid/toroid.h"

static int failures = 0;

#define CHECK(condition)                                             \
  do {                                                               \
    if (!(condition)) {                                              \
      printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                    \
    }                                                                \
  } while (0)

#define CHECK_STATUS(expected, call)                                                                            \
  do {                                                                                                          \
    const ToroidStatus status_ = (call);                                                                        \
    if (status_ != (expected)) {                                                                                \
      printf("%s:%d: status %d instead of %d: %s\n", __FILE__, __LINE__, (int)status_, (int)(expected), #call); \
      ++failures;                                                                                               \
    }                                                                                                           \
  } while (0)

#define CHECK_TEXT(expected, text)                                                                                    \
  do {                                                                                                                \
    const char* const text_ = (text);                                                                                 \
    if (text_ == NULL || strcmp(expected, text_) != 0) {                                                              \
      printf("%s:%d: \"%s\"\n  instead of \"%s\"\n", __FILE__, __LINE__, text_ == NULL ? "(null)" : text_, expected); \
      ++failures;                                                                                                     \
    }                                                                                                                 \
  } while (0)

static const DLDataType kF32 = {kDLFloat, 32, 1}, kI32 = {kDLInt, 32, 1}, kI64 = {kDLInt, 64, 1};

/* In row-major order, over memory of the caller's. */
static DLTensor tensor_of(void* data, DLDataType dtype, int64_t* shape, int32_t rank) {
  DLTensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = rank;
  tensor.dtype = dtype;
  tensor.shape = shape;
  return tensor;
}

/* A package by its name, in the folder that is the test's argument. */
static ToroidModel* open_or_exit(const ToroidApi* api, const char* folder, const char* name, const ToroidModelOptions* options) {
  char path[4096], message[1024] = "";
  ToroidModel* model = NULL;
  snprintf(path, sizeof path, "%s/%s.so", folder, name);
  if (api->model_open(path, options, &model, message, sizeof message) == TOROID_OK) return model;
  printf("%s: %s\n", path, message);
  exit(1);
}

static ToroidContext* context_or_exit(const ToroidApi* api, ToroidModel* model, const ToroidContextOptions* options) {
  char message[1024] = "";
  ToroidContext* context = NULL;
  if (api->context_create(model, options, &context, message, sizeof message) == TOROID_OK) return context;
  printf("context: %s\n", message);
  exit(1);
}

static void delete_tensor(DLManagedTensor* tensor) {
  if (tensor != NULL) tensor->deleter(tensor);
}

static int result(void) {
  if (failures != 0) printf("%d checks failed\n", failures);
  return failures != 0;
}

/* A test need not use all of them. */
static void use_all(void) {
  (void)kF32, (void)kI32, (void)kI64;
  (void)tensor_of, (void)open_or_exit, (void)context_or_exit, (void)delete_tensor, (void)result, (void)use_all;
}

#endif
