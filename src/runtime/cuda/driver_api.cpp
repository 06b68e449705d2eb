#include "runtime/cuda/driver_api.h"

#include <atomic>

#include "base/error.h"
#include "base/file/system_library.h"

namespace toroid::cuda {
namespace {

constexpr Result kOutOfMemory = 2, kNoDevice = 100;

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

Opened open() {
  was_asked_for = true;
  static const SystemLibrary library("NVIDIA driver", "TOROID_CUDA_DRIVER", {"libcuda.so.1"});
  Opened opened;
  opened.absence = library.absence();
  if (opened.absence) return opened;
  try {
    opened.functions.look_up(library);
  } catch (const Error& error) {
    opened.absence = formatted("the NVIDIA driver is too old: {}", error.message());
    return opened;
  }
  int count = 0;
  Result result = opened.functions.init(0);
  if (result == 0) result = opened.functions.device_count(&count);
  if (result != 0 && result != kNoDevice) {
    opened.absence = formatted("the NVIDIA driver does not start: {}", text_of(opened.functions, result));
  } else if (count == 0) {
    opened.absence = "no NVIDIA GPU: the driver is there, and sees none";
  }
  return opened;
}

const Opened& opened() {
  static const Opened result = open();
  return result;
}

}  // namespace

bool is_open() { return was_asked_for; }

std::optional<std::string> absence() { return opened().absence; }

const Driver& driver() {
  if (opened().absence) {
    throw Error(ErrorKind::Environment, *opened().absence).help("run with '--device cpu', or where a GPU and its driver are");
  }
  return opened().functions;
}

void check(Result result, const char* what) {
  if (result == 0) return;
  const std::string text = text_of(opened().functions, result);
  const Result before = is_sticky(result) ? lost_by.exchange(result) : lost_by.load();
  if (before != 0) {
    throw Error(ErrorKind::Environment, formatted("{} fails: the CUDA context is lost since {}", what, text_of(opened().functions, before)))
        .help("start the process again");
  }
  Error error(ErrorKind::Environment, formatted("{} fails: {}", what, text));
  if (is_sticky(result)) error.help("a kernel did what it must not; the CUDA context is lost, and the process must be started again");
  if (result == kOutOfMemory) error.help("the GPU's memory is full: use smaller inputs, or end other programs on it");
  throw error;
}

}  // namespace toroid::cuda
