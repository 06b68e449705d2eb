#include "passes/collective.h"

#include <string>

namespace toroid {
namespace {

Tensor last_token(Builder& b) {
  const Graph& graph = b.graph();
  for (size_t i = graph.num_nodes(); i-- > 0;) {
    const Node& node = graph.node(NodeId{static_cast<uint32_t>(i)});
    if (is_collective(node.op)) return b.wrap(node.outputs[1]);
  }
  return b.scalar(DType::I64, sym::Expr(0));
}

}  // namespace

Tensor add_collective(Builder& b, std::string_view name, Tensor x, Sizes sizes, std::vector<Scalar> attributes) {
  return b.library(std::string(kCollectives) + std::string(name), {x, last_token(b)},
                   {{.dtype = x.dtype(), .sizes = std::move(sizes)}, {.dtype = DType::I64, .sizes = {}}}, std::move(attributes))[0];
}

std::optional<int64_t> known_attribute(const Library& collective, size_t i) {
  const auto* const expr = std::get_if<sym::Expr>(&collective.attributes.at(i));
  return expr == nullptr ? std::nullopt : expr->try_value();
}

}  // namespace toroid
