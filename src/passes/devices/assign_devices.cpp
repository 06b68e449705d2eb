#include <map>
#include <optional>

#include "base/error.h"
#include "library/device_copy.h"
#include "passes/dead_code.h"
#include "passes/devices/placement.h"

namespace toroid {
namespace {

class DeviceAssignment {
 public:
  DeviceAssignment(Program& program, Device gpu) : program_(program), source_(program.graph), gpu_(gpu), known_(source_.num_values()) {
    for (size_t i = 1; i < source_.provenances().size(); ++i) target_.add_provenance(source_.provenances()[i]);
  }

  Graph run() {
    for (const Node& node : source_.nodes()) examine(node);
    for (const Node& node : source_.nodes()) {
      const std::optional<Device> device = node.outputs.empty() ? std::nullopt : known(node.outputs[0]);
      if (device) add(node, *device);
    }
    for (ValueId input : source_.inputs) target_.inputs.push_back(in(input, *known(input)));
    for (ValueId output : source_.outputs) target_.outputs.push_back(in(output, known(output).value_or(without_operands(output))));
    for (const SymbolBinding& binding : source_.bindings)
      target_.bindings.push_back({binding.expr, in(binding.value, known(binding.value).value_or(Device{}))});
    return std::move(target_);
  }

 private:
  // None: what has no operands, or none of those has a device.
  std::optional<Device>& known(ValueId id) { return known_[static_cast<size_t>(id)]; }

  static bool is_copy(const Node& node) { return is_library(node.op, kDeviceCopy); }
  Device device_of_copy(const Node& node) const {
    const auto* to = std::get_if<sym::Expr>(&std::get<Library>(node.op).attributes.at(0));
    return to != nullptr && !to->is_const(0) ? gpu_ : Device{};
  }

  // Of a result that is made of no tensor: where a copy brings it, or where this was told already.
  Device without_operands(ValueId id) const {
    const Node& node = source_.producer(id);
    return is_copy(node) ? device_of_copy(node) : source_.type(id).device;
  }

  void examine(const Node& node) {
    std::optional<Device> device;
    if (std::holds_alternative<Input>(node.op)) {
      device = source_.type(node.outputs[0]).device;
    } else if (const auto* constant = std::get_if<Constant>(&node.op)) {
      if (!is_literal(constant->id)) device = program_.constant(constant->id).type.device;
    } else if (is_copy(node)) {
      if (known(node.inputs[0])) device = device_of_copy(node);
    } else {
      for (ValueId input : node.inputs) {
        if (!known(input)) continue;
        TOROID_CHECK(!device || *device == *known(input), "the operands of a node that gives '{}' are on two devices",
                     node.outputs.empty() ? "" : source_.value(node.outputs[0]).name);
        device = known(input);
      }
    }
    for (ValueId output : node.outputs) known(output) = device;
  }

  // Its value on this device, where it is, or has none of its own.
  ValueId in(ValueId id, Device device) {
    const auto key = std::pair(id, device.type == Device::Type::Cuda);
    if (const auto found = made_.find(key); found != made_.end()) return found->second;
    TOROID_CHECK(!known(id), "'{}' is used on a device where it is not", source_.value(id).name);
    add(source_.producer(id), device);
    return made_.at(key);
  }

  void add(const Node& node, Device device) {
    const bool is_gpu = device.type == Device::Type::Cuda;
    if (is_copy(node)) {
      const ValueId from = node.inputs[0];
      const auto key = std::pair(node.outputs[0], is_gpu);
      if (!known(from) || *known(from) == device) return made_.insert_or_assign(key, in(from, device)), void();
      made_.insert_or_assign(key, emit(node, node.op, {in(from, *known(from))}, device)[0]);
      return;
    }
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(in(input, device));
    Op op = node.op;
    if (auto* constant = std::get_if<Constant>(&op); constant != nullptr && is_literal(constant->id))
      *constant = {literal_on(constant->id, device)};
    const std::vector<ValueId> outputs = emit(node, std::move(op), std::move(inputs), device);
    for (size_t i = 0; i < outputs.size(); ++i) made_.insert_or_assign({node.outputs[i], is_gpu}, outputs[i]);
  }

  std::vector<ValueId> emit(const Node& node, Op op, std::vector<ValueId> inputs, Device device) {
    std::vector<TensorType> types;
    std::vector<std::string> names;
    for (ValueId output : node.outputs) {
      types.push_back(source_.type(output));
      types.back().device = device;
      names.push_back(source_.value(output).name);
    }
    const NodeId made = target_.add_node(std::move(op), std::move(inputs), std::move(types), node.provenance, std::move(names));
    return target_.node(made).outputs;
  }

  // Without a name nobody can give it another value, and passes make such where they compute what they know.
  bool is_literal(ConstantId id) const { return program_.constant(id).name.empty() && !program_.constant(id).is_buffer; }
  // The literal on the device: that of the first use, or another one with the same bytes.
  ConstantId literal_on(ConstantId id, Device device) {
    const auto [first, is_first] = first_use_.try_emplace(id, device);
    if (is_first || first->second == device) {
      program_.constants[static_cast<size_t>(id)].type.device = device;
      return id;
    }
    const auto [other, is_new] = second_use_.try_emplace(id, ConstantId{});
    if (is_new) {
      ConstantData data = program_.constant(id);
      data.type.device = device;
      other->second = program_.add_constant(std::move(data));
    }
    return other->second;
  }

  Program& program_;
  const Graph& source_;
  const Device gpu_;
  Graph target_;
  std::vector<std::optional<Device>> known_;
  std::map<std::pair<ValueId, bool>, ValueId> made_;  // by value and: on the GPU?
  std::map<ConstantId, Device> first_use_;
  std::map<ConstantId, ConstantId> second_use_;
};

}  // namespace

void assign_devices(Program& program) {
  Device gpu{Device::Type::Cuda, 0};
  const auto look = [&](const TensorType& type) {
    if (is_on_gpu(type)) gpu = type.device;
  };
  for (size_t i = 0; i < program.graph.num_values(); ++i) look(program.graph.type(ValueId{static_cast<uint32_t>(i)}));
  for (const ConstantData& constant : program.constants) look(constant.type);
  program.graph = DeviceAssignment(program, gpu).run();
  remove_dead_code(program);
}

}  // namespace toroid
