/* toroid's interface in C: runs programs that `toroid compile MODEL -o m.so` has made. C99 and C++11; nothing else is included.
 *
 * A library that speaks it (the run library libtoroid.so, or a package that holds its own run side) exports one function, toroid_api, which
 * gives a table of functions. Two packages, and two versions of toroid, live in one process: each has its own table, and objects of one are
 * never given to functions of another.
 *
 *   const ToroidApi* toroid = toroid_api(TOROID_API_VERSION);
 *   ToroidModel* model;
 *   ToroidContext* context;
 *   char message[1024];
 *   if (toroid->model_open("m.so", NULL, &model, message, sizeof message) != TOROID_OK) ...
 *   if (toroid->context_create(model, NULL, &context, message, sizeof message) != TOROID_OK) ...
 *   const DLTensor* inputs[] = {&x};
 *   DLManagedTensor* outputs[] = {NULL};
 *   if (toroid->context_run(context, inputs, 1, outputs, 1, NULL) != TOROID_OK) puts(toroid->context_message(context));
 *   outputs[0]->deleter(outputs[0]);
 *   toroid->context_destroy(context);
 *   toroid->model_close(model);
 *
 * Rules for all functions:
 *
 *   Errors    A function that can fail gives a ToroidStatus. One of a context keeps the words in it (context_message). Others write
 *             them to `message`, which has room for `message_size` bytes: cut to fit, with a zero at the end; it may be null.
 *             What a failed function was to give is null, or as it was. Nothing throws or exits. No signal is handled: a package that is
 *             cut short while it is in use raises SIGBUS, as any mapped file does; replace it by renaming.
 *   Structs   Those with a field `size` are given to the library with size = sizeof(the struct), in options and in what a function fills
 *             in. A library takes as much of a struct as both know. In options a field of zero is its default, so
 *             `= {sizeof(ToroidRunOptions)}` changes nothing.
 *   Pointers  Text is UTF-8 with a zero at the end. What a function takes stays the caller's, and is needed until the function returns
 *             unless it is said otherwise. Text in descriptions lives as long as the model.
 *   Threads   A model may be used by any number of threads at once. A context is used by one thread at a time, not always the same one.
 *             Runs of different contexts wait for nobody: there is no lock on their way, but for the first run with some sizes, and the
 *             first with new weights, which may wait for another context to pack these.
 *   fork      A child process may use what its parent has opened, and open more: it has threads of its own. A context or a first call
 *             that another thread of the parent was busy with is lost there, and so is all that is on a GPU. */
#ifndef TOROID_TOROID_H
#define TOROID_TOROID_H

#include <stddef.h>
#include <stdint.h>

/* ---- tensors: DLPack ----------------------------------------------------------------------------------------------------------------- */

/* Tensors have the layout of DLPack, which most frameworks can exchange. These declarations are compatible with those of dlpack.h, for
 * programs that do not have it; who wants that header includes it before this one. */
#ifndef DLPACK_DLPACK_H_
#ifdef __cplusplus
extern "C" {
#endif

/* Where memory is: what DLDevice::device_type says. toroid has programs for the first two. */
enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 };

typedef struct DLDevice {
  int32_t device_type;
  int32_t device_id; /* the number of a GPU; 0 for a processor */
} DLDevice;

/* What a number is: DLDataType::code. bfloat16 is {kDLBfloat, 16, 1}, a boolean {kDLBool, 8, 1}. */
enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLOpaqueHandle = 3, kDLBfloat = 4, kDLComplex = 5, kDLBool = 6 };

typedef struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes; /* 1 */
} DLDataType;

typedef struct DLTensor {
  void* data; /* the first element is byte_offset behind it */
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;   /* ndim sizes */
  int64_t* strides; /* ndim steps, in elements; null: in row-major order without gaps */
  uint64_t byte_offset;
} DLTensor;

/* A tensor that somebody owns: whoever has it calls deleter(itself) once when it is needed no more. */
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;

#ifdef __cplusplus
}
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the table below. It grows when functions are added at the end, and a library serves all versions up to its own. */
#define TOROID_API_VERSION 1

