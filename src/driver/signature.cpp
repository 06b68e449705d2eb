#include "driver/signature.h"

#include "graph/text/text.h"
#include "runtime/contract/contract.h"

namespace toroid {

Program signature_of(const ToroidVariant& variant) {
  Program signature = parse_text(variant.signature);
  for (const ToroidOutputInfo& output : rows(variant.outputs, variant.num_outputs))
    signature.outputs.push_back({static_cast<OutputKind>(output.kind), output.target, output.name});
  return signature;
}

}  // namespace toroid
