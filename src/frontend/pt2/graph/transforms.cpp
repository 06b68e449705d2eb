#include <fmt/format.h>

#include "base/error.h"
#include "frontend/pt2/graph/graph_importer.h"
#include "frontend/pt2/provenance.h"
#include "graph/builder.h"
#include "graph/control_flow.h"

namespace toroid::pt2 {

ValueId GraphImporter::moved(ValueId x, int64_t from, int64_t to, ProvenanceId place) {
  if (from == to) return x;
  TensorType type = graph_.type(x);
  auto move = [&](std::vector<sym::Expr>& list) {
    const sym::Expr entry = list[static_cast<size_t>(from)];
    list.erase(list.begin() + from);
    list.insert(list.begin() + to, entry);
  };
  if (type.strides.empty()) type.strides = contiguous_strides(type.sizes);
  move(type.sizes);
  move(type.strides);
  const Schema* schema = find_schema("aten::movedim.int");
  TOROID_CHECK(schema != nullptr, "aten::movedim.int has a schema");
  std::vector<Argument> arguments = {InputRef{0}, sym::Expr(from), sym::Expr(to)};
  const NodeId node = graph_.add_node(Aten{schema, std::move(arguments)}, {x}, {std::move(type)}, place, {graph_.value(x).name + "_moved"});
  return graph_.node(node).outputs[0];
}

void GraphImporter::import_vmap(const JsonValue& begin, std::span<const JsonValue> nodes) {
  ErrorContext context("importing the vmap at node '{}'", name_of_node(begin).substr(0, 200));
  const JsonMember& randomness = argument(begin, 1);
  if (randomness.key != "as_string") begin.fail("the randomness of a vmap is no string");
  const ProvenanceId place = graph_.add_provenance(read_provenance("torch::vmap", name_of_node(begin), begin.find_value("metadata")));
  Graph body;
  GraphImporter inner(import_, body, json_, autocast_, this);
  inner.open_jvps_ = open_jvps_;
  std::vector<ValueId> mapped;
  std::vector<const JsonValue*> stacked;
  // Nested ones come whole: theirs are not of this vmap.
  size_t depth = 0;
  for (const JsonValue& node : nodes) {
    const std::string_view target = node.at("target").as_string();
    depth += target == kVmapBegins ? 1 : 0;
    if (depth == 0 && target == kMapped) {
      const ValueId whole = tensor(tensor_argument(node, 0));
      const int64_t rank = graph_.type(whole).rank(), dim = integer_argument(node, 1);
      if (dim < -rank || dim >= rank) node.fail("the mapped dim is none of the tensor's");
      mapped.push_back(moved(whole, dim < 0 ? dim + rank : dim, 0, place));
      inner.add_input(only_output(node));
    }
    if (depth == 0 && target == kStacked) stacked.push_back(&node);
    depth -= target == kVmapEnds ? 1 : 0;
  }
  if (mapped.empty()) begin.fail("a vmap over no tensor");
  inner.import_vmap_body(nodes);
  std::vector<Device> devices;
  std::vector<std::string> names;
  for (const JsonValue* node : stacked) {
    body.outputs.push_back(inner.tensor(tensor_argument(*node, 0)));
    devices.push_back(body.type(body.outputs.back()).device);
    names.push_back(value_name(only_output(*node).as_string()));
  }
  import_.program.subgraphs.push_back(std::move(body));

  InputList slices, others;
  std::vector<ValueId> inputs = mapped;
  inputs.insert(inputs.end(), inner.captured_.begin(), inner.captured_.end());
  for (uint32_t i = 0; i < inputs.size(); ++i) (i < mapped.size() ? slices : others).push_back(InputRef{i});
  const auto graph = static_cast<uint32_t>(import_.program.subgraphs.size() - 1);
  const HigherOrder op{"vmap", {SubgraphRef{graph}, slices, others, std::string(randomness.value.as_string())}};
  std::vector<TensorType> types = types_of_control_flow(op, inputs);
  for (size_t i = 0; i < types.size(); ++i) types[i].device = devices[i];
  const NodeId node = graph_.add_node(op, std::move(inputs), std::move(types), place, std::move(names));
  for (size_t i = 0; i < stacked.size(); ++i) {
    const ValueId result = graph_.node(node).outputs[i];
    const int64_t rank = graph_.type(result).rank(), dim = integer_argument(*stacked[i], 3);
    if (dim < -rank || dim >= rank) stacked[i]->fail("the results' dim is none of theirs");
    define(only_output(*stacked[i]), moved(result, 0, dim < 0 ? dim + rank : dim, place));
  }
}

void GraphImporter::import_vmap_body(std::span<const JsonValue> nodes) {
  size_t depth = 0, first = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string_view target = nodes[i].at("target").as_string();
    depth += target == kVmapBegins ? 1 : 0;
    if (depth == 0 && (target == kMapped || target == kStacked)) {
      import_nodes(nodes.subspan(first, i - first));
      first = i + 1;
    }
    depth -= target == kVmapEnds ? 1 : 0;
  }
  import_nodes(nodes.subspan(first));
}

void GraphImporter::add_dual(const JsonValue& node, std::string_view op, uint32_t tensors, ProvenanceId place) {
  const Schema* schema = find_schema(op);
  TOROID_CHECK(schema != nullptr, "{} has a schema", op);
  std::vector<Argument> arguments;
  std::vector<ValueId> inputs;
  for (uint32_t i = 0; i < tensors; ++i) {
    arguments.emplace_back(InputRef{i});
    inputs.push_back(tensor(tensor_argument(node, i)));
  }
  arguments.emplace_back(sym::Expr(open_jvps_));
  add_outputs(node, Aten{schema, std::move(arguments)}, std::move(inputs), place);
}

}  // namespace toroid::pt2
