/* NVIDIA's driver, NVRTC and cuBLASLt as far as toroid calls them, without a GPU: memory is the process's, binaries are the names and
 * parameters of their kernels, and a kernel writes the sum of the first words that it reads, and one, as the first word of all that it
 * writes; it takes a millisecond. For tests of what surrounds kernels: TOROID_CUDA_DRIVER, TOROID_NVRTC and TOROID_CUBLASLT name the
 * library. FAKE_GPU in the environment says what goes wrong: "absent", "full" or "fault"; "suggests nothing": cuBLASLt has no algorithms;
 * or "two": there are two GPUs, and memory is on the one that is current. FAKE_GPU_ADDS is a number that kernels add besides. No text (PTX)
 * is compiled, but for the kernel by which two processes meet, where FAKE_GPU_MEETS is there.
 * cuDNN is in fake_cudnn.c, NCCL in fake_nccl.c, the memory of other processes in fake_peers.c. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_gpu.h"

typedef int Result;
static const char kMagic[] = "fake binary";
static Result lost;

/* Around what threads share: a kernel, and all of its work, is done by one of them at a time. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }

static int is(const char* what) {
  const char* how = getenv("FAKE_GPU");
  return how != NULL && strcmp(how, what) == 0;
}

Result cuGetErrorName(Result result, const char** name) {
  *name = result == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == 200 ? "CUDA_ERROR_INVALID_IMAGE"
          : result == 500 ? "CUDA_ERROR_NOT_FOUND"
          : result == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                          : "CUDA_ERROR_UNKNOWN";
  return 0;
}
Result cuGetErrorString(Result result, const char** text) {
  *text = result == 2 ? "out of memory" : result == 700 ? "an illegal memory access was encountered" : "something went wrong";
  return 0;
}
Result cuInit(unsigned flags) { return (void)flags, 0; }
Result cuDriverGetVersion(int* version) { return *version = 13000, 0; }
Result cuDeviceGetCount(int* count) { return *count = is("absent") ? 0 : is("two") ? 2 : 1, 0; }
Result cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
Result cuDeviceGetName(char* name, int length, int device) { return (void)device, strncpy(name, "fake", (size_t)length), 0; }
Result cuDeviceGetAttribute(int* value, int attribute, int device) {
  return (void)device, *value = attribute == 75 ? 9 : attribute == 16 ? 132 : 0, 0;
}
Result cuDeviceTotalMem_v2(size_t* bytes, int device) { return (void)device, *bytes = 1u << 30, 0; }

/* A context is its device's number and one; those that this thread pushed. */
enum { kMostContexts = 16 };
static __thread intptr_t contexts[kMostContexts];
static __thread int num_contexts;
Result cuDevicePrimaryCtxRetain(void** context, int device) { return *context = (void*)(intptr_t)(device + 1), 0; }
Result cuCtxPushCurrent_v2(void* context) { return contexts[num_contexts++] = (intptr_t)context, 0; }
Result cuCtxPopCurrent_v2(void** context) { return *context = (void*)contexts[--num_contexts], 0; }
static int current_device(void) { return num_contexts > 0 ? (int)contexts[num_contexts - 1] - 1 : -1; }

/* ---- streams: what is started on them is done at once, or noted where they are captured */

enum { kMostArguments = 128 };
typedef struct Operation {
  enum { kCopy, kSet, kKernel, kProduct, kFunction } kind;
  void (*run)(void*); /* of a function, with `from` */
  char *to, *from;
  size_t bytes;
  char* kernel; /* its name, then its parameters */
  char* arguments[kMostArguments];
  float milliseconds;
} Operation;
typedef struct Graph {
  Operation* operations;
  size_t count;
} Graph;
/* By stream, how many copies to another process's memory were started on it. */
enum { kMostIds = 128 };
typedef struct PeerCopies {
  int of[kMostIds];
} PeerCopies;
static PeerCopies peer_copies_started, peer_copies_known; /* known: to have ended, to who asked a stream or an event for its end */
static void join(PeerCopies* to, const PeerCopies* other) {
  for (int i = 0; i < kMostIds; ++i) to->of[i] = to->of[i] < other->of[i] ? other->of[i] : to->of[i];
}
void fake_require_ends_of_peer_copies(void) {
  for (int i = 0; i < kMostIds; ++i) {
    if (peer_copies_started.of[i] == peer_copies_known.of[i] || lost != 0) continue;
    fprintf(stderr, "memory is let go, to which a copy may be under way\n"), abort();
  }
}

