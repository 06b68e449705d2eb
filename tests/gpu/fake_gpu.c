/* NVIDIA's driver and NVRTC as far as toroid calls them, without a GPU: memory is the process's, binaries are the names of their kernels, and
 * kernels do nothing. For tests of what surrounds kernels: TOROID_CUDA_DRIVER and TOROID_NVRTC name the library. FAKE_GPU in the environment says
 * what goes wrong: "absent", "full" or "fault". */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
static const char kMagic[] = "fake binary";
static Result lost;

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
Result cuDeviceGetCount(int* count) { return *count = is("absent") ? 0 : 1, 0; }
Result cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
Result cuDeviceGetName(char* name, int length, int device) { return (void)device, strncpy(name, "fake", (size_t)length), 0; }
Result cuDeviceGetAttribute(int* value, int attribute, int device) { return (void)device, *value = attribute == 75 ? 9 : 0, 0; }
Result cuDeviceTotalMem_v2(size_t* bytes, int device) { return (void)device, *bytes = 1u << 30, 0; }
Result cuDevicePrimaryCtxRetain(void** context, int device) { return (void)device, *context = &lost, 0; }
Result cuCtxSetCurrent(void* context) { return (void)context, 0; }
Result cuStreamCreate(void** stream, unsigned flags) { return (void)flags, *stream = &lost, 0; }
Result cuStreamDestroy_v2(void* stream) { return (void)stream, 0; }
Result cuStreamSynchronize(void* stream) { return (void)stream, lost; }
Result cuDeviceGetDefaultMemPool(void** pool, int device) { return (void)device, *pool = &lost, 0; }
Result cuMemPoolSetAttribute(void* pool, int attribute, void* value) { return (void)pool, (void)attribute, (void)value, 0; }

/* The blocks that there are, for cuPointerGetAttribute. */
enum { kMostBlocks = 4096 };
static struct Block {
  char* data;
  size_t bytes;
} blocks[kMostBlocks];

