/* toroid's compiler in C: makes of a model what toroid.h runs. C99 and C++11; nothing but toroid.h is included.
 *
 * The library that speaks it, libtoroid_compiler.so, exports two functions: toroid_compiler, which gives the table below, and toroid_api of
 * toroid.h, so that a program which compiles and runs links this library alone. Compiling needs g++ or clang++; what was compiled before
 * comes from the cache, and needs neither.
 *
 *   const ToroidCompilerApi* compiler = toroid_compiler(TOROID_COMPILER_VERSION);
 *   const ToroidApi* toroid = toroid_api(TOROID_API_VERSION);
 *   ToroidModel* model;
 *   char message[1024];
 *   if (compiler->compile("model.pt2", "model.so", NULL, message, sizeof message) != TOROID_OK) ...
 *   if (toroid->model_open("model.so", NULL, &model, message, sizeof message) != TOROID_OK) ...
 *
 * The rules of toroid.h hold here too, but that warnings go to standard error, as the environment variable TOROID_LOG says (off: none).
 * The other environment variables of `toroid compile` count as well: TOROID_CXX, TOROID_CACHE_DIR and others. */
#ifndef TOROID_TOROID_COMPILER_H
#define TOROID_TOROID_COMPILER_H

#include "toroid/toroid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the table below. It grows when functions are added at the end, and a library serves all versions up to its own. */
#define TOROID_COMPILER_VERSION 3

/* Options of `toroid compile`. Null and 0 are the defaults. */
typedef struct ToroidCompileOptions {
  size_t size; /* sizeof(ToroidCompileOptions) */

  /* The processors that the program runs on: "native" (this one and better ones; the default), "portable" (any x86-64), or a list of
   * levels, as in "avx2,avx512". */
  const char* cpu;
  /* What the program runs on: "cpu", the default, or "cuda" ("cuda:1", by its number). With a GPU `cpu` is null. */
  const char* device;
  /* A file for the weights, in the place of the output's end: "m.weights" or "m.safetensors" beside "m.so" is found when that is opened. */
  const char* weights;
  /* A folder with files of custom operators, besides those that TOROID_OPERATORS names and the model's own folder. */
  const char* operators;
  /* How many compilers run at a time; 0: one for each core. */
  int32_t threads;
  /* Not 0: everything is built anew, and nothing is kept. */
  int32_t no_cache;
  /* With the device "cuda": the GPUs that the package is for, as in "sm_80,sm_90a,compute_80"; a compute_80 is text that the drivers of
   * later GPUs compile. Then no GPU is needed here. Null: the GPU that is here. */
  const char* arch;
  /* More than 1: the model is cut for so many processes, and compiled is the part of the process `rank`, which counts from 0; that package
   * refuses to run as another one. 0 or 1: it is compiled whole. */
  int32_t tensor_parallel;
  int32_t rank;
  /* A file that says how weights are cut (docs/several-processes.md); null: the estimates decide. */
  const char* shard_rules;
} ToroidCompileOptions;

/* A constant of a graph: its elements in row-major order, or as the strides of its type say. */
typedef struct ToroidGraphConstant {
  const char* name;
  const void* data;
  size_t bytes;
} ToroidGraphConstant;

/* Null and 0 are the defaults. */
typedef struct ToroidGraphOptions {
  size_t size; /* sizeof(ToroidGraphOptions) */

  /* Those that the text calls `external`. Their memory is read as long as the model lives. */
  const ToroidGraphConstant* constants;
  int32_t num_constants;
  /* Not 0: as of ToroidCompileOptions. */
  int32_t no_cache;
  /* Called once, by any thread, when the constants' memory is needed no more; also after an error. */
  void (*release)(void* user);
  void* release_user;
  const char* device; /* "cpu", the default, or "cuda" ("cuda:1") */
  int32_t threads;    /* as of ToroidCompileOptions */
  /* Not 0: implementations of library kernels are measured, as with `toroid compile --mode max`. */
  int32_t measure;
  /* Not 0: kernels check each access to memory. */
  int32_t assertions;
  const char* save_source; /* a folder for the generated sources; null: none */
  const char* dump_ir;     /* a folder for the graph after each pass; null: none */
} ToroidGraphOptions;

