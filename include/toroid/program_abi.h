/* The interface between a compiled program and the runtime that loads it. Plain C; versioned by TOROID_ABI_VERSION.
 *
 * A program's library exports one thing, constant tables that say what it is and where its functions are:
 *
 *   const ToroidProgram toroid_program;
 *
 * All pointers stay the caller's. Sizes and strides are in elements. Generated wrappers repeat these declarations
 * (src/codegen/wrapper/abi_text.cpp): change both together, and the version. */
#ifndef TOROID_PROGRAM_ABI_H
#define TOROID_PROGRAM_ABI_H

#include <stdint.h>

#define TOROID_ABI_VERSION 17

#ifdef __cplusplus
extern "C" {
#endif

/* A strided window on memory. dtype: the position in the list of tensor/dtype.h. */
typedef struct ToroidOperand {
  void* data;
  const int64_t* sizes;
  const int64_t* strides;
  int32_t rank;
  int32_t dtype;
  int32_t is_constant; /* the same memory with the same values in every call: what is made of it may be kept */
} ToroidOperand;

/* Post-operations, of a product seen as in ToroidEpilogue, in float32 and in this order:
 *
 *   out[row * out_row + column] = min(max(sum * scale[column] + bias[column] + residual[row * residual_row + column], low), high)
 *
 * A null pointer: that factor or term is not there. A bound that is not there is an infinity. The product with scale is rounded before the
 * bias is added unless the machine has fused multiply-adds. Of equal operands max and min give the first, and NaN stays NaN. The result is
 * rounded to out_dtype: float32, bfloat16 or float16. */
typedef struct ToroidPostOps {
  const float* scale;
  const float* bias;
  const float* residual;
  int64_t residual_row;
  float low, high;
  int64_t out_row;
  int32_t out_dtype;
} ToroidPostOps;

/* What is done with a product instead of writing it: post-operations, or a function of the program. The product is seen as a matrix: its
 * last dim (the channels of a convolution) are the columns, all others together the rows. The function is called for blocks of it, from
 * several threads. `block` has the rows [first_row, last_row) and the columns [first_column, last_column), row_stride elements from row to
 * row; columns up to the next multiple of 16 may be read. Of a product of bytes the block holds int32 numbers. */
typedef struct ToroidEpilogue {
  void* out; /* the result, or the first one that the function writes; a chain passes the function another place */
  void (*run)(void* argument, void* out, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first_column,
              int64_t last_column); /* null: post_ops */
  void* argument;
  ToroidPostOps post_ops;
} ToroidEpilogue;

/* One of the convolutions of a chain, all in float32 or all in bfloat16: inputs, output and integers as of `call`. All but the first read
 * as inputs[0] what the one before makes, its output or its epilogue's one result; nothing else reads that, so the memory may come to hold
 * any part of it. */
typedef struct ToroidStage {
  const ToroidOperand* inputs;
  int32_t num_inputs;
  const ToroidOperand* output;
  const int64_t* integers;
  int32_t num_integers;
  const ToroidEpilogue* epilogue;
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
  /* Null, or takes the result, in float32, and outputs[0].data is null: of "matmul" in float32, bfloat16 and float16, and of "convolution"
   * in float32. Of "matmul" of bytes it takes int32. */
  const ToroidEpilogue* epilogue;
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
  /* Scalar operators that generated code does not compute itself; `op` is the position in tensor/scalar_op.def. */
  double (*special_function)(const struct ToroidRuntime*, int32_t op, double x, double y);
  /* Runs a library kernel. 0 when it succeeded; else the host keeps a message. */
  int32_t (*call)(const struct ToroidRuntime*, const ToroidLibraryCall* call);
  /* The same of a chain. */
  int32_t (*chain)(const struct ToroidRuntime*, const ToroidChain* chain);
  /* A number read from a tensor: the binding-th of ToroidVariant::bindings has this value. Sets the symbol that it defines in
   * ToroidCall::symbols. 0, or not when the program cannot go on with it; then the host keeps a message. */
  int32_t (*bind)(const struct ToroidRuntime*, int32_t binding, int64_t value);
  /* Memory for a temporary whose size the call's shapes do not tell, 64-byte aligned, until it is released or the call ends; null
   * when there is none, and the host keeps a message. */
  void* (*allocate)(const struct ToroidRuntime*, int64_t bytes);
  void (*release)(const struct ToroidRuntime*, void* data);
  /* Memory for an output whose sizes (as many as its rank) the call's shapes do not tell; null as above. */
  void* (*output)(const struct ToroidRuntime*, int32_t position, const int64_t* sizes);
  /* Null, or called before each step with its position in ToroidVariant::steps; of a program for GPUs only where it was compiled to be
   * profiled. 0, or not when the program is to end; then the host keeps a message. */
  int32_t (*step)(const struct ToroidRuntime*, int32_t step);
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
  const void* const* inputs;    /* with the strides of the contract */
  const void* const* constants; /* weights, by ToroidVariant::constants */
  void* const* outputs;         /* contiguous; null where ToroidRuntime::output gives the memory; see ToroidOutputInfo::in_place */
  char* arena;                  /* for temporaries, 64-byte aligned */
  const int64_t* offsets;       /* of each temporary in the arena, in bytes */
  const int64_t* symbols;       /* values of the contract's symbols; ToroidRuntime::bind sets some during the call */
  char* prepared;               /* what ToroidVariant::prepare computed from the constants, 64-byte aligned */
  const int64_t* random;        /* the seed of random operators, and the number of this call, both as bits of a uint64_t */
  int32_t* forms; /* of each of ToroidVariant::choices the form to run, negative as long as nobody knows; read and written atomically */
} ToroidCall;

/* ---- what a program takes, and what it relies on ----------------------------------------------------------------------------------- */

/* A size that may differ from call to call. */
typedef struct ToroidSymbol {
  const char* name;
  int64_t least, most;
} ToroidSymbol;

/* A number that follows from symbols. Tables refer to expressions and symbols by their positions. */
typedef struct ToroidExpression {
  const char* text;       /* "2*s0 + 1" */
  const int32_t* symbols; /* those in it */
  int32_t num_symbols;
} ToroidExpression;

typedef struct ToroidInputInfo {
  const char* name;
  const char* type; /* "f32[s0, 128]" */
  int32_t dtype, rank;
  const int32_t* strides; /* expressions, one per dim; null: contiguous */
} ToroidInputInfo;

/* symbol = (size - rest) / coefficient, of the size of an input's dim; the division must be exact. */
typedef struct ToroidDefinition {
  int32_t symbol, input, dim;
  int32_t rest; /* an expression of symbols that are defined before */
  int64_t coefficient;
  const char* form; /* of the size: "2*s0 + 1" */
} ToroidDefinition;

/* The size of an input's dim must be the expression's value. */
typedef struct ToroidSizeCheck {
  int32_t input, dim, expected;
} ToroidSizeCheck;

typedef struct ToroidContract {
  const ToroidInputInfo* inputs;
  const ToroidSymbol* symbols; /* in the order of ToroidCall::symbols */
  const ToroidExpression* expressions;
  const ToroidDefinition* definitions; /* each needs only earlier ones */
  const ToroidSizeCheck* checks;
  const int32_t* guards;       /* expressions that must not be 0 */
  const int32_t* later_guards; /* the same, with symbols that become known during a call */
  const int32_t* bytes;        /* expressions, of tensors: they must fit 63 bits */
  int32_t num_inputs, num_symbols, num_expressions, num_definitions, num_checks, num_guards, num_later_guards, num_bytes;
  /* 0, or 1 where the value does not fit 64 bits, or a divisor is 0. Symbols in it must have values. */
  int32_t (*evaluate)(const struct ToroidContract*, int32_t expression, const int64_t* symbols, int64_t* value);
} ToroidContract;

/* ---- a program --------------------------------------------------------------------------------------------------------------------- */

/* What an output is for: the position in this list. */
typedef enum ToroidOutputKind {
  TOROID_OUTPUT_USER,
  TOROID_OUTPUT_BUFFER_MUTATION,
  TOROID_OUTPUT_INPUT_MUTATION,
  TOROID_OUTPUT_PARAMETER_MUTATION,
  TOROID_OUTPUT_GRADIENT,
  TOROID_OUTPUT_LOSS,
  TOROID_OUTPUT_TOKEN
} ToroidOutputKind;
typedef struct ToroidOutputInfo {
  const char* name;
  const char* target; /* the buffer or input that it is the new value of, the parameter that it is the gradient of; or "" */
  const char* type;   /* "f32[s0, 10]" */
  int32_t dtype, rank, kind;
  int32_t is_late;  /* its sizes become known while the program runs */
  int32_t in_place; /* of ToroidVariant::constants the one that it is the new value of, whose memory may be the output's too; else -1 */
} ToroidOutputInfo;

typedef struct ToroidConstantInfo {
  const char* name; /* in the model; "" for a number that the model's code has in it */
  const char* type; /* "f32[10, 128]" */
  int64_t bytes;    /* from the first element to the end of the last */
  const int64_t* sizes;
  const int64_t* strides; /* null: contiguous */
  int32_t dtype, rank;
  int32_t is_mutable;
} ToroidConstantInfo;

/* A number that the program reads from a tensor is the value of an expression. */
typedef struct ToroidBinding {
  int32_t number;
  int32_t defines; /* the symbol that is number - rest; -1: the value is only checked */
  int32_t rest;
} ToroidBinding;

typedef struct ToroidTemporary {
  int32_t first_step, last_step; /* alive from the one to the other */
} ToroidTemporary;

typedef struct ToroidStepInfo {
  const char* name;
  const char* origin; /* its last operator with its place in the model; or "" */
} ToroidStepInfo;

/* Of a step, as expressions: bytes that it moves, multiplications and additions; and the dtype of what it multiplies. */
typedef struct ToroidStepWork {
  int32_t bytes, flops, dtype;
} ToroidStepWork;

/* A step with several forms. */
typedef struct ToroidChoice {
  int32_t step, num_forms;
  const char* const* forms;
} ToroidChoice;

/* A symbol of the general variant has this value. */
typedef struct ToroidCondition {
  const char* symbol;
  int64_t value;
} ToroidCondition;

/* The program for all calls, or for those whose sizes fulfil its conditions. */
typedef struct ToroidVariant {
  ToroidContract contract;
  const ToroidCondition* conditions;
  const ToroidOutputInfo* outputs;
  const int32_t* constants; /* positions in ToroidProgram::constants, in the order of ToroidCall::constants */
  const ToroidBinding* bindings;
  const ToroidTemporary* temporaries; /* in the order of ToroidCall::offsets */
  const ToroidStepInfo* steps;
  const ToroidStepWork* work; /* by step; none unless compiled to be profiled */
  const ToroidChoice* choices;
  int32_t num_conditions, num_outputs, num_constants, num_bindings, num_temporaries, num_steps, num_work, num_choices;
  /* For people: generated kernels, how often they are called, the steps that do, calls of library kernels. */
  int32_t num_kernels, num_kernel_calls, num_kernel_steps, num_library_calls;
  int64_t prepared_bytes; /* of ToroidCall::prepared */
  const char* signature;  /* for tools of the compiler: inputs, symbols and guards in the text form of graphs */
  /* 0, or 1 + the number of the step that failed; in the bits from 28 on: 1 for an index out of bounds, 2 for an integer divided by zero, 3 for
   * a lack of memory, 4 for an access out of bounds, of which the host was told, 5 for a Halide pipeline that refuses its buffers. */
  int32_t (*run)(const ToroidRuntime*, const ToroidCall*);
  /* To be called once before all calls, with constants and `prepared`; returns as run. Null where nothing is prepared. */
  int32_t (*prepare)(const ToroidRuntime*, const ToroidCall*);
  /* The bytes of each temporary, and the sizes of all outputs one after the other; those of late ones stay as they are. */
  void (*sizes)(const int64_t* symbols, int64_t* temporary_bytes, int64_t* output_sizes);
} ToroidVariant;

typedef struct ToroidProgram {
  int32_t abi_version; /* TOROID_ABI_VERSION; first in every version */
  int32_t num_variants, num_constants;
  const ToroidVariant* variants; /* the last one serves every call */
  const ToroidConstantInfo* constants;
  const char* training;  /* the operators that are in training mode; or "" */
  int64_t* bad_index;    /* the last index out of bounds, and the size that it was meant for */
  const char* call_tree; /* how Python calls it, as JSON; or "" */
} ToroidProgram;

/* A form of a program for an instruction set, which has a name as "avx512+vnni" (base/machine/isa.h). */
typedef struct ToroidLevel {
  const char* isa;
  const ToroidProgram* program;
} ToroidLevel;

/* What a library exports in the place of toroid_program where it has several forms, or holds what runs them:
 *
 *   const ToroidLevels toroid_levels;
 *
 * All have the same constants. A machine takes the first whose instructions it has. */
typedef struct ToroidLevels {
  int32_t abi_version; /* TOROID_ABI_VERSION */
  int32_t num_levels;
  const ToroidLevel* levels; /* the most demanding one first */
} ToroidLevels;

#ifdef __cplusplus
}
#endif
#endif
