#include "runtime/cuda/driver_api.h"

#include <atomic>

#include "base/error.h"
#include "base/file/system_library.h"
#include "runtime/cuda/vendors/hip_driver.h"

namespace toroid::cuda {
namespace {

constexpr Result kOutOfMemory = 2, kNoDevice = 100, kInvalidDevice = 101;

// What a kernel or the device did that leaves the context unusable.
bool is_sticky(Result result) {
  switch (result) {
    case 214:               // an uncorrectable error of memory
    case 700:               // an illegal address
    case 702:               // a timeout
    case 710:               // an assertion
    case 714:               // the stack
    case 715:               // an illegal instruction
    case 716:               // a misaligned address
    case 717:               // an address of another space
    case 718:               // the program counter
    case 719: return true;  // a failure that is not told
    default: return false;
  }
}

std::atomic<Result> lost_by{0};
std::atomic<bool> was_asked_for{false};
constexpr int kUndecided = -1;
std::atomic<int> used{kUndecided};

struct Opened {
  Driver functions;
  std::optional<std::string> absence;
};

std::string text_of(const Driver& functions, Result result) {
  const char *name = nullptr, *text = nullptr;
  if (functions.get_error_name == nullptr || functions.get_error_name(result, &name) != 0 || name == nullptr)
    return formatted("error {}", result);
  if (functions.get_error_string(result, &text) != 0 || text == nullptr) return name;
  return formatted("{} ({})", name, text);
}

std::optional<std::string> open_nvidia(Driver& driver) {
  const SystemLibrary& library = nvidia_library();
  if (library.absence()) return library.absence();
  try {
    driver.look_up(library);
  } catch (const Error& error) {
    return formatted("the NVIDIA driver is too old: {}", error.message());
  }
  return std::nullopt;
}

Opened open(Vendor vendor) {
  was_asked_for = true;
  const bool is_amd = vendor == Vendor::Amd;
  Opened opened;
  opened.absence = is_amd ? open_hip(opened.functions) : open_nvidia(opened.functions);
  if (opened.absence) return opened;
  int count = 0;
  Result result = opened.functions.init(0);
  // Without a device HIP says so here, or that a device is invalid.
  if (result == 0) result = opened.functions.device_count(&count);
  const bool sees_none = result == kNoDevice || (is_amd && result == kInvalidDevice);
  if (result != 0 && !sees_none) {
    opened.absence = formatted("the {} does not start: {}", is_amd ? "library of HIP" : "NVIDIA driver", text_of(opened.functions, result));
  } else if (count == 0) {
    opened.absence = is_amd ? "no AMD GPU: HIP is there, and sees none" : "no NVIDIA GPU: the driver is there, and sees none";
  }
  return opened;
}

const Opened& opened(Vendor vendor) {
  if (vendor == Vendor::Amd) {
    static const Opened amd = open(Vendor::Amd);
    return amd;
  }
  static const Opened nvidia = open(Vendor::Nvidia);
  return nvidia;
}
const Opened& opened() { return opened(vendor()); }

}  // namespace

const SystemLibrary& nvidia_library() {
  static const SystemLibrary library("NVIDIA driver", "TOROID_CUDA_DRIVER", {"libcuda.so.1"});
  return library;
}

bool is_open() { return was_asked_for; }

std::optional<std::string> absence(Vendor vendor) { return opened(vendor).absence; }

void use(Vendor vendor) {
  int now = kUndecided;
  if (used.compare_exchange_strong(now, static_cast<int>(vendor)) || now == static_cast<int>(vendor)) return;
  throw Error(ErrorKind::InvalidOption, vendor == Vendor::Amd ? "this process uses NVIDIA's GPUs, and cannot use AMD's beside them"
                                                              : "this process uses AMD's GPUs, and cannot use NVIDIA's beside them")
      .help("run programs for GPUs of different vendors in different processes");
}

Vendor vendor() { return used.load() == static_cast<int>(Vendor::Amd) ? Vendor::Amd : Vendor::Nvidia; }

const Driver& driver() {
  if (used.load() == kUndecided) use(Vendor::Nvidia);
  if (opened().absence) {
    throw Error(ErrorKind::Environment, *opened().absence).help("run with '--device cpu', or where a GPU and its driver are");
  }
  return opened().functions;
}

void check(Result result, const char* what) {
  if (result == 0) return;
  const std::string text = text_of(opened().functions, result);
  const char* const context = vendor() == Vendor::Amd ? "HIP" : "CUDA";
  const Result before = is_sticky(result) ? lost_by.exchange(result) : lost_by.load();
  if (before != 0) {
    throw Error(ErrorKind::Environment,
                formatted("{} fails: the {} context is lost since {}", what, context, text_of(opened().functions, before)))
        .help("start the process again");
  }
  Error error(ErrorKind::Environment, formatted("{} fails: {}", what, text));
  if (is_sticky(result))
    error.help(formatted("a kernel did what it must not; the {} context is lost, and the process must be started again", context));
  if (result == kOutOfMemory) error.help("the GPU's memory is full: use smaller inputs, or end other programs on it");
  throw error;
}

}  // namespace toroid::cuda