/* ---- status -------------------------------------------------------------------------------------------------------------------------- */

typedef int32_t ToroidStatus;
enum {
  TOROID_OK = 0,
  /* A null or misaligned pointer, a number out of range, a struct without its size, an object that is closed or in use by another thread.
   * */
  TOROID_ERROR_ARGUMENT = 1,
  /* A tensor's dtype, rank, size or layout, or a value in it: an index out of bounds, an integer divided by zero. */
  TOROID_ERROR_INPUT = 2,
  TOROID_ERROR_DEVICE = 3,      /* a tensor on another device than the program's */
  TOROID_ERROR_PACKAGE = 4,     /* the file is no package, is damaged, or of a version that this library does not read */
  TOROID_ERROR_MEMORY = 5,      /* there is not enough */
  TOROID_ERROR_ENVIRONMENT = 6, /* a file that cannot be read, instructions or a GPU that the machine lacks, a driver that fails */
  TOROID_ERROR_NOT_FOUND = 7,   /* no weight or buffer has the name */
  TOROID_ERROR_UNSUPPORTED = 8, /* this program, or this library, cannot do that */
  TOROID_ERROR_CANCELLED = 9,   /* ToroidRunOptions::cancel */
  TOROID_ERROR_DEADLINE = 10,   /* ToroidRunOptions::deadline_ns */
  TOROID_ERROR_INTERNAL = 11    /* toroid is at fault */
};

/* ---- models -------------------------------------------------------------------------------------------------------------------------- */

/* A loaded program, with one copy of its weights and of what is made of them. */
typedef struct ToroidModel ToroidModel;
/* What calls need and change: memory for temporaries, values of mutable buffers, the state of random numbers. */
typedef struct ToroidContext ToroidContext;

/* Memory of the host's, for temporaries, outputs, and what is made of weights. Both functions are called from any thread. */
typedef struct ToroidAllocator {
  void* user; /* passed to the functions */
  /* At least `bytes` bytes at a multiple of `alignment`, a power of two; null where there is no memory. */
  void* (*allocate)(void* user, size_t bytes, size_t alignment);
  /* What allocate gave, with the same numbers. */
  void (*release)(void* user, void* data, size_t bytes, size_t alignment);
} ToroidAllocator;

/* Threads of the host's. */
typedef struct ToroidThreadPool {
  void* user;      /* passed to the function */
  int32_t threads; /* how many tasks run at once, the caller's thread included; from 1 on */
  /* Runs task(argument, i) once for each i from 0 to count - 1, on whatever threads, and returns when all are done. Tasks do not wait for
   * each other and call nothing of toroid's. */
  void (*parallel_for)(void* user, int64_t count, void (*task)(void* argument, int64_t i), void* argument);
} ToroidThreadPool;

/* The processes that a program of several computes with, this one among them (docs/several-processes.md). All of them open the model with
 * a communicator, and run it in the same order. The communicators are the host's, and for toroid alone (MPI_Comm_dup): its operations would
 * meet others'. They are needed as long as the model or one of its contexts lives. Errors of MPI are handled as the communicator says. */
typedef struct ToroidCommunicator {
  size_t size; /* sizeof(ToroidCommunicator) */
  /* An MPI_Comm, (uintptr_t)comm, of an MPI that the process has started (MPI_THREAD_SERIALIZED where several threads run contexts), and
   * that TOROID_MPI or its usual name opens: Open MPI, or MPICH and those with its binary interface. 0: none; then the program may do
   * nothing on the host, and has no groups of some of the processes. */
  uintptr_t mpi;
  /* Of a program for GPUs: an ncclComm_t with this process's GPU, of the library that TOROID_NCCL or libnccl.so.2 is, with all of the
   * processes, numbered alike. Null: one is made when it is needed, by MPI. */
  void* nccl;
  /* Which of the processes this is, from 0, and how many there are: what MPI_Comm_rank and MPI_Comm_size say, and ncclCommUserRank and
   * ncclCommCount. */
  int32_t rank;
  int32_t processes;
} ToroidCommunicator;

/* How important a line of the log is. */
enum { TOROID_LOG_INFO = 1, TOROID_LOG_WARNING = 2, TOROID_LOG_ERROR = 3 };

