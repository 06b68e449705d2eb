#include "runtime/cuda/cudnn/api.h"

#include "base/error.h"

namespace toroid::cuda::cudnn {
namespace {

const SystemLibrary& library() {
  static const SystemLibrary opened("cuDNN", "TOROID_CUDNN", {"libcudnn.so.9"});
  return opened;
}

std::optional<std::string> find_absence() {
  if (library().absence()) return library().absence();
  try {
    Functions all;
    all.look_up(library());
    // Another major version has other attributes.
    constexpr size_t kMajor = 9, kOfMajor = 10000;
    if (const size_t found = all.version(); found / kOfMajor != kMajor)
      return formatted("no cuDNN: {} is version {}, and {} is needed", library().name(), found / kOfMajor, kMajor);
    return std::nullopt;
  } catch (const Error& error) {
    return error.message();
  }
}

Functions look_up_cudnn() {
  if (absence())
    throw Error(ErrorKind::Environment, *absence())
        .help("install NVIDIA's cuDNN 9, as PyTorch's package nvidia-cudnn has it, or name the file in TOROID_CUDNN");
  Functions all;
  all.look_up(library());
  return all;
}

}  // namespace

const std::optional<std::string>& absence() {
  static const std::optional<std::string> found = find_absence();
  return found;
}

const Functions& functions() {
  static const Functions all = look_up_cudnn();
  return all;
}

std::string version() {
  const size_t number = functions().version();
  return formatted("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace toroid::cuda::cudnn
