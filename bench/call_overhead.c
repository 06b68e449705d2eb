/* What a call from C costs beside the work: the time of runs of a small package, by who owns the output. POSIX.
 *
 *   printf 'program "tiny"\ngraph(x: f32[4]) {\n  y: f32[4] = aten::neg(x)\n  return y\n}\n' >tiny.txt
 *   build/toroid compile tiny.txt -o tiny.so
 *   cc -O2 -Iinclude bench/call_overhead.c -Lbuild -ltoroid -Wl,-rpath,$PWD/build -o call_overhead && ./call_overhead tiny.so
 *
 * The package has one input and one output of f32 with fixed sizes. Prints the median of 200 batches, in nanoseconds a call. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "toroid/toroid.h"

enum { kBatches = 200, kCalls = 1000, kMostDims = 8 };

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static const ToroidApi* toroid;
static ToroidContext* context;
static const DLTensor* inputs[1];

static double median_ns(const ToroidRunOptions* options) {
  static double batches[kBatches];
  DLManagedTensor* outputs[1];
  int batch, call;
  for (batch = 0; batch < kBatches; ++batch) {
    const double begin = now_ns();
    for (call = 0; call < kCalls; ++call) {
      if (toroid->context_run(context, inputs, 1, outputs, 1, options) != TOROID_OK) {
        fprintf(stderr, "%s\n", toroid->context_message(context));
        exit(1);
      }
      if (outputs[0] != NULL) outputs[0]->deleter(outputs[0]);
    }
    batches[batch] = (now_ns() - begin) / kCalls;
  }
  qsort(batches, kBatches, sizeof batches[0], compare);
  return batches[kBatches / 2];
}

int main(int argc, char** argv) {
  ToroidModel* model;
  ToroidTensorInfo info;
  int64_t shape[kMostDims], in_elements = 1, out_elements = 1;
  DLTensor x, into;
  const DLTensor* intos[1];
  ToroidRunOptions options;
  const int32_t cancel = 0;
  char message[1024];
  int d;
  toroid = toroid_api(TOROID_API_VERSION);
  if (argc != 2 || toroid == NULL) return 2;
  if (toroid->model_open(argv[1], NULL, &model, message, sizeof message) != TOROID_OK ||
      toroid->context_create(model, NULL, &context, message, sizeof message) != TOROID_OK) {
    fprintf(stderr, "%s\n", message);
    return 1;
  }
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  toroid->model_input(model, 0, &info);
  if (info.rank > kMostDims || sscanf(info.type, "f32[%ld", (long*)&shape[0]) != 1) return 2;
  {
    const char* next = strchr(info.type, '[');
    for (d = 0; d < info.rank; ++d) {
      shape[d] = strtoll(next + 1, (char**)&next, 10);
      in_elements *= shape[d];
    }
  }
  memset(&x, 0, sizeof x);
  x.data = calloc((size_t)in_elements, sizeof(float));
  x.device.device_type = kDLCPU;
  x.ndim = info.rank;
  x.dtype = info.dtype;
  x.shape = shape;
  inputs[0] = &x;
  into = x;
  toroid->model_output(model, 0, &info);
  {
    int64_t sizes[kMostDims];
    if (toroid->model_output_sizes(model, inputs, 1, 0, sizes, info.rank, message, sizeof message) != TOROID_OK) return 1;
    for (d = 0; d < info.rank; ++d) out_elements *= sizes[d];
    into.data = calloc((size_t)out_elements, sizeof(float));
    into.ndim = info.rank;
    into.shape = sizes;
    intos[0] = &into;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    printf("toroid's output      %6.0f ns\n", median_ns(NULL));
    options.into = intos;
    printf("the caller's output  %6.0f ns\n", median_ns(&options));
    options.cancel = &cancel;
    printf("and may be cancelled %6.0f ns\n", median_ns(&options));
    options.deadline_ns = INT64_MAX;
    printf("and has a deadline   %6.0f ns\n", median_ns(&options));
  }
  toroid->context_destroy(context);
  toroid->model_close(model);
  return 0;
}