typedef struct ToroidModelOptions {
  size_t size;
  /* A file with the weights, where they are not those at the end of the package: FILE.safetensors, which has each by its name; another
   * package of the same program; or what `compile --emit-benchmark` writes as weights.bin. With the latter two the library may also
   * be that of `compile --emit-benchmark`, which has no checksums. NULL: those at the end of the package or, where it has none there, in
   * the file FILE.weights or FILE.safetensors beside it. An empty path is TOROID_ERROR_ARGUMENT. */
  const char* weights;
  /* The number of the GPU that a program for GPUs runs on, unless ToroidContextOptions says another. */
  int32_t gpu;
  /* Threads of a call, the caller's included. 0: TOROID_NUM_THREADS in the environment, else one for each processor that the process
   * may use, by its affinity mask and the time of its control groups. All models of a library with the same number share one pool; a call
   * that finds it busy runs on its own thread. */
  int32_t threads;
  /* Instead of that pool. The struct is copied; what it points to is needed as long as the model or one of its contexts lives. */
  const ToroidThreadPool* thread_pool;
  /* Instead of the C++ library's memory. The struct is copied; what it points to is needed as long as the model, a context or an output
   * lives. Packed weights, values that model_swap_weights puts in, and weights that are copied because they lie otherwise in their file are
   * in it; what is mapped is not, nor what a thread of toroid's works with. */
  const ToroidAllocator* allocator;
  /* Told what a user may want to know, from any thread; a line without its end. Null: nothing is printed anywhere. */
  void (*log)(void* user, int32_t level, const char* line);
  void* log_user;
  /* Ed25519 public keys, 32 bytes each. Where there are some, every file of the model must be signed by one of them (`toroid compile --sign`),
   * or model_open refuses it, before any of its code runs. A package that was loaded by dlopen runs already, and its
   * own model_open refuses keys. */
  const uint8_t* trusted_keys;
  int32_t num_trusted_keys;
  /* Of a program of several processes: which these are. The struct is copied. Null: all of MPI_COMM_WORLD, which is started when the
   * program's first operation runs, unless the process has done so. */
  const ToroidCommunicator* communicator;
  /* Not 0: the checksums of weights are not looked at, so that a package of many gigabytes is open at once, and a processor reads its
   * weights when a call needs them, but for those that it packs; a GPU's are copied. Description and code are checked all the same; damaged
   * weights then give wrong results. With trusted_keys all is read nevertheless. */
  int32_t unchecked_weights;
  int32_t reserved; /* 0 */
} ToroidModelOptions;

typedef struct ToroidModelInfo {
  size_t size;
  const char* name;     /* the package's file name */
  const char* isa;      /* the instruction set that it was compiled for */
  const char* training; /* the operators that are in training mode, or "" */
  int32_t device_type;  /* kDLCPU, or kDLCUDA */
  int32_t abi_version;  /* of the program's own interface with its run side */
  int32_t num_inputs;   /* model_input describes each, … */
  int32_t num_outputs;  /* model_output; new values of mutable buffers are none of them */
  int32_t num_symbols;  /* model_symbol */
  int32_t num_guards;   /* model_guard */
  int32_t num_weights;  /* model_weight */
  int32_t num_variants; /* model_variant */
  int64_t weight_bytes; /* of all weights */
  int32_t threads;      /* of a call */
  /* The trees of arguments and results with which the model is called in Python, as a line of JSON; "" where they are not known.
   * src/frontend/pt2/call_tree.h says what it holds. */
  const char* call_tree;
  /* Where the package comes from, a line each, in any order and perhaps with others:
   *
   *   toroid 0.1.0           what compiled the model
   *   compiler g++ 12.2.0    what compiled its kernels
   *   model mlp.pt2          the model's file, without its folder
   *   sha256 2c26b46b…       of that file's bytes, 64 digits
   *
   * "" where the package says nothing. */
  const char* provenance;
} ToroidModelInfo;

