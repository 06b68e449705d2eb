#include "runtime/cuda/cudnn/api.h"

#include "base/error.h"

namespace toroid::cuda::cudnn {
namespace {

const SystemLibrary& library() {
  static const SystemLibrary opened("cuDNN", "TOROID_CUDNN", {"libcudnn.so.9"});
  return opened;
}

struct OpenedCudnn {
  Functions functions;
  std::optional<std::string> absence;  // why there are none
};

OpenedCudnn open_cudnn() {
  OpenedCudnn opened{{}, library().absence()};
  if (opened.absence) return opened;
  try {
    opened.functions.look_up(library());
    // Another major version has other attributes.
    constexpr size_t kMajor = 9, kOfMajor = 10000;
    if (const size_t found = opened.functions.version(); found / kOfMajor != kMajor)
      opened.absence = formatted("no cuDNN: {} is version {}, and {} is needed", library().name(), found / kOfMajor, kMajor);
  } catch (const Error& error) {
    opened.absence = error.message();
  }
  return opened;
}

const OpenedCudnn& opened_cudnn() {
  static const OpenedCudnn result = open_cudnn();
  return result;
}

}  // namespace

const std::optional<std::string>& absence() { return opened_cudnn().absence; }

const Functions& functions() {
  if (absence())
    throw Error(ErrorKind::Environment, *absence())
        .help("install NVIDIA's cuDNN 9, as PyTorch's package nvidia-cudnn has it, or name the file in TOROID_CUDNN");
  return opened_cudnn().functions;
}

std::string version() {
  const size_t number = functions().version();
  return formatted("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace toroid::cuda::cudnn
