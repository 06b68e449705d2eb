/* The host of compiled programs as a library of its own, libtoroid_host.so, with an interface in C: loads a program, runs it, and says how
 * long its steps took. What `toroid compile --emit-benchmark` writes is linked with it.
 *
 * Functions that can fail return null or another number than 0; toroid_message() says why, for this thread, until the next call. */
#ifndef TOROID_PROGRAM_HOST_H
#define TOROID_PROGRAM_HOST_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ToroidLoaded ToroidLoaded;

/* A shared library that was built from a program's sources, and its weights. threads 0: the default. */
ToroidLoaded* toroid_load(const char* library, const char* weights, int32_t threads);
void toroid_unload(ToroidLoaded* program);

typedef struct ToroidInput {
  const void* data; /* contiguous */
  int32_t dtype;    /* as in tensor/dtype.h */
  int32_t rank;
  const int64_t* sizes;
} ToroidInput;

/* Runs it once, on inputs in the program's order; its results are dropped. */
int32_t toroid_run(ToroidLoaded* program, const ToroidInput* inputs, int32_t num_inputs);

/* The seconds of each run of a step, by its position, if the program was generated to be profiled; null where it never ran. */
const double* toroid_step_seconds(const ToroidLoaded* program, int32_t step, int64_t* count);

/* What this machine can do on so many threads: bytes a second that are copied, float32 operations a second of products. */
int32_t toroid_measure_limits(int32_t threads, double* copy_bytes_per_s, double* multiply_flops_per_s);

const char* toroid_message(void);

#ifdef __cplusplus
}
#endif

#endif