/* What an output is: ToroidTensorInfo::kind. Inputs have kind 0. */
enum {
  TOROID_RESULT = 0,
  TOROID_INPUT_UPDATE = 2,     /* the new value of the input `target`, which the model writes to */
  TOROID_PARAMETER_UPDATE = 3, /* the new value of the weight `target` */
  TOROID_GRADIENT = 4,         /* of `target` */
  TOROID_LOSS = 5,
  TOROID_TOKEN = 6
};

typedef struct ToroidTensorInfo {
  size_t size;
  const char* name;
  const char* type;   /* dtype and sizes: "f32[s0, 128]" */
  const char* target; /* of an output, see above; or "" */
  DLDataType dtype;
  int32_t rank;
  int32_t kind;
  int32_t is_late; /* an output whose sizes its inputs' sizes do not tell: they become known while the program runs */
  /* Where the program has it: kDLCPU, or kDLCUDA. A program for GPUs that keeps tensors where the model has them may have both. */
  int32_t device_type;
} ToroidTensorInfo;

/* A size that may differ from call to call. */
typedef struct ToroidSymbolInfo {
  size_t size;
  const char* name;    /* as in types */
  int64_t least, most; /* what it may be; most is INT64_MAX where it has no bound */
} ToroidSymbolInfo;

/* A weight, a constant or a mutable buffer of the model. */
typedef struct ToroidWeightInfo {
  size_t size;
  const char* name; /* in the model; "" for a number that the model's code has in it */
  const char* type; /* dtype and sizes: "f32[10, 128]" */
  int64_t bytes;    /* as model_read_weight gives it */
  DLDataType dtype;
  int32_t rank;
  const int64_t* sizes; /* `rank` of them */
  int32_t is_mutable;   /* a buffer that calls may update: each context has a value of its own */
} ToroidWeightInfo;

/* The program for all sizes, or for some alone. */
typedef struct ToroidVariantInfo {
  size_t size;
  const char* conditions; /* "s0 = 1"; "" for the variant that serves all calls, which is the last one */
  int32_t num_steps;      /* model_step describes each */
  int32_t num_kernels;
} ToroidVariantInfo;

typedef struct ToroidStepDescription {
  size_t size;
  const char* name;   /* of its kernel */
  const char* origin; /* the operator of the model that it ends with, and where that is in the model's source; or "" */
} ToroidStepDescription;

/* What a call needs, in bytes. */
typedef struct ToroidMemoryInfo {
  size_t size;
  int64_t temporaries; /* of a context */
  int64_t outputs;     /* but for late ones */
  int64_t weights;     /* of the model, mapped from its file */
  int64_t packed;      /* of the model: what was made of weights so far, once for all contexts */
} ToroidMemoryInfo;

/* ---- contexts ------------------------------------------------------------------------------------------------------------------------ */

typedef struct ToroidContextOptions {
  size_t size;
  /* Threads of a call, the caller's included. 0: those of the model. Others are the context's own: with 1 calls run on the caller's thread
   * alone, for a server with a context for each core; with more it starts as many less one, for one that gives each context some of them
   * (docs/deployment.md). */
  int32_t threads;
  /* As context_seed. */
  uint64_t seed;
  /* 1: calls run on the GPU with the number `gpu`, in the place of ToroidModelOptions::gpu. A model's contexts may be on several GPUs, each
   * of which has one copy of the weights. */
  int32_t has_gpu;
  int32_t gpu;
  /* Processors, by their numbers in the system, that the context's own threads stay on: thread i on the i-th, from the first again where
   * there are fewer. The first is for the caller's thread, number 0, which stays where the host has put it. Temporaries lie on the node of
   * the threads that write them first. With `threads` only. Copied. Null: the system chooses. */
  const int32_t* processors;
  int32_t num_processors;
} ToroidContextOptions;

/* A run of a step, or of one of its iterations in a loop. */
typedef struct ToroidStepTime {
  size_t size;
  int32_t variant, step; /* as for model_step */
  const char* name;
  const char* origin;
  int64_t nanoseconds;
} ToroidStepTime;