typedef struct Stream {
  Graph* captured;
  int is_own;     /* the capture began there */
  int is_waiting; /* it joined the capture, and the stream where that began has not waited for it since */
  int id;
  PeerCopies behind; /* what has ended when all that was started on it has */
} Stream;
enum { kMostStreams = 64 };
static Stream* streams[kMostStreams];
typedef struct Event {
  float when;
  Stream* captured; /* from which it was recorded, during a capture */
  PeerCopies behind;
} Event;
static float now; /* in milliseconds */
static int num_captures, num_updates, num_graph_launches;

/* For tests in this process. */
void fake_gpu_counts(int* captures, int* updates, int* graph_launches) {
  *captures = num_captures, *updates = num_updates, *graph_launches = num_graph_launches;
}

/* The launches since it was last asked: a letter each, b of one on a stream that joined a capture, e of one that starts early (programmatic
 * stream serialisation), k of others; c of a collective operation, and C of one on a stream that joined a capture; m of a meeting. */
static char launches[256];
void fake_note(void* on, char letter, char joined) {
  const Stream* stream = on;
  lock();
  const size_t length = strlen(launches);
  const int has_joined = stream != NULL && stream->captured != NULL && !stream->is_own;
  if (length + 1 < sizeof launches) launches[length] = has_joined ? joined : letter, launches[length + 1] = '\0';
  unlock();
}
const char* fake_gpu_launches(void) {
  static char seen[sizeof launches];
  strcpy(seen, launches);
  return launches[0] = '\0', seen;
}

static void perform(const Operation* it) {
  now += it->milliseconds;
  if (it->kind == kCopy) memcpy(it->to, it->from, it->bytes);
  if (it->kind == kSet) memset(it->to, (int)it->from[0], it->bytes);
  if (it->kind == kProduct) *(uint32_t*)(void*)it->to = *(uint32_t*)(void*)it->from + *(uint32_t*)(void*)it->arguments[0] + 1;
  if (it->kind == kFunction) it->run(it->from);
  if (it->kind != kKernel) return;
  const char* adds = getenv("FAKE_GPU_ADDS");
  uint32_t sum = 1 + (adds == NULL ? 0 : (uint32_t)atoi(adds));
  const char* parameters = it->kernel + strlen(it->kernel) + 1;
  for (int i = 0; parameters[i] != '\0'; ++i) sum += parameters[i] == 'r' ? *(uint32_t*)(void*)it->arguments[i] : 0;
  for (int i = 0; parameters[i] != '\0'; ++i) {
    if (parameters[i] == 'w') *(uint32_t*)(void*)it->arguments[i] = sum;
  }
}
static Result start(Stream* stream, Operation operation) {
  if (lost != 0) return lost;
  if (stream == NULL || stream->captured == NULL) {
    lock();
    if (stream != NULL && operation.kind == kCopy && fake_is_of_peer(operation.to))
      stream->behind.of[stream->id] = ++peer_copies_started.of[stream->id];
    perform(&operation);
    return unlock(), 0;
  }
  Graph* graph = stream->captured;
  graph->operations = realloc(graph->operations, (graph->count + 1) * sizeof operation);
  graph->operations[graph->count++] = operation;
  return 0;
}

