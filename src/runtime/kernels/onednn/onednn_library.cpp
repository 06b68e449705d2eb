#include "runtime/kernels/onednn/onednn_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "base/machine/machine.h"
#include "runtime/kernels/onednn/onednn.h"

namespace toroid {

#if TOROID_HAS_ONEDNN
namespace onednn {
namespace {

#define TOROID_STRING_OF(x) #x
#define TOROID_STRING(x) TOROID_STRING_OF(x)
constexpr const char* kLibrary = "libdnnl.so." TOROID_STRING(DNNL_VERSION_MAJOR);

// The functions, or why there are none.
struct Opened {
  Functions functions;
  dnnl_engine_t engine = nullptr;
  std::optional<std::string> absence;
};

// The largest of oneDNN's sets that lies in `isa`.
dnnl_cpu_isa_t most_of(const Isa& isa) {
  if (isa.level == IsaLevel::Baseline) return dnnl_cpu_isa_sse41;
  if (isa.level == IsaLevel::Avx2) return dnnl_cpu_isa_avx2;
  if (!isa.vnni) return dnnl_cpu_isa_avx512_core;
  if (!isa.bf16) return dnnl_cpu_isa_avx512_core_vnni;
  return isa.amx ? dnnl_cpu_isa_avx512_core_amx : dnnl_cpu_isa_avx512_core_bf16;
}

Opened open() {
  Opened opened;
  auto absent = [&](std::string why) {
    opened.absence = std::move(why);
    return opened;
  };
  const char* const wanted = std::getenv("TOROID_ONEDNN");
  if (wanted != nullptr && std::string_view(wanted) == "0") return absent("TOROID_ONEDNN=0 leaves it closed");
  const char* const name = wanted != nullptr && *wanted != '\0' ? wanted : kLibrary;
  void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);  // never closed: OpenMP's threads may be in it
  if (library == nullptr) {
    const std::string_view reason = ::dlerror();
    return absent(reason.find("No such file") != reason.npos ? formatted("{}: not found", name) : std::string(reason));
  }
  std::string_view missing;
  auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
    if (function == nullptr) missing = symbol;
  };
#define TOROID_FIND(function) find(opened.functions.function, "dnnl_" #function);
  TOROID_ONEDNN_FUNCTIONS(TOROID_FIND)
  TOROID_ONEDNN_FUNCTIONS_OF_VERSION(TOROID_FIND)
#undef TOROID_FIND
  if (!missing.empty()) return absent(formatted("{} has no {}", name, missing));
  const dnnl_version_t& version = *opened.functions.version();
  if (version.major != DNNL_VERSION_MAJOR) return absent(formatted("{} is version {}, not {}", name, version.major, DNNL_VERSION_MAJOR));
  if (version.cpu_runtime == DNNL_RUNTIME_OMP) {
    find(opened.functions.set_threads, "omp_set_num_threads");
    find(opened.functions.most_threads, "omp_get_max_threads");
  } else if (version.cpu_runtime != DNNL_RUNTIME_SEQ) {
    return absent(formatted("{} runs neither on OpenMP nor on one thread, so it cannot be told how many threads to take", name));
  }
  if (!missing.empty()) return absent(formatted("{} has no {}", name, missing));
  if (machine().isa != reported_isa()) opened.functions.set_max_cpu_isa(most_of(machine().isa));
  if (opened.functions.engine_create(&opened.engine, dnnl_cpu, 0) != dnnl_success) return absent(formatted("{} does not start", name));
  return opened;
}

const Opened& opened() {
  static const Opened opened = open();
  return opened;
}

class Attributes {
 public:
  Attributes() {
    check(functions().primitive_attr_create(&attributes_), "attributes");
    check(functions().primitive_attr_set_scratchpad_mode(attributes_, dnnl_scratchpad_mode_user), "scratch memory of the caller's");
  }
  ~Attributes() { functions().primitive_attr_destroy(attributes_); }
  dnnl_primitive_attr_t get() const { return attributes_; }

 private:
  dnnl_primitive_attr_t attributes_ = nullptr;
};

}  // namespace

const Functions& functions() {
  if (const auto& absence = opened().absence) {
    throw Error(ErrorKind::Environment, formatted("oneDNN was chosen, but it cannot be used: {}", *absence))
        .help(
            "install the package libdnnl2 (libdnnl3 on Ubuntu), or compile the program again where oneDNN is not found; docs/tuning.md has "
            "more");
  }
  return opened().functions;
}

dnnl_engine_t engine() { return opened().engine; }

void check(dnnl_status_t status, const char* what) {
  if (status == dnnl_success) return;
  throw Error(status == dnnl_out_of_memory ? ErrorKind::Environment : ErrorKind::Unsupported,
              formatted("oneDNN has no {} for this problem (status {})", what, static_cast<int>(status)));
}