/* What is known of a compilation. */
typedef struct ToroidGraphFacts {
  size_t size;        /* sizeof(ToroidGraphFacts) */
  int32_t from_cache; /* 1: no compiler ran */
  int32_t kernels, kernel_calls, library_calls;
  double seconds; /* of the whole */
} ToroidGraphFacts;

typedef struct ToroidCompilerApi {
  size_t size;             /* of this table in the library: a function beyond it is not there */
  uint32_t version;        /* the newest version that the library serves */
  const char* description; /* "toroid 0.1.0" */

  /* Compiles the file `model`, a .pt2 of torch.export or a text in toroid's form, and writes `output`: a package for model_open, or where
   * the name ends in ".a" a static archive, with a header beside it. The output is there whole or not at all. options may be null. Several
   * threads may compile at once; of the same model one does, and the others take its result.
   *
   * TOROID_ERROR_PACKAGE: the model is damaged or no model. TOROID_ERROR_UNSUPPORTED: it has operators that toroid lacks, which the message
   * names. TOROID_ERROR_ENVIRONMENT: there is no compiler, it fails, or a file cannot be read or written. TOROID_ERROR_ARGUMENT: a null
   * path, or an option with a value that it cannot have. */
  ToroidStatus (*compile)(const char* model, const char* output, const ToroidCompileOptions* options, char* message, size_t message_size);

  /* Since version 2. Compiles a graph that is in memory, for this process: *model is as of toroid_api's model_open, which closes it too, or
   * null after an error. text: `text_size` bytes in the form that `toroid opt` prints and src/graph/text/text.h describes. options and
   * facts may be null. Errors as of compile; TOROID_ERROR_PACKAGE for a text that is no graph, with line and column. */
  ToroidStatus (*compile_graph)(const char* text, size_t text_size, const ToroidGraphOptions* options, ToroidModel** model,
                                ToroidGraphFacts* facts, char* message, size_t message_size);
  /* Since version 2. 1 where toroid has the operator "aten::add.Tensor", named with its overload unless that is the default; else 0. */
  int32_t (*has_operator)(const char* name);

  /* Since version 2. Sends warnings and other lines of the log to `log` from now on, for the whole process, in the place of standard
   * error: those of `least` and above (TOROID_LOG_INFO, …). Called from any thread, by several at once; a line without its end. Null:
   * standard error again. */
  void (*set_log)(void (*log)(void* user, int32_t level, const char* line), void* user, int32_t least);
  /* Since version 2. Tells `progress` of work that may last, for the whole process: so many of `total` steps of "compiling kernels" are
   * done. Called from any thread, by one at a time. Null: nobody. */
  void (*set_progress)(void (*progress)(void* user, const char* what, int64_t done, int64_t total), void* user);
  /* Since version 2. The command line that starts the command `toroid`, to which arguments are added: measuring runs kernels in processes
   * of its own. `count` texts, the program's path first; they are copied. 0: this program itself, which must then know what the command
   * knows. */
  void (*set_command)(const char* const* arguments, int32_t count);

  /* Since version 2. As compile, but for this process: *model is as of compile_graph. Nothing is written but to the cache, and weights stay
   * in the file, mapped. `cpu`, `arch` and `weights` of the options are null. Errors as of compile. */
  ToroidStatus (*compile_model)(const char* path, const ToroidCompileOptions* options, ToroidModel** model, ToroidGraphFacts* facts,
                                char* message, size_t message_size);

  /* Since version 3. 1 where GPUs have a kernel for the gradient of attention that keeps no scores and makes the logarithms of its sums
   * itself: queries of `dtype` ("bf16") and `rank` dims whose last has `width` elements, values whose last has `value_width`. Else 0. */
  int32_t (*has_attention_gradient)(const char* dtype, int32_t rank, int64_t width, int64_t value_width);
} ToroidCompilerApi;

/* The table, which lives as long as the library; null for a version that it does not serve. version: TOROID_COMPILER_VERSION of this
 * header. */
const ToroidCompilerApi* toroid_compiler(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif
