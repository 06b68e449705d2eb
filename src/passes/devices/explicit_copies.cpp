#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/text/text.h"
#include "library/device_copy.h"
#include "passes/devices/placement.h"

namespace toroid {
namespace {

// The part of an operator's name behind its namespace and before its overload: "aten::_to_copy.out" is "_to_copy".
std::string_view short_name(std::string_view name) {
  if (const size_t colon = name.find("::"); colon != std::string_view::npos) name.remove_prefix(colon + 2);
  return name.substr(0, name.find('.'));
}

// Their result is where an argument says, or where what they write to is.
bool may_cross(std::string_view op) {
  constexpr std::string_view kConversions[] = {"to", "_to_copy", "copy_", "copy", "device_put", "_copy_from", "set_", "type_as"};
  constexpr std::string_view kIndexings[] = {"index", "index_put", "index_put_", "_unsafe_index", "_unsafe_index_put", "_index_put_impl_"};
  return std::ranges::find(kConversions, op) != std::end(kConversions) || std::ranges::find(kIndexings, op) != std::end(kIndexings) ||
         op.ends_with("_like") || op.starts_with("new_") || op.starts_with("empty");
}

class ExplicitCopies {
 public:
  ExplicitCopies(const Graph& source, Device gpu) : source_(source), gpu_(gpu), new_ids_(source.num_values()) {
    for (size_t i = 1; i < source.provenances().size(); ++i) target_.add_provenance(source.provenances()[i]);
  }

  Graph run() {
    for (const Node& node : source_.nodes()) add(node);
    const auto translated = [&](const std::vector<ValueId>& values) {
      std::vector<ValueId> result;
      for (ValueId value : values) result.push_back(new_id(value));
      return result;
    };
    target_.inputs = translated(source_.inputs);
    target_.outputs = translated(source_.outputs);
    // assign_devices cannot know where a result is that is made of no tensor. Where it is on the GPU already it is not copied.
    for (size_t i = 0; i < source_.outputs.size(); ++i) {
      const ValueId output = source_.outputs[i];
      const Node& node = source_.producer(output);
      if (is_on_gpu(source_.type(output)) && !std::holds_alternative<Input>(node.op)) target_.outputs[i] = copied(node, output, gpu_);
    }
    for (const SymbolBinding& binding : source_.bindings) target_.bindings.push_back({binding.expr, new_id(binding.value)});
    return std::move(target_);
  }

 private:
  ValueId& new_id(ValueId old) { return new_ids_[static_cast<size_t>(old)]; }

  void add(const Node& node) {
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(new_id(input));
    if (std::holds_alternative<HigherOrder>(node.op)) return add_control_flow(node, std::move(inputs));
    if (!is_library(node.op, kDeviceCopy) && !node.inputs.empty()) {
      const ValueId result = node.outputs.empty() ? node.inputs[0] : node.outputs[0];
      const Device device = source_.type(result).device;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const TensorType& type = source_.type(node.inputs[i]);
        if (type.device == device) continue;
        const bool is_scalar = type.sizes.empty() && !is_on_gpu(type);
        if (!is_scalar && !may_cross(op_name(node))) refuse(node, i, result);
        inputs[i] = copied(node, node.inputs[i], device);
      }
    }
    std::vector<TensorType> types;
    std::vector<std::string> names;
    for (ValueId output : node.outputs) {
      types.push_back(source_.type(output));
      names.push_back(source_.value(output).name);
    }
    const NodeId made = target_.add_node(node.op, std::move(inputs), std::move(types), node.provenance, std::move(names));
    for (size_t i = 0; i < node.outputs.size(); ++i) new_id(node.outputs[i]) = target_.node(made).outputs[i];
  }

  // Of what it holds where the node stands: another node may have written to it since it was copied before.
  ValueId copied(const Node& node, ValueId value, Device device) {
    const TensorType& old = source_.type(value);
    TensorType type{.dtype = old.dtype, .sizes = old.sizes, .device = device};
    const bool to_gpu = device.type == Device::Type::Cuda;
    const NodeId made = target_.add_node(Library{std::string(kDeviceCopy), {sym::Expr(to_gpu ? 1 : 0)}}, {new_id(value)}, {std::move(type)},
                                         node.provenance,
                                         {source_.value(value).name + (to_gpu           ? "_on_gpu"
                                                                       : is_on_gpu(old) ? "_on_cpu"
                                                                                        : "")});
    return target_.node(made).outputs[0];
  }

  std::string_view op_name(const Node& node) const {
    const auto* aten = std::get_if<Aten>(&node.op);
    return aten == nullptr ? std::string_view() : short_name(aten->schema->name);
  }

  std::string described(ValueId value) const {
    return fmt::format("'{}' on {}", source_.value(value).name, to_string(source_.type(value).device));
  }

