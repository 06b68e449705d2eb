#include "runtime/cuda/early_start.h"

#include "base/error.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/matmul.h"

namespace toroid::cuda {
namespace {

template <class F>
std::thread tried(F f) {
  return std::thread([f] {
    try {
      f();
    } catch (const std::exception&) {
    }
  });
}

}  // namespace

EarlyStart::EarlyStart(int gpu, Vendor vendor)
    : device_((use(vendor), tried([gpu] { static_cast<void>(Device::get(gpu).context()); }))),
      products_(tried([] { Products::open_library(); })) {}

EarlyStart::~EarlyStart() {
  device_.join();
  products_.join();
}

}  // namespace toroid::cuda
