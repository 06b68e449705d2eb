// Rows that do not begin at multiples of 16 bytes, as those of 50257 16-bit floats: neither TMA nor an access of 16 bytes reads or writes
// them.
//
// Temporaries that matrix products of 16-bit floats write or read get rows that lie further apart: a multiple of 128 bytes, or of 16 where
// rows are short. What is computed element by element follows, for positions come from strides.
//
//   buffer logits: bf16[4096, 50257]      =>      buffer logits: bf16[4096, 50257] strides [50304, 1]
//
// Other operands, inputs and constants, are copied into such rows: constants once, inputs where that costs little beside the product.
// Outputs of the program keep their layout.
#pragma once

#include <optional>

#include "loop/loop.h"

namespace toroid::schedule {

struct PaddingRule {
  bool copies = true;  // else only temporaries are laid out anew
  // Of a program with some of its tensors on the host: those there, or all others.
  std::optional<bool> on_host = {};
};
// Before computations are grouped.
void pad_rows(loop::LoopProgram& program, const PaddingRule& rule);

}  // namespace toroid::schedule
