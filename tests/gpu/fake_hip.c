/* AMD's HIP and hipBLASLt as far as toroid calls them, without a GPU: the calls of fake_gpu.c under other names, with HIP's numbers where
 * these differ. As a program (FAKE_CLANG) it is the compiler of code objects, which are then those of fake_gpu.c. TOROID_HIP,
 * TOROID_HIPBLASLT and TOROID_AMD_CLANG name them; FAKE_GPU says what goes wrong. */
#include "fake_gpu.c"

#ifndef FAKE_CLANG

/* ---- calls that are the same */
Result hipDriverGetVersion(int* version) { return *version = 60000000, 0; }
Result hipInit(unsigned flags) { return (void)flags, is("absent") ? 101 : 0; } /* as HIP 5 says it: an invalid device */
Result hipGetDeviceCount(int* count) { return cuDeviceGetCount(count); }
Result hipDeviceGet(int* device, int ordinal) { return cuDeviceGet(device, ordinal); }
Result hipDeviceGetName(char* name, int length, int device) { return cuDeviceGetName(name, length, device); }
Result hipDeviceTotalMem(size_t* bytes, int device) { return cuDeviceTotalMem_v2(bytes, device); }
Result hipStreamCreateWithPriority(Stream** stream, unsigned flags, int priority) {
  return cuStreamCreateWithPriority(stream, flags, priority);
}
Result hipStreamDestroy(Stream* stream) { return cuStreamDestroy_v2(stream); }
Result hipStreamSynchronize(Stream* stream) { return cuStreamSynchronize(stream); }
Result hipStreamWaitEvent(Stream* stream, void* event, unsigned flags) { return cuStreamWaitEvent(stream, event, flags); }
Result hipStreamIsCapturing(Stream* stream, int* status) { return cuStreamIsCapturing(stream, status); }
Result hipStreamBeginCapture(Stream* stream, int mode) { return cuStreamBeginCapture_v2(stream, mode); }
Result hipStreamEndCapture(Stream* stream, Graph** graph) { return cuStreamEndCapture(stream, graph); }
Result hipGraphDestroy(Graph* graph) { return cuGraphDestroy(graph); }
Result hipGraphGetNodes(Graph* graph, void** nodes, size_t* count) { return cuGraphGetNodes(graph, nodes, count); }
Result hipGraphInstantiateWithFlags(Graph** made, Graph* graph, unsigned long long flags) {
  return cuGraphInstantiateWithFlags(made, graph, flags);
}
Result hipGraphLaunch(Graph* made, Stream* stream) { return cuGraphLaunch(made, stream); }
Result hipGraphExecDestroy(Graph* made) { return cuGraphExecDestroy(made); }
Result hipDeviceGetDefaultMemPool(void** pool, int device) { return cuDeviceGetDefaultMemPool(pool, device); }
Result hipMemPoolSetAttribute(void* pool, int attribute, void* value) { return cuMemPoolSetAttribute(pool, attribute, value); }
Result hipMallocAsync(unsigned long long* address, size_t bytes, Stream* stream) { return cuMemAllocAsync(address, bytes, stream); }
Result hipFreeAsync(unsigned long long address, Stream* stream) { return cuMemFreeAsync(address, stream); }
Result hipMemcpyHtoDAsync(unsigned long long to, const void* from, size_t bytes, Stream* stream) {
  return cuMemcpyHtoDAsync_v2(to, from, bytes, stream);
}
Result hipMemcpyDtoHAsync(void* to, unsigned long long from, size_t bytes, Stream* stream) {
  return cuMemcpyDtoHAsync_v2(to, from, bytes, stream);
}
Result hipMemcpyDtoDAsync(unsigned long long to, unsigned long long from, size_t bytes, Stream* stream) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}
Result hipMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, Stream* stream) {
  return cuMemsetD8Async(to, value, bytes, stream);
}
Result hipHostMalloc(void** data, size_t bytes, unsigned flags) { return cuMemHostAlloc(data, bytes, flags); }
Result hipHostFree(void* data) { return cuMemFreeHost(data); }
Result hipModuleLoadData(void** module, const void* image) { return cuModuleLoadData(module, image); }
Result hipModuleUnload(void* module) { return cuModuleUnload(module); }
Result hipModuleGetFunction(void** function, void* module, const char* name) { return cuModuleGetFunction(function, module, name); }
Result hipEventCreateWithFlags(Event** event, unsigned flags) { return cuEventCreate(event, flags); }
Result hipEventDestroy(Event* event) { return cuEventDestroy_v2(event); }
Result hipEventRecord(Event* event, Stream* stream) { return cuEventRecord(event, stream); }
Result hipEventSynchronize(Event* event) { return cuEventSynchronize(event); }
Result hipEventElapsedTime(float* milliseconds, Event* from, Event* to) { return cuEventElapsedTime(milliseconds, from, to); }