int fake_is(const char* what) { return is(what); }
int fake_start(void* stream, void (*run)(void*), void* argument, float milliseconds) {
  return start(stream, (Operation){.kind = kFunction, .run = run, .from = argument, .milliseconds = milliseconds});
}

Result cuStreamCreate(Stream** stream, unsigned flags) {
  (void)flags;
  static int made;
  *stream = calloc(1, sizeof **stream);
  lock();
  (*stream)->id = made++ % kMostIds;
  for (int i = 0; i < kMostStreams; ++i) {
    if (streams[i] != NULL) continue;
    streams[i] = *stream;
    break;
  }
  return unlock(), 0;
}
Result cuStreamCreateWithPriority(Stream** stream, unsigned flags, int priority) { return (void)priority, cuStreamCreate(stream, flags); }
Result cuStreamDestroy_v2(Stream* stream) {
  lock();
  for (int i = 0; i < kMostStreams; ++i) streams[i] = streams[i] == stream ? NULL : streams[i];
  return unlock(), free(stream), 0;
}
Result cuStreamSynchronize(Stream* stream) {
  if (stream != NULL && stream->captured != NULL) return 900;
  if (stream != NULL) join(&peer_copies_known, &stream->behind);
  return lost;
}
/* A stream that waits for what is captured joins the capture; it may go on where it was waited for in turn. */
Result cuStreamWaitEvent(Stream* stream, Event* event, unsigned flags) {
  (void)flags;
  if (stream != NULL && event->captured == NULL) join(&stream->behind, &event->behind);
  if (stream == NULL || event->captured == NULL || event->captured->captured == NULL) return lost;
  if (stream->captured == NULL) stream->captured = event->captured->captured, stream->is_own = 0;
  if (!stream->is_own) stream->is_waiting = 1;
  if (stream->is_own) event->captured->is_waiting = 0;
  return lost;
}
Result cuStreamIsCapturing(Stream* stream, int* status) { return *status = stream != NULL && stream->captured != NULL, 0; }
Result cuStreamBeginCapture_v2(Stream* stream, int mode) {
  (void)mode;
  __atomic_add_fetch(&num_captures, 1, __ATOMIC_RELAXED);
  stream->is_own = 1;
  return stream->captured = calloc(1, sizeof(Graph)), 0;
}
Result cuStreamEndCapture(Stream* stream, Graph** graph) {
  Result result = 0;
  *graph = stream->captured;
  lock();
  for (int i = 0; i < kMostStreams; ++i) {
    if (streams[i] == NULL || streams[i]->captured != *graph) continue;
    if (streams[i]->is_waiting) result = 904; /* not joined */
    streams[i]->captured = NULL, streams[i]->is_own = streams[i]->is_waiting = 0;
  }
  return unlock(), result;
}
Result cuGraphDestroy(Graph* graph) { return free(graph->operations), free(graph), 0; }
Result cuGraphGetNodes(Graph* graph, void** nodes, size_t* count) { return (void)nodes, *count = graph->count, 0; }
Result cuGraphInstantiateWithFlags(Graph** made, Graph* graph, unsigned long long flags) {
  (void)flags;
  *made = calloc(1, sizeof **made);
  (*made)->count = graph->count;
  (*made)->operations = malloc((graph->count + 1) * sizeof(Operation));
  return memcpy((*made)->operations, graph->operations, graph->count * sizeof(Operation)), 0;
}
Result cuGraphExecUpdate_v2(Graph* made, Graph* graph, void* result) {
  (void)result;
  if (made->count != graph->count) return 910;
  __atomic_add_fetch(&num_updates, 1, __ATOMIC_RELAXED);
  return memcpy(made->operations, graph->operations, graph->count * sizeof(Operation)), 0;
}
Result cuGraphLaunch(Graph* made, Stream* stream) {
  __atomic_add_fetch(&num_graph_launches, 1, __ATOMIC_RELAXED);
  for (size_t i = 0; i < made->count; ++i) start(stream, made->operations[i]);
  return lost;
}
Result cuGraphExecDestroy(Graph* made) { return cuGraphDestroy(made); }

