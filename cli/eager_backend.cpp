#include "eager_backend.h"

#include <algorithm>
#include <deque>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "driver/compile.h"
#include "driver/eager/eager_cache.h"
#include "interp/evaluate.h"
#include "passes/decompose/engine/decompose.h"
#include "signature/symbol_values.h"
#include "support/match.h"
#include "tensor/strided_copy.h"

namespace toroid::cli {
namespace {

// A tensor as the model has it, with its strides.
struct Placed {
  DType dtype = DType::F32;
  std::vector<int64_t> sizes, strides;
  std::vector<std::byte> bytes;

  TensorView view() { return {bytes.data(), dtype, sizes, strides}; }
  HostTensor read() const {
    HostTensor tensor(dtype, sizes);
    copy_strided(tensor.mutable_data<std::byte>(), strides_of(sizes), bytes.data(), strides, sizes, static_cast<size_t>(size_bytes(dtype)));
    return tensor;
  }
};

Placed placed(const HostTensor& tensor, std::vector<int64_t> strides) {
  Placed made{tensor.dtype(), tensor.sizes(), std::move(strides), {}};
  if (made.strides.empty()) made.strides = strides_of(made.sizes);
  const auto width = static_cast<size_t>(size_bytes(made.dtype));
  made.bytes.resize(needed_bytes(made.sizes, made.strides, static_cast<int64_t>(width), "a tensor"));
  copy_strided(made.bytes.data(), made.strides, tensor.bytes().data(), strides_of(made.sizes), made.sizes, width);
  return made;
}

// The arguments of a node for one call, with the lists that they refer to.
class Arguments {
 public:
  Arguments(const Node& node, std::deque<Placed>& values, const SymbolValues& symbols) : node_(node), values_(values), symbols_(symbols) {
    for (const Argument& argument : std::get<Aten>(node.op).arguments) arguments.push_back(converted(argument));
  }
  std::vector<EagerArgument> arguments;

 private:
  TensorView view(InputRef ref) { return values_[static_cast<size_t>(node_.inputs[ref.index])].view(); }
  template <class T>
  std::span<const T> kept(std::deque<std::vector<T>>& lists, std::vector<T> list) {
    return lists.emplace_back(std::move(list));
  }

  EagerArgument converted(const Argument& argument) {
    return match(
        argument, [&](InputRef ref) -> EagerArgument { return view(ref); },
        [&](const InputList& list) -> EagerArgument {
          std::vector<std::optional<TensorView>> tensors;
          for (const auto& ref : list) tensors.push_back(ref ? std::optional(view(*ref)) : std::nullopt);
          return kept(tensors_, std::move(tensors));
        },
        [&](sym::Expr expr) -> EagerArgument { return symbols_.evaluate(expr); },
        [&](const ExprList& list) -> EagerArgument { return kept(integers_, symbols_.evaluate(list)); },
        [&](const std::vector<double>& list) -> EagerArgument { return std::span<const double>(list); },
        [&](const std::vector<bool>& list) -> EagerArgument {
          bool* const flags = flags_.emplace_back(std::make_unique<bool[]>(list.size())).get();
          std::copy(list.begin(), list.end(), flags);
          return std::span<const bool>(flags, list.size());
        },
        [](const std::string& text) -> EagerArgument { return std::string_view(text); },
        [](const std::vector<std::string>&) -> EagerArgument { throw Error(ErrorKind::Unsupported, "lists of texts are not supported"); },
        [](SubgraphRef) -> EagerArgument { throw Error(ErrorKind::Unsupported, "subgraphs are not supported"); },
        [](const auto& value) -> EagerArgument { return value; });
  }

  const Node& node_;
  std::deque<Placed>& values_;
  const SymbolValues& symbols_;
  std::deque<std::vector<std::optional<TensorView>>> tensors_;
  std::deque<std::vector<int64_t>> integers_;
  std::deque<std::unique_ptr<bool[]>> flags_;
};

class OneByOne : public Callable {
 public:
  OneByOne(Program program, const LoadOptions& options)
      : program_(std::move(program)),
        session_(options.use_cache),
        eager_(session_, {.threads = options.threads, .exact_forms = options.backend == "eager-general" ? size_t{0} : size_t{2}}),
        plan_(plan_bindings(program_)) {
    eager_.set_seed(options.seed);
    core_ = specialise(program_, {});
    decompose(core_);
  }
  const Program& program() const override { return core_; }

