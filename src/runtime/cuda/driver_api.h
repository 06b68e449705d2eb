// The functions of a GPU's driver that toroid calls, with its own declarations: no header of CUDA or HIP is needed to build, and one binary
// serves machines with a GPU and without.
//
// NVIDIA's driver is libcuda.so.1; TOROID_CUDA_DRIVER in the environment names another one. AMD's fills the same table
// (vendors/hip_driver.h). A process uses GPUs of one vendor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/file/system_library.h"

namespace toroid::cuda {

using Result = int;  // 0: success
using DeviceNumber = int;
using Address = unsigned long long;  // in a device's memory
using Context = struct ContextOpaque*;
using StreamHandle = struct StreamOpaque*;
using ModuleHandle = struct ModuleOpaque*;
using FunctionHandle = struct FunctionOpaque*;
using PoolHandle = struct PoolOpaque*;
using EventHandle = struct EventOpaque*;
using GraphHandle = struct GraphOpaque*;
using GraphExecHandle = struct GraphExecOpaque*;

// Of an update of a graph that failed; nobody asks what it says.
struct GraphUpdate {
  int result;
  void *node, *from_node;
};

// Of a launch. An attribute's value has 64 bytes.
struct alignas(8) LaunchAttribute {
  int which, padding, value[16];
};
struct LaunchConfiguration {
  unsigned blocks[3], threads[3], shared_bytes;
  StreamHandle stream;
  const LaunchAttribute* attributes;
  unsigned num_attributes;
};
inline constexpr int kProgrammaticStreamSerialization = 6;

// clang-format off
#define TOROID_CUDA_DRIVER_FUNCTIONS(F)                                                                  \
  F(get_error_name, "cuGetErrorName", Result(Result, const char**))                                      \
  F(get_error_string, "cuGetErrorString", Result(Result, const char**))                                  \
  F(init, "cuInit", Result(unsigned))                                                                    \
  F(driver_version, "cuDriverGetVersion", Result(int*))                                                  \
  F(device_count, "cuDeviceGetCount", Result(int*))                                                      \
  F(device_get, "cuDeviceGet", Result(DeviceNumber*, int))                                               \
  F(device_name, "cuDeviceGetName", Result(char*, int, DeviceNumber))                                    \
  F(device_attribute, "cuDeviceGetAttribute", Result(int*, int, DeviceNumber))                           \
  F(device_bytes, "cuDeviceTotalMem_v2", Result(size_t*, DeviceNumber))                                  \
  F(context_retain, "cuDevicePrimaryCtxRetain", Result(Context*, DeviceNumber))                          \
  F(context_push, "cuCtxPushCurrent_v2", Result(Context))                                                \
  F(context_pop, "cuCtxPopCurrent_v2", Result(Context*))                                                 \
  F(stream_create, "cuStreamCreateWithPriority", Result(StreamHandle*, unsigned, int))                   \
  F(stream_destroy, "cuStreamDestroy_v2", Result(StreamHandle))                                          \
  F(stream_synchronize, "cuStreamSynchronize", Result(StreamHandle))                                     \
  F(stream_wait, "cuStreamWaitEvent", Result(StreamHandle, EventHandle, unsigned))                       \
  F(stream_is_capturing, "cuStreamIsCapturing", Result(StreamHandle, int*))                              \
  F(capture_begin, "cuStreamBeginCapture_v2", Result(StreamHandle, int))                                 \
  F(capture_end, "cuStreamEndCapture", Result(StreamHandle, GraphHandle*))                               \
  F(graph_destroy, "cuGraphDestroy", Result(GraphHandle))                                                \
  F(graph_nodes, "cuGraphGetNodes", Result(GraphHandle, void**, size_t*))                                \
  F(graph_make, "cuGraphInstantiateWithFlags", Result(GraphExecHandle*, GraphHandle, unsigned long long)) \
  F(graph_update, "cuGraphExecUpdate_v2", Result(GraphExecHandle, GraphHandle, GraphUpdate*))            \
  F(graph_launch, "cuGraphLaunch", Result(GraphExecHandle, StreamHandle))                                \
  F(graph_exec_destroy, "cuGraphExecDestroy", Result(GraphExecHandle))                                   \
  F(default_pool, "cuDeviceGetDefaultMemPool", Result(PoolHandle*, DeviceNumber))                        \
  F(pool_set, "cuMemPoolSetAttribute", Result(PoolHandle, int, void*))                                   \
  F(allocate, "cuMemAllocAsync", Result(Address*, size_t, StreamHandle))                                 \
  F(free, "cuMemFreeAsync", Result(Address, StreamHandle))                                               \
  F(copy_in, "cuMemcpyHtoDAsync_v2", Result(Address, const void*, size_t, StreamHandle))                 \
  F(copy_out, "cuMemcpyDtoHAsync_v2", Result(void*, Address, size_t, StreamHandle))                      \
  F(copy_within, "cuMemcpyDtoDAsync_v2", Result(Address, Address, size_t, StreamHandle))                 \
  F(set_bytes, "cuMemsetD8Async", Result(Address, unsigned char, size_t, StreamHandle))                  \
  F(allocate_host, "cuMemHostAlloc", Result(void**, size_t, unsigned))                                   \
  F(free_host, "cuMemFreeHost", Result(void*))                                                           \
  F(pointer_attribute, "cuPointerGetAttribute", Result(void*, int, Address))                             \
  F(module_load, "cuModuleLoadData", Result(ModuleHandle*, const void*))                                 \
  F(module_unload, "cuModuleUnload", Result(ModuleHandle))                                               \
  F(module_function, "cuModuleGetFunction", Result(FunctionHandle*, ModuleHandle, const char*))          \
  F(launch, "cuLaunchKernelEx", Result(const LaunchConfiguration*, FunctionHandle, void**, void**))        \
  F(function_set, "cuFuncSetAttribute", Result(FunctionHandle, int, int))                                \
  F(encode_im2col, "cuTensorMapEncodeIm2col", Result(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const int*, const int*, unsigned, unsigned, const unsigned*, int, int, int, int)) \
  F(encode_tiled, "cuTensorMapEncodeTiled", Result(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const unsigned*, const unsigned*, int, int, int, int)) \
  F(event_create, "cuEventCreate", Result(EventHandle*, unsigned))                                       \
  F(event_destroy, "cuEventDestroy_v2", Result(EventHandle))                                             \
  F(event_record, "cuEventRecord", Result(EventHandle, StreamHandle))                                    \
  F(event_synchronize, "cuEventSynchronize", Result(EventHandle))                                        \
  F(event_elapsed, "cuEventElapsedTime", Result(float*, EventHandle, EventHandle))
// clang-format on

struct Driver {
  TOROID_LIBRARY_FUNCTIONS(TOROID_CUDA_DRIVER_FUNCTIONS)
};

// Attributes that are asked for.
inline constexpr int kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76, kMultiprocessors = 16, kL2Bytes = 38;
inline constexpr int kReleaseThreshold = 4, kMostDynamicShared = 8;
inline constexpr int kPointerMemoryType = 2, kPointerDevice = 9, kPointerRangeStart = 11, kPointerRangeBytes = 12, kDeviceMemory = 2;

enum class Vendor : uint8_t { Nvidia, Amd };
// Whose GPUs this process uses; before the first of what follows, which else uses NVIDIA's. Throws Error{InvalidOption} where it uses
// others already.
void use(Vendor vendor);
Vendor vendor();
// Why programs cannot run on a GPU here: "no NVIDIA driver: libcuda.so.1 cannot be opened", "no NVIDIA GPU: …"; none when they can.
std::optional<std::string> absence(Vendor vendor);
inline std::optional<std::string> absence() { return absence(vendor()); }
// Has anybody asked for it?
bool is_open();
// Throws Error{Environment} with absence().
const Driver& driver();

// Where functions of NVIDIA's driver are that not every version has, nor AMD's.
const SystemLibrary& nvidia_library();

// Throws Error{Environment} unless it succeeded: what was done, and the driver's name and text of the result. After a fault of a kernel
// nothing succeeds any more in this process, and each error says so.
void check(Result result, const char* what);

}  // namespace toroid::cuda