  [[noreturn]] void refuse(const Node& node, size_t input, ValueId result) const {
    const Device device = source_.type(result).device;
    ValueId other = result;
    for (ValueId each : node.inputs) {
      if (source_.type(each).device == device) other = each;
    }
    const auto* aten = std::get_if<Aten>(&node.op);
    throw Error(ErrorKind::InvalidModel, fmt::format("{} has {} and {}", aten == nullptr ? to_string(node.op) : aten->schema->name,
                                                     described(node.inputs[input]), described(other)))
        .at(to_string(source_.provenance(node.provenance)))
        .help("PyTorch takes tensors of one device, and beside those on a GPU single numbers on the CPU: move one with .to() in the model");
  }

  // All of it is on the GPU, whose planner has the subgraphs: what is on the CPU is copied there, and results that are to be on the CPU
  // are copied back.
  void add_control_flow(const Node& node, std::vector<ValueId> inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!is_on_gpu(source_.type(node.inputs[i]))) inputs[i] = copied(node, node.inputs[i], gpu_);
    }
    std::vector<TensorType> types;
    std::vector<std::string> names;
    for (ValueId output : node.outputs) {
      const bool is_copied = !is_on_gpu(source_.type(output));
      types.push_back(source_.type(output));
      types.back().device = gpu_;
      names.push_back(source_.value(output).name + (is_copied ? "_on_gpu" : ""));
    }
    const NodeId made = target_.add_node(node.op, std::move(inputs), std::move(types), node.provenance, std::move(names));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      new_id(node.outputs[i]) = target_.node(made).outputs[i];
      if (!is_on_gpu(source_.type(node.outputs[i]))) new_id(node.outputs[i]) = copied(node, node.outputs[i], {});
    }
  }

  const Graph& source_;
  const Device gpu_;
  Graph target_;
  std::vector<ValueId> new_ids_;
};

}  // namespace

Placement placement_of(const Program& program) {
  bool has_cpu = false;
  const Value* gpu = nullptr;
  const auto look = [&](const Graph& graph) {
    for (size_t i = 0; i < graph.num_values(); ++i) {
      const Value& value = graph.value(ValueId{static_cast<uint32_t>(i)});
      if (!is_on_gpu(value.type)) {
        has_cpu = true;
        continue;
      }
      if (gpu != nullptr && gpu->type.device != value.type.device) {
        throw Error(ErrorKind::Unsupported, fmt::format("'{}' is on {} and '{}' on {}", gpu->name, to_string(gpu->type.device), value.name,
                                                        to_string(value.type.device)))
            .help("a program has one GPU: compile with --device cuda, which moves all tensors there, or cut the model with --processes");
      }
      gpu = &value;
    }
  };
  look(program.graph);
  for (const Graph& graph : program.subgraphs) look(graph);
  return gpu == nullptr ? Placement::OnCpu : has_cpu ? Placement::Mixed : Placement::OnGpu;
}

void place_together(Program& program) {
  const auto place = [](Graph& graph) {
    for (size_t i = 0; i < graph.num_values(); ++i) graph.value(ValueId{static_cast<uint32_t>(i)}).type.device = {};
  };
  place(program.graph);
  for (Graph& graph : program.subgraphs) place(graph);
}

void make_copies_explicit(Program& program) {
  Device gpu{Device::Type::Cuda, 0};
  const auto each_type = [](Graph& graph, const auto& do_it) {
    for (size_t i = 0; i < graph.num_values(); ++i) do_it(graph.value(ValueId{static_cast<uint32_t>(i)}));
  };
  const auto look = [&](const Value& value) {
    if (is_on_gpu(value.type)) gpu = value.type.device;
  };
  each_type(program.graph, look);
  // A weight has one place. That of a body or a branch is the GPU's, as these are.
  std::set<ConstantId> on_host;
  const auto each_weight_on_host = [&](const Graph& graph, const auto& do_it) {
    for (const Node& node : graph.nodes()) {
      const auto* constant = std::get_if<Constant>(&node.op);
      if (constant != nullptr && !is_on_gpu(graph.type(node.outputs[0])) && !program.constant(constant->id).name.empty())
        do_it(constant->id);
    }
  };
  each_weight_on_host(program.graph, [&](ConstantId id) { on_host.insert(id); });
  for (Graph& graph : program.subgraphs) {
    each_type(graph, look);
    each_weight_on_host(graph, [&](ConstantId id) {
      if (!on_host.contains(id)) return;
      throw Error(ErrorKind::Unsupported,
                  fmt::format("the weight '{}' is on the CPU, and a loop's body or a branch, which the GPU runs, has it too",
                              program.constant(id).name))
          .help("give it to the loop as an operand, which is copied, or compile with --device cuda, which moves all tensors to the GPU");
    });
  }
  program.graph = ExplicitCopies(program.graph, gpu).run();
  for (Graph& graph : program.subgraphs) each_type(graph, [&](Value& value) { value.type.device = gpu; });
}

}  // namespace toroid
