#include "interp/library_kernels.h"

#include "interp/backward_weights.h"
#include "interp/fourier.h"
#include "interp/grouped_product.h"
#include "interp/order.h"

namespace toroid {
namespace {

constexpr LibraryOp kOwn[] = {
    {"order.topk", order::topk},
    {"order.kth", order::kth},
    {"order.median", order::median},
    {"order.mode", order::mode},
    {"order.search", order::search},
    {"order.positions", order::positions},
    {"fourier.transform", fourier::transform},
    {"fourier.half", fourier::half},
    {"fourier.real", fourier::real},
    {"products.grouped", grouped_product},
    {"convolution.backward_weights", backward_weights},
};

}  // namespace

LibraryKernel find_evaluated_kernel(std::string_view name) {
  for (const LibraryOp& op : kOwn) {
    if (op.name == name) return op.kernel;
  }
  const LibraryOp* shared = find_library_op(name);
  return shared == nullptr ? nullptr : shared->kernel;
}

}  // namespace toroid