Result cuDeviceGetDefaultMemPool(void** pool, int device) { return (void)device, *pool = &lost, 0; }
Result cuMemPoolSetAttribute(void* pool, int attribute, void* value) { return (void)pool, (void)attribute, (void)value, 0; }

/* The blocks that there are, for cuPointerGetAttribute. */
enum { kMostBlocks = 4096 };
static struct Block {
  char* data;
  size_t bytes;
  int device;
} blocks[kMostBlocks];

/* What a block of so many bytes takes: the next one may begin right behind it. */
static size_t room(size_t bytes) { return bytes < 256 ? 256 : (bytes + 255) / 256 * 256; }

static Result allocate(unsigned long long* address, size_t bytes) {
  for (int i = 0; i < kMostBlocks; ++i) {
    if (blocks[i].data != NULL) continue;
    blocks[i].data = aligned_alloc(256, room(bytes));
    blocks[i].bytes = bytes;
    blocks[i].device = current_device();
    memset(blocks[i].data, 0, bytes);
    *address = (unsigned long long)(uintptr_t)blocks[i].data;
    return 0;
  }
  return 2;
}
Result cuMemAllocAsync(unsigned long long* address, size_t bytes, Stream* stream) {
  (void)stream;
  if (lost != 0) return lost;
  if (is("full") && bytes > 1024) return 2;
  lock();
  const Result result = allocate(address, bytes);
  return unlock(), result;
}
Result cuMemGetInfo_v2(size_t* left, size_t* all) { return *left = *all = 1u << 30, 0; }
/* For tests: how many blocks of so many bytes there are on the device. */
int fake_gpu_blocks(size_t bytes, int device) {
  int count = 0;
  lock();
  for (int i = 0; i < kMostBlocks; ++i) count += blocks[i].data != NULL && blocks[i].bytes == bytes && blocks[i].device == device;
  return unlock(), count;
}
void fake_add_block(char* data, size_t bytes) {
  lock();
  for (int i = 0; i < kMostBlocks; ++i) {
    if (blocks[i].data != NULL) continue;
    blocks[i].data = data, blocks[i].bytes = bytes, blocks[i].device = current_device();
    break;
  }
  unlock();
}
void fake_remove_block(const char* data) {
  lock();
  for (int i = 0; i < kMostBlocks; ++i) {
    if (blocks[i].data == data) blocks[i].data = NULL;
  }
  unlock();
}
static struct Block* find_block(unsigned long long address) {
  char* at = (char*)(uintptr_t)address;
  for (int i = 0; i < kMostBlocks; ++i) {
    if (blocks[i].data != NULL && at >= blocks[i].data && at < blocks[i].data + room(blocks[i].bytes)) return &blocks[i];
  }
  return NULL;
}
static struct Block* block_of(unsigned long long address) {
  lock();
  struct Block* block = find_block(address);
  return unlock(), block;
}
Result cuMemFreeAsync(unsigned long long address, Stream* stream) {
  (void)stream;
  lock();
  struct Block* block = find_block(address);
  const int is_there = block != NULL && (uintptr_t)block->data == address;
  if (is_there) {
    free(block->data);
    block->data = NULL;
  }
  return unlock(), is_there ? 0 : 1;
}
Result cuMemHostAlloc(void** data, size_t bytes, unsigned flags) { return (void)flags, *data = calloc(1, bytes), 0; }
Result cuMemFreeHost(void* data) { return free(data), 0; }
Result cuPointerGetAttribute(void* value, int attribute, unsigned long long address) {
  const struct Block* block = block_of(address);
  if (block == NULL) return 1;
  if (attribute == 2) *(unsigned*)value = 2;
  if (attribute == 9) *(int*)value = block->device;
  if (attribute == 11) *(unsigned long long*)value = (unsigned long long)(uintptr_t)block->data;
  if (attribute == 12) *(size_t*)value = block->bytes;
  return 0;
}
/* What is copied must lie in one block. */
static Result checked_copy(void* to, const void* from, unsigned long long on_device, size_t bytes, Stream* stream) {
  struct Block* block = block_of(on_device);
  if (lost != 0) return lost;
  if (block == NULL || (char*)(uintptr_t)on_device + bytes > block->data + room(block->bytes)) return lost = 700;
  return start(stream, (Operation){.kind = kCopy, .to = to, .from = (char*)(uintptr_t)from, .bytes = bytes});
}
Result cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, Stream* stream) {
  return checked_copy((void*)(uintptr_t)to, from, to, bytes, stream);
}
Result cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, Stream* stream) {
  return checked_copy(to, (const void*)(uintptr_t)from, from, bytes, stream);
}
Result cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, Stream* stream) {
  if (block_of(from) == NULL) return lost = 700;
  return checked_copy((void*)(uintptr_t)to, (const void*)(uintptr_t)from, to, bytes, stream);
}
Result cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, Stream* stream) {
  static char zero[1];
  if (block_of(to) == NULL || value != 0) return lost = 700;
  return start(stream, (Operation){.kind = kSet, .to = (char*)(uintptr_t)to, .from = zero, .bytes = bytes});
}
Result cuModuleLoadData(void** module, const void* image) {
  if (fake_is_meeting(image)) return *module = (void*)(uintptr_t)image, 0;
  if (memcmp(image, kMagic, sizeof kMagic) != 0) return 200;
  return *module = (void*)(uintptr_t)image, 0;
}
Result cuTensorMapEncodeTiled(void* map, int dtype, unsigned rank, void* data, const uint64_t* sizes, const uint64_t* strides,
                              const unsigned* box, const unsigned* steps, int interleave, int swizzle, int promotion, int outside) {
  (void)dtype, (void)rank, (void)sizes, (void)strides, (void)box, (void)steps, (void)interleave, (void)swizzle, (void)promotion,
      (void)outside;
  memset(map, 0, 128);
  return block_of((unsigned long long)(uintptr_t)data) != NULL ? 0 : 1;
}
Result cuTensorMapEncodeIm2col(void* map, int dtype, unsigned rank, void* data, const uint64_t* sizes, const uint64_t* strides,
                               const int* lower, const int* upper, unsigned channels, unsigned pixels, const unsigned* steps,
                               int interleave, int swizzle, int promotion, int outside) {
  (void)lower, (void)upper, (void)channels, (void)pixels;
  return cuTensorMapEncodeTiled(map, dtype, rank, data, sizes, strides, NULL, steps, interleave, swizzle, promotion, outside);
}
Result cuModuleUnload(void* module) { return (void)module, 0; }
Result cuModuleGetFunction(void** function, void* module, const char* name) {
  if (fake_is_meeting(module)) return *function = module, 0;
  for (char* each = (char*)module + sizeof kMagic; *each != '\0'; each += strlen(each) + 1, each += strlen(each) + 1) {
    if (strcmp(each, name) == 0) return *function = each, 0;
  }
  return 500;
}
Result cuFuncSetAttribute(void* function, int attribute, int value) { return (void)function, (void)attribute, (void)value, 0; }
typedef struct Attribute {
  int which, padding, value[16];
} Attribute;
typedef struct Configuration {
  unsigned blocks[3], threads[3], shared;
  Stream* stream;
  const Attribute* attributes;
  unsigned count;
} Configuration;
Result cuLaunchKernelEx(const Configuration* how, char* function, void** arguments, void** extra) {
  (void)extra;
  if (how->blocks[0] == 0 || how->threads[0] == 0) return 1;
  if (is("fault")) lost = 700;
  if (fake_is_meeting(function)) return fake_meet(how->stream, arguments);
  const int is_early = how->count == 1 && how->attributes[0].which == 6 && how->attributes[0].value[0] == 1;
  fake_note(how->stream, is_early ? 'e' : 'k', 'b');
  Operation operation = {.kind = kKernel, .kernel = function, .milliseconds = 1};
  const char* parameters = function + strlen(function) + 1;
  if (strlen(parameters) > kMostArguments) return 1;
  for (int i = 0; parameters[i] != '\0'; ++i) {
    if (parameters[i] != '-') operation.arguments[i] = *(char**)arguments[i];
  }
  return start(how->stream, operation);
}
Result cuEventCreate(Event** event, unsigned flags) { return (void)flags, *event = calloc(1, sizeof **event), 0; }
Result cuEventDestroy_v2(Event* event) { return free(event), 0; }
Result cuEventRecord(Event* event, Stream* stream) {
  lock();
  event->when = now;
  event->captured = stream != NULL && stream->captured != NULL ? stream : NULL;
  if (stream != NULL) event->behind = stream->behind;
  return unlock(), lost;
}
/* For tests: how often the process has waited for an event, as for what it started on a caller's stream, since it was last asked. */
static int num_waits;
int fake_gpu_waits(void) { return __atomic_exchange_n(&num_waits, 0, __ATOMIC_RELAXED); }
Result cuEventSynchronize(Event* event) {
  __atomic_add_fetch(&num_waits, 1, __ATOMIC_RELAXED);
  return join(&peer_copies_known, &event->behind), lost;
}
Result cuEventElapsedTime(float* milliseconds, Event* from, Event* to) { return *milliseconds = to->when - from->when, 0; }

