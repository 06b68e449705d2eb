// ATen's products with weights of 4 bits. Their layout depends on the machine that packs them (formula/quantization/integer_weights.h). A
// file does not tell which that was, so only what the program packs itself is unpacked.
#include <fmt/format.h>

#include "base/error.h"
#include "formula/quantization/integer_weights.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

std::vector<Tensor> pack_int4(Decomposer&, const Args& a) { return {formula::pack_int4(a.tensor("self"))}; }

void refuse_stored(const Args& a, Tensor packed) {
  const Graph& graph = packed.builder().graph();
  const Node* node = &graph.producer(packed.id());
  while (std::holds_alternative<Reshape>(node->op) || std::holds_alternative<Slice>(node->op)) node = &graph.producer(node->inputs[0]);
  if (!std::holds_alternative<Input>(node->op) && !std::holds_alternative<Constant>(node->op)) return;
  throw Error(ErrorKind::Unsupported,
              fmt::format("{} of weights that were packed before the export: for which machine, the file does not tell", a.schema().name))
      .help("pack them in the model with _convert_weight_to_int4pack_for_cpu, or dequantise them there");
}

std::vector<Tensor> int4_weight_product(Decomposer&, const Args& a) {
  Tensor x = a.tensor("self"), packed = a.tensor("mat2");
  refuse_stored(a, packed);
  return {formula::int4_weight_product(x, formula::unpack_int4(packed), a.tensor("qScaleAndZeros"), a.integer("qGroupSize"))};
}

constexpr DecompositionRow kPackedWeightRows[] = {
    {"aten::_convert_weight_to_int4pack_for_cpu", pack_int4},
    {"aten::_weight_int4pack_mm_for_cpu", int4_weight_product},
};

}  // namespace

std::span<const DecompositionRow> packed_weight_rows() { return kPackedWeightRows; }

}  // namespace toroid