#if DNNL_VERSION_MAJOR >= 3

MemoryDesc::MemoryDesc(dnnl_data_type_t type, Span<const int64_t> sizes, Span<const int64_t> strides) {
  const int rank = static_cast<int>(sizes.size());
  check(strides.empty() ? functions().memory_desc_create_with_tag(&desc_, rank, sizes.data(), type, dnnl_format_tag_any)
                        : functions().memory_desc_create_with_strides(&desc_, rank, sizes.data(), type, strides.data()),
        "layout");
}
MemoryDesc::~MemoryDesc() { functions().memory_desc_destroy(desc_); }
DescPointer MemoryDesc::get() const { return desc_; }

Owned<dnnl_primitive_desc_t> describe_matmul(DescPointer a, DescPointer b, DescPointer c) {
  const Attributes attributes;
  dnnl_primitive_desc_t desc = nullptr;
  check(functions().matmul_primitive_desc_create(&desc, engine(), a, b, nullptr, c, attributes.get()), "matrix product");
  return Owned<dnnl_primitive_desc_t>(desc);
}

Owned<dnnl_primitive_desc_t> describe_convolution(DescPointer x, DescPointer w, DescPointer y, const Windows& windows) {
  const Attributes attributes;
  dnnl_primitive_desc_t desc = nullptr;
  check(functions().convolution_forward_primitive_desc_create(
            &desc, engine(), dnnl_forward_inference, dnnl_convolution_direct, x, w, nullptr, y, windows.strides.data(),
            windows.dilations.data(), windows.padding_before.data(), windows.padding_after.data(), attributes.get()),
        "convolution");
  return Owned<dnnl_primitive_desc_t>(desc);
}

#else

MemoryDesc::MemoryDesc(dnnl_data_type_t type, Span<const int64_t> sizes, Span<const int64_t> strides) {
  const int rank = static_cast<int>(sizes.size());
  check(strides.empty() ? functions().memory_desc_init_by_tag(&desc_, rank, sizes.data(), type, dnnl_format_tag_any)
                        : functions().memory_desc_init_by_strides(&desc_, rank, sizes.data(), type, strides.data()),
        "layout");
}
MemoryDesc::~MemoryDesc() = default;
DescPointer MemoryDesc::get() const { return &desc_; }

Owned<dnnl_primitive_desc_t> describe_matmul(DescPointer a, DescPointer b, DescPointer c) {
  const Attributes attributes;
  dnnl_matmul_desc_t operation;
  check(functions().matmul_desc_init(&operation, a, b, nullptr, c), "matrix product");
  dnnl_primitive_desc_t desc = nullptr;
  check(functions().primitive_desc_create(&desc, &operation, attributes.get(), engine(), nullptr), "matrix product");
  return Owned<dnnl_primitive_desc_t>(desc);
}

Owned<dnnl_primitive_desc_t> describe_convolution(DescPointer x, DescPointer w, DescPointer y, const Windows& windows) {
  const Attributes attributes;
  dnnl_convolution_desc_t operation;
  check(functions().dilated_convolution_forward_desc_init(&operation, dnnl_forward_inference, dnnl_convolution_direct, x, w, nullptr, y,
                                                          windows.strides.data(), windows.dilations.data(), windows.padding_before.data(),
                                                          windows.padding_after.data()),
        "convolution");
  dnnl_primitive_desc_t desc = nullptr;
  check(functions().primitive_desc_create(&desc, &operation, attributes.get(), engine(), nullptr), "convolution");
  return Owned<dnnl_primitive_desc_t>(desc);
}

#endif

Owned<dnnl_primitive_desc_t> describe_reorder(DescPointer from, DescPointer to) {
  dnnl_primitive_desc_t desc = nullptr;
  check(functions().reorder_primitive_desc_create(&desc, from, engine(), to, engine(), nullptr), "copy into its own layout");
  return Owned<dnnl_primitive_desc_t>(desc);
}

DescPointer layout(const Owned<dnnl_primitive_desc_t>& desc, dnnl_query_t what) {
  return functions().primitive_desc_query_md(desc.get(), what, 0);
}

OneThread::OneThread() {
  if (functions().set_threads == nullptr) return;
  before_ = functions().most_threads();
  functions().set_threads(1);
}
OneThread::~OneThread() {
  if (before_ > 0) functions().set_threads(before_);
}

}  // namespace onednn

std::optional<std::string> onednn_absence() { return onednn::opened().absence; }

#else

std::optional<std::string> onednn_absence() { return "built without oneDNN"; }

#endif

}  // namespace toroid
