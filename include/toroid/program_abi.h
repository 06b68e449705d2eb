/* The interface between a compiled program and the runtime that loads it. Plain C; versioned by TOROID_ABI_VERSION.
 *
 * A program's library exports
 *
 *   const char toroid_manifest[];   JSON: inputs, outputs, symbols, constants, temporaries, kernels
 *   int32_t toroid_run(const ToroidRuntime*, const ToroidCall*);   0, or 1 + the number of the step that failed; in the
 *     bits from 28 on: 1 for an index out of bounds, 2 for an integer divided by zero, 3 for a lack of memory, 4 for an access out of
 *     bounds, of which the host was told
 *   int32_t toroid_prepare(const ToroidRuntime*, const ToroidCall*);   if the manifest names prepared bytes: to be called once before
 *     all calls, with constants and `prepared`; returns as toroid_run
 *   void toroid_sizes(const int64_t* symbols, int64_t* temporary_bytes, int64_t* output_sizes);
 *
 * All pointers stay the caller's. Sizes and strides are in elements. Generated wrappers repeat these declarations
 * (src/codegen/wrapper/abi_text.cpp): change both together, and the version. */
#ifndef TOROID_PROGRAM_ABI_H
#define TOROID_PROGRAM_ABI_H

#include <stdint.h>

#define TOROID_ABI_VERSION 9