typedef struct ToroidRunOptions {
  size_t size;
  /* Memory of the caller's for outputs: null, or num_outputs pointers, each null or to a tensor of the output's dtype and sizes, with any
   * strides whose elements lie apart; it must not overlap inputs or other outputs. outputs[i] then becomes null. */
  const DLTensor* const* into;
  /* Asked for memory for each output without one in `into`: so many bytes, for a tensor in row-major order, aligned to 64 bytes or more to
   * be quick and to an element to be right. `tensor`, with sizes but without data, is needed by nobody when the function has returned. It
   * is called on the caller's thread, for late outputs while the program runs. outputs[i] then becomes null. Null: no memory, the call
   * fails. */
  void* (*allocate_output)(void* user, int32_t output, const DLTensor* tensor, size_t bytes);
  void* allocate_user;
  /* The call ends, with TOROID_ERROR_CANCELLED, before the next step once this is not 0. Whoever sets it does so by an atomic store. */
  const int32_t* cancel;
  /* The call ends, with TOROID_ERROR_DEADLINE, before the next step once the clock CLOCK_MONOTONIC has so many nanoseconds; 0: never. */
  int64_t deadline_ns;
  /* Told of each step when the next one begins or the call ends, on the caller's thread. Of programs for a processor. */
  void (*profile)(void* user, const ToroidStepTime* time);
  void* profile_user;
  /* Of a program for GPUs whose inputs are in its GPU's memory: the CUstream on which the work is started, which must not be capturing;
   * null: the default stream. The call does not wait for it (context_wait). `into` and allocate_output then give memory of that GPU, in
   * row-major order, at a multiple of 16; without them outputs are tensors there, whose deleter may be called once nothing uses them any
   * more. Late outputs are memory of the context's, which holds until its next run. */
  void* stream;
  /* Not 0: of a program for GPUs no input of which is on its GPU, all that it has there is started on `stream` nevertheless, and given
   * there: it has none, or all of them are the processor's. Else such a run copies, and waits. */
  int32_t on_gpu;
} ToroidRunOptions;

/* ---- the table ----------------------------------------------------------------------------------------------------------------------- */