  std::vector<HostTensor> call(std::span<const HostTensor> inputs) override {
    const Graph& graph = program_.graph;
    std::vector<InputShape> shapes;
    for (const HostTensor& input : inputs) shapes.push_back({input.dtype(), input.sizes()});
    SymbolValues symbols = bind_symbols(program_, plan_, shapes);
    std::deque<Placed> values(graph.num_values());
    for (const Node& node : graph.nodes()) {
      if (const auto* input = std::get_if<Input>(&node.op)) {
        const TensorType& type = graph.type(node.outputs[0]);
        values[static_cast<size_t>(node.outputs[0])] =
            placed(inputs[input->index], type.strides.empty() ? std::vector<int64_t>() : symbols.evaluate(type.strides));
      } else if (const auto* constant = std::get_if<Constant>(&node.op)) {
        values[static_cast<size_t>(node.outputs[0])] = placed(constant_tensor(program_.constant(constant->id)), {});
      } else if (std::holds_alternative<Aten>(node.op)) {
        run(node, values, symbols);
      } else {
        throw Error(ErrorKind::Unsupported, "only PyTorch's operators can be called one by one").help("use the backend cpu");
      }
      for (const SymbolBinding& binding : graph.bindings) {
        if (graph.value(binding.value).producer != NodeId{static_cast<uint32_t>(&node - graph.nodes().data())}) continue;
        symbols.bind(binding.expr, values[static_cast<size_t>(binding.value)].read().int_at(0));
      }
    }
    std::vector<HostTensor> outputs;
    for (ValueId output : graph.outputs) outputs.push_back(values[static_cast<size_t>(output)].read());
    return outputs;
  }

 private:
  void run(const Node& node, std::deque<Placed>& values, const SymbolValues& symbols) {
    const Aten& aten = std::get<Aten>(node.op);
    if (aten.schema->name == "aten::detach_") {  // only gradients would see it
      values[static_cast<size_t>(node.outputs[0])] = values[static_cast<size_t>(node.inputs[0])];
      return;
    }
    refuse_shared_writes(node);
    const Arguments made(node, values, symbols);
    std::vector<HostTensor> results = eager_.call(aten.schema->name, made.arguments);
    // Results that are arguments are not among those given.
    size_t next = 0;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      Placed& value = values[static_cast<size_t>(node.outputs[i])];
      if (const std::optional<ValueId> argument = argument_of_result(node, i)) {
        value = values[static_cast<size_t>(*argument)];
      } else if (next < results.size() && results[next].bytes().data() != nullptr) {
        value = placed(results[next++], {});
      } else {
        ++next;
      }
    }
  }

  // The i-th result, when it is one of the arguments.
  static std::optional<ValueId> argument_of_result(const Node& node, size_t i) {
    const Aten& aten = std::get<Aten>(node.op);
    const Schema& schema = *aten.schema;
    const Parameter& result = schema.results[std::min(i, schema.results.size() - 1)];
    for (size_t p = 0; p < schema.parameters.size(); ++p) {
      if (!schema.parameters[p].mutated || result.alias.empty() || schema.parameters[p].alias != result.alias) continue;
      if (const auto* ref = std::get_if<InputRef>(&aten.arguments[p])) return node.inputs[ref->index];
      const auto* list = std::get_if<InputList>(&aten.arguments[p]);
      if (list != nullptr && i < list->size() && (*list)[i]) return node.inputs[(*list)[i]->index];
    }
    return std::nullopt;
  }

  // A write that others would see: to a value that another node made a view of, or that may be one.
  void refuse_shared_writes(const Node& node) const {
    const Aten& aten = std::get<Aten>(node.op);
    for (size_t p = 0; p < aten.arguments.size(); ++p) {
      if (!aten.schema->parameters[p].mutated) continue;
      std::vector<ValueId> written;
      if (const auto* ref = std::get_if<InputRef>(&aten.arguments[p])) written.push_back(node.inputs[ref->index]);
      if (const auto* list = std::get_if<InputList>(&aten.arguments[p])) {
        for (const auto& ref : *list) written.push_back(node.inputs[ref->index]);
      }
      for (ValueId value : written) {
        const auto* made_by = std::get_if<Aten>(&program_.graph.producer(value).op);
        bool is_shared = made_by != nullptr && (made_by->schema->is_view() || made_by->schema->mutates());
        for (const Node& each : program_.graph.nodes()) {
          const auto* user = std::get_if<Aten>(&each.op);
          if (user == nullptr || &each == &node || !(user->schema->is_view() || user->schema->mutates())) continue;
          is_shared = is_shared || std::find(each.inputs.begin(), each.inputs.end(), value) != each.inputs.end();
        }
        if (is_shared) {
          throw Error(ErrorKind::Unsupported,
                      fmt::format("{} writes to memory that several tensors show, which operators called one by one do not share",
                                  aten.schema->name));
        }
      }
    }
  }

  Program program_;  // at import level
  Program core_;
  CompileSession session_;
  EagerCache eager_;
  BindingPlan plan_;
};

}  // namespace

std::unique_ptr<Callable> eager_backend(Program program, const LoadOptions& options) {
  return std::make_unique<OneByOne>(std::move(program), options);
}

}  // namespace toroid::cli