#ifdef __cplusplus
extern "C" {
#endif

/* A strided window on memory. dtype: the position in the list of graph/dtype.h. */
typedef struct ToroidOperand {
  void* data;
  const int64_t* sizes;
  const int64_t* strides;
  int32_t rank;
  int32_t dtype;
  int32_t is_constant; /* the same memory with the same values in every call: what is made of it may be kept */
} ToroidOperand;

/* What many epilogues come to: of a product seen as in ToroidEpilogue,
 *
 *   out[row * out_row + column] = min(max(sum * scale[column] + bias[column] + residual[row * residual_row + column], low), high)
 *
 * in float32. A null pointer: that term or factor is not there; scale and residual come with a bias. The product with scale is rounded before
 * the bias is added unless is_fused. Of equal operands max and min give the first, and NaN stays NaN; a bound that is not there is an infinity. */
typedef struct ToroidPostOps {
  const float* scale;
  const float* bias;
  const float* residual;
  int64_t residual_row;
  float* out;
  int64_t out_row;
  float low, high;
  int32_t is_fused;
} ToroidPostOps;

/* What is to be done with a product besides, block by block, instead of writing it. The product is seen as a matrix: its last dim (the
 * channels of a convolution) are the columns, all others together the rows. `block` has the rows [first_row, last_row) and the columns
 * [first_column, last_column), row_stride elements from row to row; columns up to the next multiple of 16 may be read. Called from several threads. */
typedef struct ToroidEpilogue {
  void (*run)(void* argument, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first_column,
              int64_t last_column);
  void* argument;
  const ToroidPostOps* clamped; /* all that run does: may be done instead, for any part of the product. Null: it is something else */
} ToroidEpilogue;

/* One of the convolutions of a chain, in float32: inputs, output and integers as of `call`. All but the first read as inputs[0] what the one
 * before makes; nothing else reads that, so the memory may come to hold any part of it. Where an epilogue makes it, its argument is an array of
 * num_arguments pointers, of which the image_argument-th is the one to write to: the runtime passes others. */
typedef struct ToroidStage {
  const ToroidOperand* inputs;
  int32_t num_inputs;
  const ToroidOperand* output;
  const int64_t* integers;
  int32_t num_integers;
  const ToroidEpilogue* epilogue;
  int32_t num_arguments, image_argument;
} ToroidStage;

/* A call of a library kernel. */
typedef struct ToroidLibraryCall {
  const char* name;        /* the kernel: "matmul", or "matmul#packed" for one of its implementations */
  int32_t site;            /* the number of the call in its program, from 0 on: the host plans a call once for each site and its sizes */
  int32_t has_fixed_sizes; /* 1: all sizes, strides, integers and numbers are the same in every call of the program */
  const ToroidOperand* inputs;
  int32_t num_inputs;
  const ToroidOperand* outputs;
  int32_t num_outputs;
  const int64_t* integers;
  int32_t num_integers;
  const double* numbers;
  int32_t num_numbers;
  const ToroidEpilogue*
      epilogue; /* null, or, of "matmul" in float32, bfloat16 and float16 and "convolution" in float32, takes the result, in
                                       float32, and outputs[0].data is null */
} ToroidLibraryCall;

/* Convolutions each of which reads what the one before makes. name: "chain", or "chain#bands" for one of its implementations; site and has_fixed_sizes
 * as above. */
typedef struct ToroidChain {
  const char* name;
  int32_t site;
  int32_t has_fixed_sizes;
  const ToroidStage* stages;
  int32_t num_stages;
} ToroidChain;

/* What the host offers to programs. */
typedef struct ToroidRuntime {
  void* host;
  /* Runs body(argument, b, e) for pieces [b, e) that cover [0, n), in parallel, each at least `grain` long. */
  void (*parallel_for)(const struct ToroidRuntime*, int64_t n, int64_t grain, void (*body)(void* argument, int64_t begin, int64_t end),
                       void* argument);
  /* Scalar operators that generated code does not compute itself; `op` is the position in graph/scalar_op.def. */
  double (*special_function)(const struct ToroidRuntime*, int32_t op, double x, double y);
  /* Runs a library kernel. 0 when it succeeded; else the host keeps a message. */
  int32_t (*call)(const struct ToroidRuntime*, const ToroidLibraryCall* call);
  /* The same of a chain. */
  int32_t (*chain)(const struct ToroidRuntime*, const ToroidChain* chain);
  /* A number read from a tensor: the binding-th of the manifest has this value. Sets the symbol that it defines in
   * ToroidCall::symbols. 0, or not when the program cannot go on with it; then the host keeps a message. */
  int32_t (*bind)(const struct ToroidRuntime*, int32_t binding, int64_t value);
  /* Memory for a temporary whose size the call's shapes do not tell, 64-byte aligned, until it is released or the call ends; null
   * when there is none, and the host keeps a message. */
  void* (*allocate)(const struct ToroidRuntime*, int64_t bytes);
  void (*release)(const struct ToroidRuntime*, void* data);
  /* Memory for an output whose sizes (as many as its rank) the call's shapes do not tell; null as above. */
  void* (*output)(const struct ToroidRuntime*, int32_t position, const int64_t* sizes);
  /* In programs compiled to be profiled, before each step: its position in the manifest's list. */
  void (*step)(const struct ToroidRuntime*, int32_t step);
  /* In assertion builds, from any thread: the kernel would have accessed this element of a buffer with `size` of them. The host keeps the
   * first such message, and the program ends. origin: what operator of the model the access comes from; may be empty. */
  void (*out_of_bounds)(const struct ToroidRuntime*, const char* kernel, const char* buffer, int64_t index, int64_t size,
                        const char* origin);
  /* Runs a step that has several forms, all with the same result, and finds out which is quickest: run(argument, f) runs the f-th of num_forms.
   * *form (of ToroidCall::forms) is -1 before; it becomes the quickest one, unless another thread finds that out meanwhile. */
  void (*choose_form)(const struct ToroidRuntime*, int32_t* form, int32_t num_forms, void (*run)(void* argument, int32_t form),
                      void* argument);
} ToroidRuntime;

typedef struct ToroidCall {
  const void* const* inputs;    /* user inputs, with the strides of the manifest */
  const void* const* constants; /* weights, by the manifest's order */
  void* const* outputs;         /* contiguous; null where ToroidRuntime::output gives the memory */
  char* arena;                  /* for temporaries, 64-byte aligned */
  const int64_t* offsets;       /* of each temporary in the arena, in bytes */
  const int64_t* symbols;       /* values of the size symbols; ToroidRuntime::bind sets some during the call */
  char* prepared;               /* what toroid_prepare computed from the constants, 64-byte aligned */
  const int64_t* random;        /* the seed of random operators, and the number of this call, both as bits of a uint64_t */
  int32_t* forms; /* of each step with several forms, by the manifest's list, the one to run, negative as long as nobody knows; read and
                                   written atomically */
} ToroidCall;

#ifdef __cplusplus
}
#endif
#endif