/* ---- cuBLASLt: nine algorithms, of which the first three take 3, 2 and 5 milliseconds, and the last one 1 */

typedef struct Suggestion {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} Suggestion;
size_t cublasLtGetVersion(void) { return 130000; }
Result cublasLtCreate(void** handle) { return *handle = &now, 0; }
Result cublasLtDestroy(void* handle) { return (void)handle, 0; }
Result cublasLtMatmulDescCreate(void** made, int compute, int scale) { return (void)compute, (void)scale, *made = &now, 0; }
Result cublasLtMatmulDescDestroy(void* it) { return (void)it, 0; }
Result cublasLtMatmulDescSetAttribute(void* it, int which, const void* value, size_t bytes) {
  return (void)it, (void)which, (void)value, (void)bytes, 0;
}
Result cublasLtMatrixLayoutCreate(void** made, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  return (void)type, (void)rows, (void)columns, (void)leading, *made = &now, 0;
}
Result cublasLtMatrixLayoutDestroy(void* it) { return (void)it, 0; }
Result cublasLtMatrixLayoutSetAttribute(void* it, int which, const void* value, size_t bytes) {
  return (void)it, (void)which, (void)value, (void)bytes, 0;
}
Result cublasLtMatmulPreferenceCreate(void** made) { return *made = &now, 0; }
Result cublasLtMatmulPreferenceDestroy(void* it) { return (void)it, 0; }
Result cublasLtMatmulPreferenceSetAttribute(void* it, int which, const void* value, size_t bytes) {
  return (void)it, (void)which, (void)value, (void)bytes, 0;
}
Result cublasLtMatmulAlgoGetHeuristic(void* handle, void* matmul, void* a, void* b, void* c, void* d, void* preference, int most,
                                      Suggestion* suggestions, int* found) {
  (void)handle, (void)matmul, (void)a, (void)b, (void)c, (void)d, (void)preference;
  static const uint64_t milliseconds[] = {3, 2, 5, 5, 5, 5, 5, 5, 1};
  enum { kAlgorithms = sizeof milliseconds / sizeof milliseconds[0] };
  *found = is("suggests nothing") ? 0 : most < kAlgorithms ? most : kAlgorithms;
  for (int i = 0; i < *found; ++i) suggestions[i] = (Suggestion){.algorithm = {milliseconds[i]}};
  return 0;
}
Result cublasLtMatmul(void* handle, void* matmul, const void* alpha, void* a, void* a_layout, void* b, void* b_layout, const void* beta,
                      const void* c, void* c_layout, void* d, void* d_layout, const uint64_t* algorithm, void* workspace, size_t bytes,
                      Stream* stream) {
  (void)handle, (void)matmul, (void)alpha, (void)a_layout, (void)b_layout, (void)beta, (void)c, (void)c_layout, (void)d_layout;
  (void)workspace, (void)bytes;
  return start(stream, (Operation){.kind = kProduct, .to = d, .from = a, .arguments = {b}, .milliseconds = (float)algorithm[0]});
}