/* ---- others */
const char* hipGetErrorName(Result result) {
  return result == 2 ? "hipErrorOutOfMemory" : result == 700 ? "hipErrorIllegalAddress" : "hipErrorUnknown";
}
const char* hipGetErrorString(Result result) { return result == 2 ? "out of memory" : "something went wrong"; }
Result hipDeviceGetAttribute(int* value, int attribute, int device) {
  return (void)device, *value = attribute == 63 ? 110 : attribute == 19 ? 8 << 20 : -1, 0;
}
Result hipGetDevicePropertiesR0600(char* properties, int device) {
  return (void)device, strcpy(properties + 1160, "gfx90a:sramecc+:xnack-"), 0;
}
Result hipGetDevice(int* device) { return *device = num_contexts > 0 ? current_device() : 0, 0; }
Result hipSetDevice(int device) {
  num_contexts = 1;
  return contexts[0] = device + 1, 0;
}
Result hipPointerGetAttribute(void* value, int attribute, void* address) {
  return cuPointerGetAttribute(value, attribute, (unsigned long long)(uintptr_t)address);
}
Result hipGraphExecUpdate(Graph* made, Graph* graph, void** node, int* result) {
  return (void)node, (void)result, cuGraphExecUpdate_v2(made, graph, NULL);
}
Result hipModuleLaunchKernel(char* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned b, unsigned c, unsigned shared,
                             Stream* stream, void** arguments, void** extra) {
  const Configuration how = {{x, y, z}, {threads, b, c}, shared, stream, NULL, 0};
  return cuLaunchKernelEx(&how, function, arguments, extra);
}

/* ---- hipBLASLt: operations, attributes and kinds of sums have other numbers, and results of the heuristic are shorter */
typedef struct HipSuggestion {
  uint64_t algorithm[3];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} HipSuggestion;
Result hipblasLtCreate(void** handle) { return cublasLtCreate(handle); }
Result hipblasLtDestroy(void* handle) { return cublasLtDestroy(handle); }
Result hipblasLtMatmulDescCreate(void** made, int compute, int scale) {
  return compute == 2 || compute == 7 || compute == 9 ? cublasLtMatmulDescCreate(made, compute, scale) : 3;
}
Result hipblasLtMatmulDescDestroy(void* it) { return cublasLtMatmulDescDestroy(it); }
Result hipblasLtMatmulDescSetAttribute(void* it, int which, const void* value, size_t bytes) {
  const int32_t operation = *(const int32_t*)value;
  if (which > 1 || (operation != 111 && operation != 112)) return 3;
  return cublasLtMatmulDescSetAttribute(it, which, value, bytes);
}
Result hipblasLtMatrixLayoutCreate(void** made, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  return cublasLtMatrixLayoutCreate(made, type, rows, columns, leading);
}
Result hipblasLtMatrixLayoutDestroy(void* it) { return cublasLtMatrixLayoutDestroy(it); }
Result hipblasLtMatrixLayoutSetAttribute(void* it, int which, const void* value, size_t bytes) {
  if (which != (bytes == 4 ? 0 : 1)) return 3;
  return cublasLtMatrixLayoutSetAttribute(it, which, value, bytes);
}
Result hipblasLtMatmulPreferenceCreate(void** made) { return cublasLtMatmulPreferenceCreate(made); }
Result hipblasLtMatmulPreferenceDestroy(void* it) { return cublasLtMatmulPreferenceDestroy(it); }
Result hipblasLtMatmulPreferenceSetAttribute(void* it, int which, const void* value, size_t bytes) {
  return cublasLtMatmulPreferenceSetAttribute(it, which, value, bytes);
}
Result hipblasLtMatmulAlgoGetHeuristic(void* handle, void* matmul, void* a, void* b, void* c, void* d, void* preference, int most,
                                       HipSuggestion* suggestions, int* found) {
  Suggestion its[8];
  const Result result = cublasLtMatmulAlgoGetHeuristic(handle, matmul, a, b, c, d, preference, most < 8 ? most : 8, its, found);
  for (int i = 0; i < *found; ++i) suggestions[i] = (HipSuggestion){.algorithm = {its[i].algorithm[0]}};
  return result;
}
Result hipblasLtMatmul(void* handle, void* matmul, const void* alpha, void* a, void* a_layout, void* b, void* b_layout, const void* beta,
                       const void* c, void* c_layout, void* d, void* d_layout, const uint64_t* algorithm, void* workspace, size_t bytes,
                       Stream* stream) {
  return cublasLtMatmul(handle, matmul, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm, workspace, bytes,
                        stream);
}

#else

/* clang: "--version", or a text from the standard input to the file behind "-o". */
int main(int count, char** arguments) {
  static char source[1 << 24];
  const char* to = NULL;
  for (int i = 1; i < count; ++i) {
    if (strcmp(arguments[i], "--version") == 0) return puts("fake clang version 19.0.0"), 0;
    if (strcmp(arguments[i], "-o") == 0 && i + 1 < count) to = arguments[i + 1];
    if (strcmp(arguments[i], "--offload-arch=gfx1250") == 0)
      return fputs("clang: error: unsupported HIP gpu architecture: gfx1250\n", stderr), 1;
  }
  if (to == NULL) return 1;
  source[fread(source, 1, sizeof source - 1, stdin)] = '\0';
  Compilation* it = NULL;
  nvrtcCreateProgram(&it, source, "", 0, NULL, NULL);
  nvrtcCompileProgram(it, 0, NULL);
  FILE* file = fopen(to, "wb");
  if (file == NULL || fwrite(it->binary, 1, it->bytes, file) != it->bytes || fclose(file) != 0) return 1;
  fputs("<stdin>:1:1: remark: Function Name: a_kernel [-Rpass-analysis=kernel-resource-usage]\n"
        "<stdin>:1:1: remark:     VGPRs: 12 [-Rpass-analysis=kernel-resource-usage]\n",
        stderr);
  return 0;
}

#endif
