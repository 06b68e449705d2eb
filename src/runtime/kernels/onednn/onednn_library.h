// oneDNN, opened by name when it is first asked for: it is large, and toroid works without it.
//
// The C API of versions 2 and 3, whose headers tell which library is opened: libdnnl.so.2 or libdnnl.so.3. What differs between them stays
// in this file and onednn_library.cpp. TOROID_ONEDNN=0 in the environment leaves it closed; any other value is the path of the library.
#pragma once

#if __has_include(<oneapi/dnnl/dnnl.h>)
#define TOROID_HAS_ONEDNN 1
#include <oneapi/dnnl/dnnl.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/span.h"

namespace toroid::onednn {

// clang-format off
#define TOROID_ONEDNN_FUNCTIONS(F)                                                                                                          \
  F(version) F(engine_create) F(stream_create) F(stream_destroy) F(stream_wait) F(memory_create) F(memory_destroy) F(memory_desc_get_size)   \
  F(memory_desc_equal) F(primitive_attr_create) F(primitive_attr_destroy) F(primitive_attr_set_scratchpad_mode) F(primitive_desc_destroy)    \
  F(primitive_desc_query_md) F(primitive_create) F(primitive_destroy) F(primitive_execute) F(reorder_primitive_desc_create)    \
  F(set_max_cpu_isa)
#if DNNL_VERSION_MAJOR >= 3
#define TOROID_ONEDNN_FUNCTIONS_OF_VERSION(F)                                                                    \
  F(memory_desc_create_with_strides) F(memory_desc_create_with_tag) F(memory_desc_destroy) F(matmul_primitive_desc_create) \
  F(convolution_forward_primitive_desc_create)
#else
#define TOROID_ONEDNN_FUNCTIONS_OF_VERSION(F)                                                               \
  F(memory_desc_init_by_strides) F(memory_desc_init_by_tag) F(primitive_desc_create) F(matmul_desc_init) F(dilated_convolution_forward_desc_init)
#endif
// clang-format on

struct Functions {
#define TOROID_ONEDNN_FUNCTION(name) decltype(&::dnnl_##name) name = nullptr;
  TOROID_ONEDNN_FUNCTIONS(TOROID_ONEDNN_FUNCTION)
  TOROID_ONEDNN_FUNCTIONS_OF_VERSION(TOROID_ONEDNN_FUNCTION)
#undef TOROID_ONEDNN_FUNCTION
  // OpenMP's, where it runs on OpenMP.
  void (*set_threads)(int) = nullptr;
  int (*most_threads)() = nullptr;
};

// Throws Error{Environment} with onednn_absence().
const Functions& functions();
dnnl_engine_t engine();
// Throws Error{Unsupported} that names what oneDNN would not do.
void check(dnnl_status_t status, const char* what);

struct Destroy {
  void operator()(dnnl_memory_t memory) const { functions().memory_destroy(memory); }
  void operator()(dnnl_stream_t stream) const { functions().stream_destroy(stream); }
  void operator()(dnnl_primitive_t primitive) const { functions().primitive_destroy(primitive); }
  void operator()(dnnl_primitive_desc_t desc) const { functions().primitive_desc_destroy(desc); }
};
template <class T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, Destroy>;

#if DNNL_VERSION_MAJOR >= 3
using DescPointer = const_dnnl_memory_desc_t;
#else
using DescPointer = const dnnl_memory_desc_t*;
#endif

// Where the elements of an operand lie.
class MemoryDesc {
 public:
  // No strides: as oneDNN likes them.
  MemoryDesc(dnnl_data_type_t type, Span<const int64_t> sizes, Span<const int64_t> strides);
  MemoryDesc(const MemoryDesc&) = delete;
  MemoryDesc& operator=(const MemoryDesc&) = delete;
  ~MemoryDesc();
  DescPointer get() const;

 private:
  dnnl_memory_desc_t desc_;
};

// Scratch memory is the caller's.
Owned<dnnl_primitive_desc_t> describe_matmul(DescPointer a, DescPointer b, DescPointer c);
struct Windows {
  std::vector<int64_t> strides, dilations, padding_before, padding_after;
};
Owned<dnnl_primitive_desc_t> describe_convolution(DescPointer x, DescPointer w, DescPointer y, const Windows& windows);
Owned<dnnl_primitive_desc_t> describe_reorder(DescPointer from, DescPointer to);
DescPointer layout(const Owned<dnnl_primitive_desc_t>& desc, dnnl_query_t what);

// While alive, oneDNN takes this thread alone for what this thread asks of it.
class OneThread {
 public:
  OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread();

 private:
  int before_ = 0;
};

}  // namespace toroid::onednn
#else
#define TOROID_HAS_ONEDNN 0
#endif
