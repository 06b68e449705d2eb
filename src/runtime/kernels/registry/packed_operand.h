// An operand in the layout that a plan's loops read: of a constant it is packed when the plan is made, of others in each call.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "runtime/kernels/registry/library.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/memory/scratch.h"

namespace toroid {

// Where the operand's `batch`-th matrix begins.
inline const void* data_of_batch(const ToroidOperand& operand, int64_t batch) {
  return static_cast<const std::byte*>(operand.data) + batch_offset(operand, operand.rank - 2, batch) * size_bytes(dtype_of(operand));
}

inline Scratch scratch_for_packed_operand;

class PackedOperand {
 public:
  // Writes what is made of the `batch`-th matrix of the call's operand.
  using Pack = std::function<void(const KernelCall& call, int64_t batch, float* to)>;

  // The call's `input`-th operand, `batches` matrices of it, each packed as `floats` numbers; `layout`: as in PreparedConstants.
  template <class Layout>
  PackedOperand(const KernelCall& call, size_t input, const Layout& layout, int64_t floats, Pack pack, int64_t batches = 1)
      : floats_(floats), pack_(std::move(pack)) {
    const ToroidOperand& operand = call.inputs[input];
    if (!call.keeps(operand)) return;
    for (int64_t batch = 0; batch < batches; ++batch) {
      kept_.push_back(call.prepared->get(data_of_batch(operand, batch), layout, floats, [&](float* to) { pack_(call, batch, to); }));
    }
  }

  // The packed matrix; of what is no constant it is this thread's until it asks for another.
  const float* of(const KernelCall& call, int64_t batch = 0) const {
    if (!kept_.empty()) return kept_[static_cast<size_t>(batch)];
    float* const to = scratch_for_packed_operand.get(floats_);
    pack_(call, batch, to);
    return to;
  }
  // Of a constant.
  const float* kept() const { return kept_.at(0); }

 private:
  int64_t floats_;
  Pack pack_;
  std::vector<const float*> kept_;  // of each batch; empty: it is no constant
};

}  // namespace toroid