typedef struct ToroidApi {
  size_t size;             /* of this table in the library: a function beyond it is not there */
  uint32_t version;        /* the newest version that the library serves */
  const char* description; /* "toroid 0.1.0" */

  /* Opens a package. All of it is checked before any of its code runs, but for what options leave out. path null: the program in the
   * library that this table is of. options may be null. *model: null after an error. */
  ToroidStatus (*model_open)(const char* path, const ToroidModelOptions* options, ToroidModel** model, char* message, size_t message_size);
  /* Contexts and outputs that are still there keep what they need, and stay usable. Null: nothing. */
  void (*model_close)(ToroidModel* model);

  /* Descriptions; each fills in the struct, whose size is set. i: from 0 to less than the number that ToroidModelInfo has.
   * TOROID_ERROR_ARGUMENT for null pointers, a number out of range, and a struct without size. */
  ToroidStatus (*model_info)(const ToroidModel* model, ToroidModelInfo* info);
  ToroidStatus (*model_input)(const ToroidModel* model, int32_t i, ToroidTensorInfo* info);
  ToroidStatus (*model_output)(const ToroidModel* model, int32_t i, ToroidTensorInfo* info);
  ToroidStatus (*model_symbol)(const ToroidModel* model, int32_t i, ToroidSymbolInfo* info);
  /* A condition that sizes of inputs must fulfil: "s0 + s1 >= 8". */
  ToroidStatus (*model_guard)(const ToroidModel* model, int32_t i, const char** text);
  ToroidStatus (*model_weight)(const ToroidModel* model, int32_t i, ToroidWeightInfo* info);
  ToroidStatus (*model_variant)(const ToroidModel* model, int32_t i, ToroidVariantInfo* info);
  ToroidStatus (*model_step)(const ToroidModel* model, int32_t variant, int32_t step, ToroidStepDescription* description);

  /* The sizes of an output for inputs of these dtypes and sizes, whose data are not looked at: `rank` numbers, as the output has.
   * TOROID_ERROR_INPUT where a call would refuse the inputs, TOROID_ERROR_UNSUPPORTED for a late output. */
  ToroidStatus (*model_output_sizes)(const ToroidModel* model, const DLTensor* const* inputs, int32_t num_inputs, int32_t output,
                                     int64_t* sizes, int32_t rank, char* message, size_t message_size);
  /* The same of the memory that a call needs. */
  ToroidStatus (*model_memory)(const ToroidModel* model, const DLTensor* const* inputs, int32_t num_inputs, ToroidMemoryInfo* info,
                               char* message, size_t message_size);

  /* Copies the value of a weight, in row-major order: exactly as many bytes as ToroidWeightInfo says. */
  ToroidStatus (*model_read_weight)(const ToroidModel* model, const char* name, void* data, size_t bytes, char* message,
                                    size_t message_size);
  /* Gives `count` weights new values, in the processor's memory and with any strides, which are copied; of a model for GPUs also in the
   * memory of any GPU, where what writes them must be done. Calls that begin from now on have all of them, in all contexts; calls that run
   * have none. Of a mutable buffer it is the value that new contexts, and those that reset it,
   * begin with. Weights are packed again by the first call that needs them. After an error nothing has changed: TOROID_ERROR_NOT_FOUND for
   * a name, TOROID_ERROR_INPUT for another dtype or other sizes. */
  ToroidStatus (*model_swap_weights)(ToroidModel* model, const char* const* names, const DLTensor* const* tensors, int32_t count,
                                     char* message, size_t message_size);

  /* options may be null. *context: null after an error. */
  ToroidStatus (*context_create)(ToroidModel* model, const ToroidContextOptions* options, ToroidContext** context, char* message,
                                 size_t message_size);
  /* Outputs that are still there stay usable. Null: nothing. */
  void (*context_destroy)(ToroidContext* context);

  /* Runs the program once. inputs: num_inputs tensors in the model's order, in the memory of the model's device or the processor's, with
   * any strides: what does not lie as the program reads it is copied first. Of a program with tensors on both, all are the processor's, or
   * each is where ToroidTensorInfo says, and so are outputs then. outputs: num_outputs pointers, which the call sets, or leaves
   * null after an error: tensors that the caller gives back by their deleter, on any thread, also when context and model are gone; null for
   * those that options places elsewhere. options may be null. A call that fails has updated no mutable buffer, but for those of 64 KiB or
   * more, which may have some new elements. */
  ToroidStatus (*context_run)(ToroidContext* context, const DLTensor* const* inputs, int32_t num_inputs, DLManagedTensor** outputs,
                              int32_t num_outputs, const ToroidRunOptions* options);
  /* Waits for the work that runs of this context have started on streams, and gives what was wrong with it: an index out of bounds is known
   * then. Of a program for a processor there is nothing to wait for. */
  ToroidStatus (*context_wait)(ToroidContext* context);
  /* What was wrong with the last function of this context that failed; "" before. Lives until the next function of the context. Never null.
   * */
  const char* (*context_message)(const ToroidContext* context);

  /* From the next call on random operators draw as in a new context with this seed; calls after that draw other numbers each. */
  ToroidStatus (*context_seed)(ToroidContext* context, uint64_t seed);
  /* The value of a mutable buffer, in row-major order, as the last call left it: exactly as many bytes as ToroidWeightInfo says. */
  ToroidStatus (*context_read_buffer)(ToroidContext* context, const char* name, void* data, size_t bytes);
  /* The next call finds the model's own value in the buffer; name null: in all of them. */
  ToroidStatus (*context_reset_buffer)(ToroidContext* context, const char* name);

  /* What this machine does on so many threads (0: the default), measured: bytes a second that are copied, and
   * operations a second of float32 products. For judging step times. */
  ToroidStatus (*measure_machine)(int32_t threads, double* copied_bytes_per_s, double* product_flops_per_s, char* message,
                                  size_t message_size);

  /* 1: kernels of runs that were started on streams have found something wrong so far, which context_wait then tells; else 0. Waits for
   * nothing. */
  int32_t (*context_has_failed)(ToroidContext* context);
} ToroidApi;

/* The table, which lives as long as the library; null for a version that it does not serve. version: TOROID_API_VERSION of this header. */
const ToroidApi* toroid_api(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif
