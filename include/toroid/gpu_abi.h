/* What the interface of programs and runtime (program_abi.h) has besides for a program whose buffers are in a GPU's memory: pointers of calls
 * point there, but those of numbers that the call is made with (symbols, offsets, random), and of tensors that ToroidGpuPlacement says are in
 * the process's memory. Its library exports one thing more, which others
 * lack:
 *
 *   const ToroidGpuProgram toroid_gpu_program;
 *
 * and is called with a ToroidGpuRuntime in the place of a ToroidRuntime. Wrappers repeat this (src/codegen/wrapper/abi_text.cpp). */
#ifndef TOROID_GPU_ABI_H
#define TOROID_GPU_ABI_H

#include "toroid/program_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor of four dims that a kernel reads by TMA, the contiguous one first. Sizes and strides in elements; a box is what one load brings,
 * in rows of 128 bytes that are swizzled; what lies outside of the tensor is zero. Of images of channels, columns, rows (im2col), where `steps`
 * are more than 0, a box is so many channels of so many pixels, one after the other: those that lie `lower` from the first column and row on,
 * to `upper` from the last, in steps. */
typedef struct ToroidTensorMap {
  const void* data; /* at a multiple of 16 bytes, and so are the strides but the first, which is 1 */
  int32_t dtype;    /* 16-bit floats, or U8: bytes */
  int64_t sizes[4], strides[4];
  int32_t box[4];
  int32_t lower[2], upper[2], steps[2]; /* along columns and rows */
} ToroidTensorMap;

/* A kernel, by its name in the binaries; a pointer to each argument. */
typedef struct ToroidLaunch {
  const char* kernel;
  int64_t blocks;
  int32_t threads; /* of a block */
  void** arguments;
  int32_t shared_bytes; /* of a block, besides what the kernel declares */
  int32_t resident;     /* more than 0: no more blocks are started than run at once, a multiple of this */
  const ToroidTensorMap* maps;
  int32_t num_maps;     /* the first arguments are these, and the host sets their pointers */
  int32_t starts_early; /* 1: while the launch before it ends, which lets it; its threads wait for that */
  int64_t rows, layers; /* of blocks, along y and z; 0 is 1 */
  /* Where `threads` is 0, its binary says how the kernel is started (ToroidGpuKernel): so many arguments are there, and behind them there are
   * TOROID_GPU_MORE_POINTERS places for those that the host adds. */
  int32_t num_arguments;
} ToroidLaunch;
#define TOROID_GPU_MORE_POINTERS 8

/* Functions give 0 when they succeeded; else the host keeps a message. What they start is done in order. */
typedef struct ToroidGpuRuntime {
  ToroidRuntime host;
  int32_t (*launch)(const ToroidRuntime*, const ToroidLaunch* launch);
  int32_t (*copy)(const ToroidRuntime*, void* to, const void* from, int64_t bytes); /* within the GPU's memory */
  int32_t (*read)(const ToroidRuntime*, void* to, const void* from, int64_t bytes); /* from it, once it is written */
  /* Where kernels note in that memory what goes wrong first: code, as of ToroidVariant::run, and step, 32 bits each; index and size, 64 each. */
  void* failure;
  int32_t multiplies; /* 1: calls of products run on the GPU, for a library of them is there. Of AMD's GPUs it may be 0 */
  /* Of a program with tensors in the process's memory too: what its steps there call, and their arena, with ToroidCall::offsets. */
  const ToroidRuntime* here;
  char* host_arena;
  /* Two words of that memory, which hold those of `state` for the work started next: ToroidCall::random, the call's or of a run of a loop's
   * body. The call's own are in the same place in each call. Null when it failed. */
  const int64_t* (*random)(const ToroidRuntime*, const int64_t* state);
} ToroidGpuRuntime;

/* For which GPUs a binary is. */
typedef enum ToroidGpuKind {
  TOROID_GPU_EXACT,  /* code for this compute capability alone */
  TOROID_GPU_FAMILY, /* code for this one, and later ones of its major version */
  TOROID_GPU_PTX,    /* text that the driver compiles, for this one and all later ones */
  TOROID_GPU_AMD     /* a code object for this GPU of AMD's alone: 0x90a for gfx90a */
} ToroidGpuKind;

/* What of a launch only the kernel's compiler knows, as Triton; it may differ between the binaries of a unit. */
typedef struct ToroidGpuKernel {
  int32_t threads, shared_bytes; /* of a block */
  int64_t scratch_bytes;         /* of the GPU's memory, of each block: the first pointer behind the arguments is to those of all blocks */
  int32_t scratch_alignment;     /* at most 256 */
  int32_t more_pointers;         /* behind the arguments, at most TOROID_GPU_MORE_POINTERS; those but the first are null */
} ToroidGpuKernel;

/* Kernels, as the driver loads them. All binaries of a unit have the same. */
typedef struct ToroidGpuBinary {
  const void* data;
  int32_t unit;
  int32_t capability;            /* 90 for 9.0; 0x90a for gfx90a */
  int32_t kind;                  /* ToroidGpuKind */
  const char* kernel;            /* of a unit with one kernel, which its binary says how to start: its name */
  const ToroidGpuKernel* launch; /* … and how; else null */
} ToroidGpuBinary;

/* Where the tensors of a variant are: 1 in the process's memory, 0 in the GPU's. Null: all are in the GPU's. */
typedef struct ToroidGpuPlacement {
  const int32_t* inputs;
  const int32_t* outputs;
  const int32_t* constants;   /* in the order of ToroidVariant::constants */
  const int32_t* temporaries; /* in the order of ToroidCall::offsets */
} ToroidGpuPlacement;

typedef struct ToroidGpuProgram {
  const ToroidGpuBinary* binaries;
  int32_t num_binaries;
  int32_t facts;                        /* TOROID_GPU_DRAWS and TOROID_GPU_MIXED, added */
  const ToroidGpuPlacement* placements; /* with TOROID_GPU_MIXED, of each variant; else it is not there */
} ToroidGpuProgram;
#define TOROID_GPU_DRAWS 1 /* kernels read ToroidCall::random, through ToroidGpuRuntime::random */
#define TOROID_GPU_MIXED 2 /* some tensors are in the process's memory */

#ifdef __cplusplus
}
#endif
#endif
