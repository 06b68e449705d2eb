#include "runtime/cuda/vendors/hip_driver.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include "base/affixes.h"
#include "base/error.h"
#include "base/file/system_library.h"
#include "base/machine/per_thread.h"

namespace toroid::cuda {
namespace {

using Pointer = void*;

// Those that Driver has too come first, with its types; behind them those that are called in another way.
// clang-format off
#define TOROID_HIP_SAME_FUNCTIONS(F)                                                                    \
  F(init, "hipInit", Result(unsigned))                                                                  \
  F(driver_version, "hipDriverGetVersion", Result(int*))                                                \
  F(device_count, "hipGetDeviceCount", Result(int*))                                                    \
  F(device_get, "hipDeviceGet", Result(DeviceNumber*, int))                                             \
  F(device_name, "hipDeviceGetName", Result(char*, int, DeviceNumber))                                  \
  F(device_bytes, "hipDeviceTotalMem", Result(size_t*, DeviceNumber))                                   \
  F(stream_create, "hipStreamCreateWithPriority", Result(StreamHandle*, unsigned, int))                 \
  F(stream_destroy, "hipStreamDestroy", Result(StreamHandle))                                           \
  F(stream_synchronize, "hipStreamSynchronize", Result(StreamHandle))                                   \
  F(stream_wait, "hipStreamWaitEvent", Result(StreamHandle, EventHandle, unsigned))                     \
  F(stream_is_capturing, "hipStreamIsCapturing", Result(StreamHandle, int*))                            \
  F(capture_begin, "hipStreamBeginCapture", Result(StreamHandle, int))                                  \
  F(capture_end, "hipStreamEndCapture", Result(StreamHandle, GraphHandle*))                             \
  F(graph_destroy, "hipGraphDestroy", Result(GraphHandle))                                              \
  F(graph_nodes, "hipGraphGetNodes", Result(GraphHandle, void**, size_t*))                              \
  F(graph_make, "hipGraphInstantiateWithFlags", Result(GraphExecHandle*, GraphHandle, unsigned long long)) \
  F(graph_launch, "hipGraphLaunch", Result(GraphExecHandle, StreamHandle))                              \
  F(graph_exec_destroy, "hipGraphExecDestroy", Result(GraphExecHandle))                                 \
  F(default_pool, "hipDeviceGetDefaultMemPool", Result(PoolHandle*, DeviceNumber))                      \
  F(pool_set, "hipMemPoolSetAttribute", Result(PoolHandle, int, void*))                                 \
  F(allocate, "hipMallocAsync", Result(Address*, size_t, StreamHandle))                                 \
  F(free, "hipFreeAsync", Result(Address, StreamHandle))                                                \
  F(copy_in, "hipMemcpyHtoDAsync", Result(Address, const void*, size_t, StreamHandle))                  \
  F(copy_out, "hipMemcpyDtoHAsync", Result(void*, Address, size_t, StreamHandle))                       \
  F(copy_within, "hipMemcpyDtoDAsync", Result(Address, Address, size_t, StreamHandle))                  \
  F(set_bytes, "hipMemsetD8Async", Result(Address, unsigned char, size_t, StreamHandle))                \
  F(allocate_host, "hipHostMalloc", Result(void**, size_t, unsigned))                                   \
  F(free_host, "hipHostFree", Result(void*))                                                            \
  F(module_load, "hipModuleLoadData", Result(ModuleHandle*, const void*))                               \
  F(module_unload, "hipModuleUnload", Result(ModuleHandle))                                             \
  F(module_function, "hipModuleGetFunction", Result(FunctionHandle*, ModuleHandle, const char*))        \
  F(event_create, "hipEventCreateWithFlags", Result(EventHandle*, unsigned))                            \
  F(event_destroy, "hipEventDestroy", Result(EventHandle))                                              \
  F(event_record, "hipEventRecord", Result(EventHandle, StreamHandle))                                  \
  F(event_synchronize, "hipEventSynchronize", Result(EventHandle))                                      \
  F(event_elapsed, "hipEventElapsedTime", Result(float*, EventHandle, EventHandle))
#define TOROID_HIP_OTHER_FUNCTIONS(F)                                                                   \
  F(error_name, "hipGetErrorName", const char*(Result))                                                 \
  F(error_string, "hipGetErrorString", const char*(Result))                                             \
  F(device_attribute, "hipDeviceGetAttribute", Result(int*, int, DeviceNumber))                         \
  F(get_device, "hipGetDevice", Result(int*))                                                           \
  F(set_device, "hipSetDevice", Result(int))                                                            \
  F(pointer_attribute, "hipPointerGetAttribute", Result(void*, int, Pointer))                           \
  F(graph_update, "hipGraphExecUpdate", Result(GraphExecHandle, GraphHandle, void**, int*))             \
  F(launch, "hipModuleLaunchKernel", Result(FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, StreamHandle, void**, void**))
// clang-format on

struct Same {
  TOROID_LIBRARY_FUNCTIONS(TOROID_HIP_SAME_FUNCTIONS)
};
struct Other {
  TOROID_LIBRARY_FUNCTIONS(TOROID_HIP_OTHER_FUNCTIONS)
  Result (*properties)(void*, int) = nullptr;  // hipGetDevicePropertiesR0600, from HIP 6 on, else hipGetDeviceProperties
  bool is_6 = false;
};
Other other;

constexpr Result kInvalidValue = 1, kNotFound = 500, kNotSupported = 801;

// ---- what is called in another way

Result error_name(Result result, const char** name) { return *name = other.error_name(result), 0; }
Result error_string(Result result, const char** text) { return *text = other.error_string(result), 0; }

// The place of gcnArchName in the properties, and their size; both have 256 bytes for it.
constexpr size_t kArchitecture6 = 1160, kArchitecture5 = 396, kRoom = 8192;

// 0x90a of "gfx90a:sramecc+:xnack-".
Result number_of_architecture(int* number, DeviceNumber device) {
  char properties[kRoom] = {};
  if (const Result failed = other.properties(properties, device)) return failed;
  const char* const text = properties + (other.is_6 ? kArchitecture6 : kArchitecture5);
  std::string_view name(text, strnlen(text, 256));
  name = name.substr(0, name.find(':'));
  if (!starts_with(name, "gfx")) return kNotFound;
  const auto [end, error] = std::from_chars(name.data() + 3, name.data() + name.size(), *number, 16);
  return error == std::errc() && end == name.data() + name.size() ? 0 : kNotFound;
}

// The compute capability is the number of the architecture: 10 * major + minor of it.
Result device_attribute(int* value, int which, DeviceNumber device) {
  constexpr int kL2 = 19, kComputeUnits = 63;
  switch (which) {
    case kComputeCapabilityMajor:
    case kComputeCapabilityMinor: {
      int number = 0;
      if (const Result failed = number_of_architecture(&number, device)) return failed;
      return *value = which == kComputeCapabilityMajor ? number / 10 : number % 10, 0;
    }
    case kMultiprocessors: return other.device_attribute(value, kComputeUnits, device);
    case kL2Bytes: return other.device_attribute(value, kL2, device);
    default: return kInvalidValue;
  }
}

// HIP has a current device in the place of contexts: the handle is its number and one, and that of a thread before is put back.
struct DevicesBefore {
  int numbers[16] = {};
  int depth = 0;
};
PerThread<DevicesBefore> devices_before;
Result context_retain(Context* context, DeviceNumber device) {
  return *context = reinterpret_cast<Context>(static_cast<intptr_t>(device) + 1), 0;
}
Result context_push(Context context) {
  DevicesBefore& before = devices_before.get();
  if (before.depth == static_cast<int>(std::size(before.numbers))) return kInvalidValue;
  if (const Result failed = other.get_device(&before.numbers[before.depth])) return failed;
  const Result failed = other.set_device(static_cast<int>(reinterpret_cast<intptr_t>(context) - 1));
  if (failed == 0) ++before.depth;
  return failed;
}
Result context_pop(Context* context) {
  DevicesBefore& before = devices_before.get();
  if (before.depth == 0) return kInvalidValue;
  int now = 0;
  other.get_device(&now);
  *context = reinterpret_cast<Context>(static_cast<intptr_t>(now) + 1);
  return other.set_device(before.numbers[--before.depth]);
}

Result pointer_attribute(void* value, int which, Address address) {
  const Result result = other.pointer_attribute(value, which, reinterpret_cast<Pointer>(address));
  constexpr unsigned kDeviceBefore6 = 1;
  if (result == 0 && which == kPointerMemoryType && !other.is_6)
    *static_cast<unsigned*>(value) = *static_cast<unsigned*>(value) == kDeviceBefore6 ? kDeviceMemory : 1;
  return result;
}

Result graph_update(GraphExecHandle made, GraphHandle graph, GraphUpdate* update) {
  return other.graph_update(made, graph, &update->node, &update->result);
}

// Blocks are started with all their threads told at once, of which there are fewer than 2^32.
Result launch(const LaunchConfiguration* how, FunctionHandle function, void** arguments, void** extra) {
  if (uint64_t{how->blocks[0]} * how->threads[0] >= uint64_t{1} << 32) return kInvalidValue;
  return other.launch(function, how->blocks[0], how->blocks[1], how->blocks[2], how->threads[0], how->threads[1], how->threads[2],
                      how->shared_bytes, how->stream, arguments, extra);
}
// A block may have all of a compute unit's local memory without being asked.
Result function_set(FunctionHandle, int, int) { return 0; }
Result no_tensor_maps_im2col(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const int*, const int*, unsigned, unsigned,
                             const unsigned*, int, int, int, int) {
  return kNotSupported;
}
Result no_tensor_maps(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const unsigned*, const unsigned*, int, int, int, int) {
  return kNotSupported;
}

}  // namespace

std::optional<std::string> open_hip(Driver& driver) {
  static const SystemLibrary library("ROCm", "TOROID_HIP", {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"});
  if (library.absence()) return library.absence();
  Same same;
  try {
    same.look_up(library);
    other.look_up(library);
    other.properties = reinterpret_cast<Result (*)(void*, int)>(library.find("hipGetDevicePropertiesR0600"));
    other.is_6 = other.properties != nullptr;
    if (!other.is_6) other.properties = library.function<Result(void*, int)>("hipGetDeviceProperties");
  } catch (const Error& error) {
    return formatted("HIP's library is too old: {}", error.message());
  }
#define TOROID_HIP_COPY(name, symbol, ...) driver.name = same.name;
  TOROID_HIP_SAME_FUNCTIONS(TOROID_HIP_COPY)
  driver.get_error_name = error_name;
  driver.get_error_string = error_string;
  driver.device_attribute = device_attribute;
  driver.context_retain = context_retain;
  driver.context_push = context_push;
  driver.context_pop = context_pop;
  driver.pointer_attribute = pointer_attribute;
  driver.graph_update = graph_update;
  driver.launch = launch;
  driver.function_set = function_set;
  driver.encode_im2col = no_tensor_maps_im2col;
  driver.encode_tiled = no_tensor_maps;
  return std::nullopt;
}

}  // namespace toroid::cuda