Result cuMemAllocAsync(unsigned long long* address, size_t bytes, void* stream) {
  (void)stream;
  if (lost != 0) return lost;
  if (is("full") && bytes > 1024) return 2;
  for (int i = 0; i < kMostBlocks; ++i) {
    if (blocks[i].data != NULL) continue;
    blocks[i].data = aligned_alloc(256, (bytes + 255) / 256 * 256);
    blocks[i].bytes = bytes;
    memset(blocks[i].data, 0, bytes);
    *address = (unsigned long long)(uintptr_t)blocks[i].data;
    return 0;
  }
  return 2;
}
static struct Block* block_of(unsigned long long address) {
  char* at = (char*)(uintptr_t)address;
  for (int i = 0; i < kMostBlocks; ++i) {
    if (blocks[i].data != NULL && at >= blocks[i].data && at <= blocks[i].data + blocks[i].bytes) return &blocks[i];
  }
  return NULL;
}
Result cuMemFreeAsync(unsigned long long address, void* stream) {
  (void)stream;
  struct Block* block = block_of(address);
  if (block == NULL || (uintptr_t)block->data != address) return 1;
  free(block->data);
  block->data = NULL;
  return 0;
}
Result cuPointerGetAttribute(void* value, int attribute, unsigned long long address) {
  (void)attribute;
  *(unsigned*)value = 2;
  return block_of(address) != NULL ? 0 : 1;
}
/* What is copied must lie in one block. */
static Result checked_copy(void* to, const void* from, unsigned long long on_device, size_t bytes) {
  struct Block* block = block_of(on_device);
  if (lost != 0) return lost;
  if (block == NULL || (char*)(uintptr_t)on_device + bytes > block->data + (block->bytes < 256 ? 256 : block->bytes)) return lost = 700;
  memcpy(to, from, bytes);
  return 0;
}
Result cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, void* stream) {
  return (void)stream, checked_copy((void*)(uintptr_t)to, from, to, bytes);
}
Result cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, void* stream) {
  return (void)stream, checked_copy(to, (const void*)(uintptr_t)from, from, bytes);
}
Result cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void* stream) {
  (void)stream;
  if (block_of(from) == NULL) return lost = 700;
  return checked_copy((void*)(uintptr_t)to, (const void*)(uintptr_t)from, to, bytes);
}
Result cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, void* stream) {
  (void)stream;
  if (block_of(to) == NULL) return lost = 700;
  memset((void*)(uintptr_t)to, value, bytes);
  return 0;
}
Result cuModuleLoadData(void** module, const void* image) {
  if (memcmp(image, kMagic, sizeof kMagic) != 0) return 200;
  return *module = (void*)(uintptr_t)image, 0;
}
Result cuFuncSetAttribute(void* function, int attribute, int value) { return (void)function, (void)attribute, (void)value, 0; }
Result cuTensorMapEncodeTiled(void* map, int dtype, unsigned rank, void* data, const uint64_t* sizes, const uint64_t* strides, const unsigned* box,
                              const unsigned* steps, int interleave, int swizzle, int promotion, int outside) {
  (void)dtype, (void)rank, (void)sizes, (void)strides, (void)box, (void)steps, (void)interleave, (void)swizzle, (void)promotion, (void)outside;
  memset(map, 0, 128);
  return block_of((unsigned long long)(uintptr_t)data) != NULL ? 0 : 1;
}
Result cuModuleUnload(void* module) { return (void)module, 0; }
Result cuModuleGetFunction(void** function, void* module, const char* name) {
  for (const char* each = (const char*)module + sizeof kMagic; *each != '\0'; each += strlen(each) + 1) {
    if (strcmp(each, name) == 0) return *function = module, 0;
  }
  return 500;
}
Result cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz, unsigned shared,
                      void* stream, void** arguments, void** extra) {
  (void)function, (void)y, (void)z, (void)ty, (void)tz, (void)shared, (void)stream, (void)arguments, (void)extra;
  if (x == 0 || threads == 0) return 1;
  if (is("fault")) lost = 700;
  return 0;
}
Result cuEventCreate(void** event, unsigned flags) { return (void)flags, *event = &lost, 0; }
Result cuEventDestroy_v2(void* event) { return (void)event, 0; }
Result cuEventRecord(void* event, void* stream) { return (void)event, (void)stream, lost; }
Result cuEventSynchronize(void* event) { return (void)event, lost; }
Result cuEventElapsedTime(float* milliseconds, void* from, void* to) { return (void)from, (void)to, *milliseconds = 1, 0; }

/* ---- NVRTC: the magic, then each kernel's name */

typedef struct Compilation {
  char* source;
  char* binary;
  size_t bytes;
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
Result nvrtcCompileProgram(Compilation* it, int count, const char* const* options) {
  (void)count, (void)options;
  it->binary = malloc(strlen(it->source) + sizeof kMagic + 1);
  memcpy(it->binary, kMagic, sizeof kMagic);
  it->bytes = sizeof kMagic;
  for (const char* at = it->source; (at = strstr(at, "\nKERNEL ")) != NULL; ++at) {
    const char* name = strchr(at, ')') + 2; /* behind the launch bounds */
    const size_t length = strcspn(name, "(");
    memcpy(it->binary + it->bytes, name, length);
    it->binary[it->bytes + length] = '\0';
    it->bytes += length + 1;
  }
  it->binary[it->bytes++] = '\0';
  return 0;
}
Result nvrtcGetProgramLogSize(Compilation* it, size_t* bytes) { return (void)it, *bytes = 1, 0; }
Result nvrtcGetProgramLog(Compilation* it, char* log) { return (void)it, *log = '\0', 0; }
Result nvrtcGetCUBINSize(Compilation* it, size_t* bytes) { return *bytes = it->bytes, 0; }
Result nvrtcGetCUBIN(Compilation* it, char* cubin) { return memcpy(cubin, it->binary, it->bytes), 0; }