/* ---- NVRTC: the magic, then each kernel's name and parameters, a letter each: r is read, w written, - neither */

typedef struct Compilation {
  char* source;
  char* binary;
  size_t bytes;
  char log[4096];
} Compilation;

Result nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
const char* nvrtcGetErrorString(Result result) { return result == 0 ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION"; }
Result nvrtcCreateProgram(Compilation** made, const char* source, const char* name, int count, const char* const* headers,
                          const char* const* names) {
  (void)name, (void)count, (void)headers, (void)names;
  *made = calloc(1, sizeof **made);
  (*made)->source = strdup(source);
  return 0;
}
Result nvrtcDestroyProgram(Compilation** made) {
  free((*made)->source);
  free((*made)->binary);
  free(*made);
  return *made = NULL, 0;
}
static void append(Compilation* it, const char* text, size_t length) {
  it->binary = realloc(it->binary, it->bytes + length + 1);
  memcpy(it->binary + it->bytes, text, length);
  it->bytes += length;
}
Result nvrtcCompileProgram(Compilation* it, int count, const char* const* options) {
  (void)count, (void)options;
  append(it, kMagic, sizeof kMagic);
  for (const char* at = it->source; (at = strstr(at, "\nKERNEL ")) != NULL; ++at) {
    const char* name = strchr(at, ')') + 2; /* behind the launch bounds */
    const char* parameter = strchr(name, '(') + 1;
    append(it, name, strcspn(name, "("));
    snprintf(it->log + strlen(it->log), sizeof it->log - strlen(it->log),
             "ptxas info    : Compiling entry function '%.*s' for 'sm_90a'\nptxas info    : Function properties for %.*s\n"
             "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\nptxas info    : Used 32 registers, 64 bytes smem\n",
             (int)strcspn(name, "("), name, (int)strcspn(name, "("), name);
    append(it, "", 1);
    for (size_t length; *parameter != ')' && parameter[-1] != ')'; parameter += length + 1) {
      while (*parameter == ' ') ++parameter;
      length = strcspn(parameter, ",)");
      const int is_state = strncmp(parameter, "const RandomState", 17) == 0; /* a pointer, too */
      const int is_data = is_state || (memchr(parameter, '*', length) != NULL && strncmp(parameter, "Failure", 7) != 0);
      append(it, !is_data ? "-" : strncmp(parameter, "const ", 6) == 0 ? "r" : "w", 1);
    }
    append(it, "", 1);
  }
  append(it, "", 1);
  return 0;
}
Result nvrtcGetProgramLogSize(Compilation* it, size_t* bytes) { return *bytes = strlen(it->log) + 1, 0; }
Result nvrtcGetProgramLog(Compilation* it, char* log) { return strcpy(log, it->log), 0; }
Result nvrtcGetCUBINSize(Compilation* it, size_t* bytes) { return *bytes = it->bytes, 0; }
Result nvrtcGetCUBIN(Compilation* it, char* cubin) { return memcpy(cubin, it->binary, it->bytes), 0; }
Result nvrtcGetPTXSize(Compilation* it, size_t* bytes) { return *bytes = it->bytes, 0; }
Result nvrtcGetPTX(Compilation* it, char* ptx) { return memcpy(ptx, it->binary, it->bytes), 0; }
